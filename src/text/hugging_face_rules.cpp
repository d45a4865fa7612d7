// What the tokenizer.json of Hugging Face's tokenizers does to a text besides merging, from bpe_files.h.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "text/bpe_files.h"
#include "text/bpe_vocabulary.h"
#include "text/sentencepiece_file.h"

namespace inkling {

namespace {

using Names = std::initializer_list<std::string_view>;

// The steps that a field of the file takes one after the other: none where it is null, and those of a Sequence.
void add_steps(const JsonFields& step, const char* members, std::vector<JsonFields>& steps) {
  if (step.text("type") != "Sequence") return steps.push_back(step);
  step.refuse_unknown({"type", members});
  for (const JsonFields& one : step.sections(members)) add_steps(one, members, steps);
}

std::vector<JsonFields> steps_of(const JsonFields& json, const char* field, const char* members) {
  std::vector<JsonFields> steps;
  if (json.has(field)) add_steps(json.section(field), members, steps);
  return steps;
}

bool is_step(const JsonFields& step, std::string_view type) { return step.text("type") == type; }

bool has_byte_level(const std::vector<JsonFields>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const auto& step) { return is_step(step, "ByteLevel"); });
}

[[noreturn]] void refuse_step(const JsonFields& step, Names known) {
  std::vector<std::string> words;
  if (std::find(known.begin(), known.end(), step.text("type")) != known.end()) {
    step.refuse_value("type", "another step, or none: inkling computes it once, and not behind the steps before it");
  }
  for (const std::string_view name : known) words.push_back(quote(name));
  step.refuse_value("type", str(join(words, " or "), " in this place"));
}

void require_flag(const JsonFields& step, const char* name, bool value, bool missing) {
  if (step.optional_flag(name).value_or(missing) != value) step.refuse_value(name, value ? "true" : "false");
}

void require_text(const JsonFields& json, const char* name, std::string_view value) {
  if (json.text(name) != value) json.refuse_value(name, quote(value));
}

// Throws where a field has another value than the one that leaves text alone. A field that is missing is fine.
void require_off(const JsonFields& json, std::string_view name) {
  const std::string value = json.has(name) ? json.json(name) : "null";
  for (const char* off : {"null", "false", "\"\"", "0", "0.0"}) {
    if (value == off) return;
  }
  json.refuse_value(name, "null or false");
}

void require_string_pattern(const JsonFields& step, std::string_view text) {
  const JsonFields pattern = step.section("pattern");
  pattern.refuse_unknown({"String"});
  require_text(pattern, "String", text);
}

// A byte-level BPE: GPT-2's and its like.

