#include "text/bpe_files.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "text/bpe_vocabulary.h"
#include "text/sentencepiece_file.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

struct Expression {
  Pattern pattern;
  std::string_view text;
};

// Hugging Face's regular expressions are Oniguruma's: `{1,3}+` would repeat, and `$` is the end of any line. The first
// of a pattern is the one that inkling writes; the others, of older versions of tiktoken and of transformers, match the
// same.
constexpr Expression expressions[] = {
    {Pattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {Pattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {Pattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {Pattern::cl100k,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s)"},
    {Pattern::cl100k,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    {Pattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {Pattern::llama3,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {Pattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json print_sequence(const char* members, Json steps) {
  if (steps.empty()) return nullptr;
  return steps.size() == 1 ? std::move(steps[0]) : Json{{"type", "Sequence"}, {members, std::move(steps)}};
}

Json print_words(Pattern pattern) {
  const bool each_digit = pattern == Pattern::smollm2;
  switch (pattern) {
    case Pattern::gpt2:
      return byte_level(true);
    case Pattern::smollm2:
    case Pattern::numbers:
      return print_sequence("pretokenizers",
                            {Json{{"type", "Digits"}, {"individual_digits", each_digit}}, byte_level(true)});
    case Pattern::cl100k:
    case Pattern::llama3:
    case Pattern::qwen2:
      break;
  }
  const auto is_it = [&](const Expression& one) { return one.pattern == pattern; };
  const std::string text(std::find_if(std::begin(expressions), std::end(expressions), is_it)->text);
  return print_sequence(
      "pretokenizers",
      {Json{{"type", "Split"}, {"pattern", {{"Regex", text}}}, {"behavior", "Isolated"}, {"invert", false}},
       byte_level(false)});
}

// The token's name in the file; empty where it is none but an added token's, or nobody's.
std::string name_of_token(const BpeVocabulary& vocabulary, std::size_t token) {
  const std::string& bytes = vocabulary.tokens[token];
  if (!vocabulary.characters) return bytes_to_signs(bytes);
  if (const auto& byte_tokens = vocabulary.characters->byte_tokens; byte_tokens && bytes.size() == 1) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    if ((*byte_tokens)[byte] == token) return str("<0x", hexadecimal(byte, 2, Letters::upper_case), ">");
  }
  if (!vocabulary.characters->space_signs) return bytes;
  std::string name;
  for (const char byte : bytes) byte == ' ' ? name += space_sign : name += byte;
  return name;
}

}  // namespace

std::optional<Pattern> pattern_of_expression(std::string_view expression) {
  for (const Expression& one : expressions) {
    if (one.text == expression) return one.pattern;
  }
  return std::nullopt;
}

void add_character_steps(const CharacterRules& rules, HuggingFaceTokenizer& tokenizer) {
  // Metaspace does what the normalizer cannot, and where it has to cut, all of it.
  const bool prepends_unless_there =
      rules.prefix == PrefixSpace::first_unless_there || rules.prefix == PrefixSpace::all_unless_there;
  const bool has_metaspace = rules.cuts_lines || rules.cuts_spaces || prepends_unless_there;
  Json before = Json::array(), words = Json::array();
  if (rules.prefix == PrefixSpace::all) before.push_back({{"type", "Prepend"}, {"prepend", space_sign}});
  if (rules.space_signs && (rules.prefix == PrefixSpace::all || !has_metaspace)) {
    before.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space_sign}});
  }
  if (rules.cuts_lines) {
    words.push_back(
        {{"type", "Split"}, {"pattern", {{"String", "\n"}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}});
  }
  if (rules.space_signs && has_metaspace) {
    const char* const scheme = rules.prefix == PrefixSpace::first_unless_there ? "first"
                               : rules.prefix == PrefixSpace::all_unless_there ? "always"
                                                                               : "never";
    words.push_back(
        {{"type", "Metaspace"}, {"replacement", space_sign}, {"prepend_scheme", scheme}, {"split", rules.cuts_spaces}});
  }
  if (!before.empty()) tokenizer.normalizer = {{"type", "Sequence"}, {"normalizers", std::move(before)}};
  tokenizer.pre_tokenizer = print_sequence("pretokenizers", std::move(words));
  Json back = Json::array();
  if (rules.space_signs) {
    back.push_back({{"type", "Replace"}, {"pattern", {{"String", space_sign}}}, {"content", " "}});
  }
  if (rules.byte_tokens) back.push_back({{"type", "ByteFallback"}});
  back.push_back({{"type", "Fuse"}});
  if (rules.prefix != PrefixSpace::never) {
    back.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  tokenizer.decoder = print_sequence("decoders", std::move(back));
}

std::string print_hugging_face(const HuggingFaceTokenizer& tokenizer) {
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", tokenizer.added},
                     {"normalizer", tokenizer.normalizer},
                     {"pre_tokenizer", tokenizer.pre_tokenizer},
                     {"post_processor", tokenizer.post_processor},
                     {"decoder", tokenizer.decoder},
                     {"model", tokenizer.model}};
  return json.dump(1) + "\n";
}

Json hugging_face_added(const AddedToken& added) {
  return {{"id", added.token}, {"content", added.name},          {"single_word", false},    {"lstrip", false},
          {"rstrip", false},   {"normalized", added.normalized}, {"special", added.special}};
}

Json hugging_face_template(const AddedToken& first) {
  const auto sequence = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  const auto special = [&](int type) { return Json{{"SpecialToken", {{"id", first.name}, {"type_id", type}}}}; };
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special(0), sequence("A", 0)})},
          {"pair", Json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
          {"special_tokens",
           {{first.name,
             {{"id", first.name}, {"ids", Json::array({first.token})}, {"tokens", Json::array({first.name})}}}}}};
}

Json hugging_face_bpe(const HuggingFaceBpe& model) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", model.ignore_merges},
          {"vocab", model.vocab},
          {"merges", model.merges}};
}