// The words are those of another pre-tokenizer where there is one in front.
void require_byte_level(const JsonFields& step, bool cuts_words) {
  if (!is_step(step, "ByteLevel")) refuse_step(step, {"ByteLevel"});
  step.refuse_unknown({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  require_off(step, "add_prefix_space");
  require_flag(step, "use_regex", cuts_words, true);
}

// Each of them leaves every match of the expression a word of its own, and an expression of ours matches all of a text.
void require_words_kept(const JsonFields& split) {
  split.refuse_unknown({"type", "pattern", "behavior", "invert"});
  const std::string behavior = split.text("behavior");
  const bool inverts = split.optional_flag("invert").value_or(false);
  if (behavior == "Isolated") return;
  if (behavior == "Contiguous" || !inverts) {
    split.refuse_value("behavior", inverts ? "\"Isolated\" or \"Removed\"" : "\"Isolated\", unless invert is true");
  }
  for (const char* known : {"Removed", "MergedWithPrevious", "MergedWithNext"}) {
    if (behavior == known) return;
  }
  split.refuse_value("behavior", "\"Isolated\" or \"Removed\"");
}

Pattern read_words(const JsonFields& step) {
  if (is_step(step, "Digits")) {
    step.refuse_unknown({"type", "individual_digits"});
    return step.optional_flag("individual_digits").value_or(false) ? Pattern::smollm2 : Pattern::numbers;
  }
  if (!is_step(step, "Split")) refuse_step(step, {"Split", "Digits", "ByteLevel"});
  require_words_kept(step);
  const JsonFields pattern = step.section("pattern");
  pattern.refuse_unknown({"Regex"});
  if (const auto known = pattern_of_expression(pattern.text("Regex"))) return *known;
  pattern.refuse_value("Regex", "the expression of GPT-2, cl100k, Llama 3 or Qwen2, which inkling knows");
}

void read_byte_level(const JsonFields& json, const std::vector<JsonFields>& steps, BpeVocabulary& vocabulary) {
  for (const JsonFields& step : steps_of(json, "normalizer", "normalizers")) {
    if (!is_step(step, "NFC")) refuse_step(step, {"NFC"});
    step.refuse_unknown({"type"});
    vocabulary.composes = true;
  }
  if (steps.empty())
    json.refuse("pre_tokenizer is null or has no step, and must be a ByteLevel where the decoder is one");
  if (steps.size() > 2) refuse_step(steps[1], {"ByteLevel"});
  const Pattern words = steps.size() == 2 ? read_words(steps.front()) : Pattern::gpt2;
  const bool cuts_again = steps.size() == 1 || words == Pattern::smollm2 || words == Pattern::numbers;
  require_byte_level(steps.back(), cuts_again);
  vocabulary.pattern = words;
  const std::vector<JsonFields> back = steps_of(json, "decoder", "decoders");
  if (back.empty()) json.refuse("decoder is null or has no step, and must be a ByteLevel");
  for (const JsonFields& step : back) {
    if (!is_step(step, "ByteLevel")) refuse_step(step, {"ByteLevel"});
  }
}

// A BPE of characters: sentencepiece's, and inkling's own vocabularies of characters.

// Which space Metaspace puts in front; older files say it by add_prefix_space.
PrefixSpace read_prefix_scheme(const JsonFields& step) {
  const std::string scheme = step.optional_text("prepend_scheme").value_or("always");
  if (step.optional_flag("add_prefix_space") == false) {
    if (step.has("prepend_scheme") && scheme != "never") {
      step.refuse_value("add_prefix_space", str("true beside the prepend_scheme ", quote(scheme)));
    }
    return PrefixSpace::never;
  }
  if (scheme == "first") return PrefixSpace::first_unless_there;
  if (scheme == "always") return PrefixSpace::all_unless_there;
  if (scheme != "never") step.refuse_value("prepend_scheme", "\"always\", \"first\" or \"never\"");
  return PrefixSpace::never;
}

void read_character_normalizer(const JsonFields& json, CharacterRules& rules) {
  for (const JsonFields& step : steps_of(json, "normalizer", "normalizers")) {
    if (is_step(step, "Prepend") && rules.prefix == PrefixSpace::never && !rules.space_signs) {
      step.refuse_unknown({"type", "prepend"});
      require_text(step, "prepend", space_sign);
      rules.prefix = PrefixSpace::all;
    } else if (is_step(step, "Replace") && !rules.space_signs) {
      step.refuse_unknown({"type", "pattern", "content"});
      require_string_pattern(step, " ");
      require_text(step, "content", space_sign);
      rules.space_signs = true;
    } else {
      refuse_step(step, {"Prepend", "Replace"});
    }
  }
  if (rules.prefix != PrefixSpace::never && !rules.space_signs) {
    json.refuse_value("normalizer", "followed by a Replace of \" \" by U+2581, where there is a Prepend");
  }
}

void read_character_words(const std::vector<JsonFields>& steps, CharacterRules& rules) {
  for (const JsonFields& step : steps) {
    if (is_step(step, "Split") && !rules.cuts_lines && !rules.space_signs) {
      step.refuse_unknown({"type", "pattern", "behavior", "invert"});
      require_string_pattern(step, "\n");
      require_text(step, "behavior", "MergedWithPrevious");
      require_flag(step, "invert", false, false);
      rules.cuts_lines = true;
    } else if (is_step(step, "Metaspace")) {
      step.refuse_unknown({"type", "replacement", "prepend_scheme", "add_prefix_space", "split"});
      require_text(step, "replacement", space_sign);
      rules.space_signs = true;
      const PrefixSpace prefix = read_prefix_scheme(step);
      if (rules.prefix == PrefixSpace::never) rules.prefix = prefix;  // or a space is there already
      rules.cuts_spaces = step.optional_flag("split").value_or(true);
      if (rules.cuts_lines && rules.prefix != PrefixSpace::never) {
        step.refuse_value("prepend_scheme", "\"never\" where the text is split before");
      }
    } else {
      refuse_step(step, {"Metaspace", "Split"});
    }
  }
}

// Its words are the text again where signs become spaces and <0x0A> the byte.
void check_character_decoder(const JsonFields& json, const CharacterRules& rules, bool spells_bytes) {
  bool has_spaces = !rules.space_signs, has_bytes = !spells_bytes, fuses = false;
  for (const JsonFields& step : steps_of(json, "decoder", "decoders")) {
    if (!rules.space_signs && (is_step(step, "Replace") || is_step(step, "Metaspace"))) {
      json.refuse(str("normalizer is ", json.has("normalizer") ? "without a Replace" : "null",
                      ", so that no space is written as U+2581, and decoder has a ", step.text("type")));
    }
    if (is_step(step, "Replace")) {
      require_string_pattern(step, space_sign);
      require_text(step, "content", " ");
      has_spaces = true;
    } else if (is_step(step, "ByteFallback")) {
      has_bytes = true;
    } else if (is_step(step, "Metaspace")) {
      require_text(step, "replacement", space_sign);
      has_spaces = fuses = true;
    } else if (is_step(step, "Strip")) {
      require_text(step, "content", " ");
      if (step.whole("start", 0) > 1) step.refuse_value("start", "0 or 1");
      if (step.whole("stop", 0) != 0) step.refuse_value("stop", "0");
    } else if (is_step(step, "Fuse")) {
      fuses = true;
    } else {
      refuse_step(step, {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"});
    }
  }
  if (has_spaces && has_bytes && fuses) return;
  json.refuse(str("decoder lacks ",
                  !has_spaces  ? "a Replace of U+2581 by \" \""
                  : !has_bytes ? "ByteFallback"
                               : "Fuse",
                  ", without which the text does not come back"));
}

// The token in front of a text, if the post-processor puts one there and nothing behind.
std::optional<Token> read_post_processor(const JsonFields& json) {
  std::optional<Token> first;
  for (const JsonFields& step : steps_of(json, "post_processor", "processors")) {
    if (is_step(step, "ByteLevel")) continue;  // about the places of tokens in the text
    if (!is_step(step, "TemplateProcessing")) refuse_step(step, {"ByteLevel", "TemplateProcessing"});
    const std::vector<JsonFields> parts = step.sections("single");
    if (parts.size() == 1 && parts[0].has("Sequence")) continue;
    if (parts.size() != 2 || first || !parts[0].has("SpecialToken") || !parts[1].has("Sequence")) {
      step.refuse_value("single", "a text with at most one token in front of it");
    }
    const JsonFields special = step.section("special_tokens").section(parts[0].section("SpecialToken").text("id"));
    const nlohmann::json& ids = special.list("ids");
    if (ids.size() != 1 || !ids[0].is_number_unsigned() || ids[0].get<std::uint64_t>() > largest_token) {
      special.refuse_value("ids", "a list of one token");
    }
    first = ids[0].get<Token>();
  }
  return first;
}

}  // namespace

void read_hugging_face_rules(const JsonFields& json, BpeVocabulary& vocabulary, bool may_be_unigram) {
  json.refuse_unknown({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                       "post_processor", "decoder", "model"});
  if (json.optional_text("version").value_or("1.0") != "1.0") json.refuse_value("version", "\"1.0\"");
  const JsonFields model = json.section("model");
  const std::string type = model.optional_text("type").value_or("BPE");  // which older files leave out
  const bool is_unigram = may_be_unigram && type == "Unigram";
  if (is_unigram) {
    model.refuse_unknown({"type", "unk_id", "vocab", "byte_fallback"});
  } else {
    if (type != "BPE") model.refuse_value("type", "\"BPE\"");
    model.refuse_unknown({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                          "byte_fallback", "ignore_merges", "vocab", "merges"});
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) require_off(model, name);
  }
  const std::vector<JsonFields> steps = steps_of(json, "pre_tokenizer", "pretokenizers");
  const bool is_byte_level = has_byte_level(steps) || has_byte_level(steps_of(json, "decoder", "decoders"));
  if (is_byte_level && !is_unigram) {
    for (const char* name : {"fuse_unk", "byte_fallback"}) require_off(model, name);
    read_byte_level(json, steps, vocabulary);
    vocabulary.words_are_tokens = model.optional_flag("ignore_merges").value_or(false);
  } else {
    require_off(model, "ignore_merges");
    CharacterRules rules{.unknown = model.optional_text("unk_token")};
    read_character_normalizer(json, rules);
    read_character_words(steps, rules);
    const bool spells_bytes = model.optional_flag("byte_fallback").value_or(false);
    check_character_decoder(json, rules, spells_bytes);
    if (rules.unknown && !spells_bytes) {
      json.refuse("model.byte_fallback is false, and must be true beside an unk_token, for which text would be lost");
    }
    if (spells_bytes) rules.byte_tokens.emplace();  // whoever reads the vocabulary fills them in
    vocabulary.characters = std::move(rules);
  }
  vocabulary.first_token = read_post_processor(json);
  vocabulary.first_token_is_said = json.has("post_processor");
}

AddedToken read_added_token(const JsonFields& json, Token token, const BpeVocabulary& vocabulary,
                            bool missing_special) {
  AddedToken added{
      .token = token, .name = json.text("content"), .special = json.optional_flag("special").value_or(missing_special)};
  added.normalized = json.optional_flag("normalized").value_or(!added.special);
  if (added.name.empty()) json.refuse_value("content", "a text");
  if (added.special) return added;
  if (!can_stand_in_texts(added.name)) {
    json.refuse_value("content", str("of 2 to ", longest_token, " bytes for a token that is not \"special\""));
  }
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
    if (json.optional_flag(flag) == true) json.refuse_value(flag, "false for a token that is not \"special\"");
  }
  const bool is_ascii = std::all_of(added.name.begin(), added.name.end(), [](char c) { return c > 0; });
  const bool is_prepended = vocabulary.characters && vocabulary.characters->prefix == PrefixSpace::all;
  const bool has_space = added.name.find(' ') != std::string::npos || added.name.find(space_sign) != std::string::npos;
  const bool is_replaced = vocabulary.characters && vocabulary.characters->space_signs && has_space;
  if (added.normalized && (is_prepended || is_replaced || (vocabulary.composes && !is_ascii))) {
    json.refuse_value("normalized", "false for a token that is not \"special\", which the normalizer would change");
  }
  return added;
}

}  // namespace inkling