void add_new_field(Json& object, const std::string& name, const Json& value) {
  object.get_ref<Json::object_t&>().emplace_back(name, value);
}

std::string print_bpe_json(const BpeVocabulary& vocabulary) {
  std::vector<std::string> names;
  HuggingFaceTokenizer tokenizer;
  HuggingFaceBpe model{.vocab = Json::object(), .merges = Json::array(), .ignore_merges = vocabulary.words_are_tokens};
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    names.push_back(name_of_token(vocabulary, token));
    if (!names[token].empty()) add_new_field(model.vocab, names[token], token);
  }
  for (const AddedToken& added : vocabulary.added) {
    tokenizer.added.push_back(hugging_face_added(added));
    add_new_field(model.vocab, added.name, added.token);  // or tokenizers would give it a number of its own
    if (vocabulary.first_token == added.token) tokenizer.post_processor = hugging_face_template(added);
  }
  const bool has_spaces = vocabulary.characters && !vocabulary.characters->space_signs;
  for (const auto& [left, right, result] : vocabulary.merges) {
    model.merges.push_back(has_spaces ? Json::array({names[left], names[right]})
                                      : Json(str(names[left], " ", names[right])));
  }
  if (vocabulary.composes) tokenizer.normalizer = {{"type", "NFC"}};
  tokenizer.pre_tokenizer = print_words(vocabulary.pattern);
  tokenizer.decoder = byte_level(true);
  if (vocabulary.characters) {
    model.byte_fallback = vocabulary.characters->byte_tokens.has_value();
    if (const auto& unknown = vocabulary.characters->unknown) model.unknown = *unknown;
    add_character_steps(*vocabulary.characters, tokenizer);
  }
  tokenizer.model = hugging_face_bpe(model);
  return print_hugging_face(tokenizer);
}

}  // namespace inkling
