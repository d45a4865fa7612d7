#include "text/bpe_files.h"

#include <string_view>
#include <vector>

#include "base/strings.h"
#include "text/bpe_vocabulary.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

struct Expression {
  Pattern pattern;
  std::string_view text;
};

// Hugging Face's regular expressions are Oniguruma's: `{1,3}+` would repeat, and `$` is the end of any line. They
// are what inkling reads and writes.
constexpr Expression expressions[] = {
    {Pattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {Pattern::cl100k,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s)"},
    {Pattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

Pattern read_expression(const JsonFields& split) {
  const std::string text = split.section("pattern").text("Regex");
  for (const Expression& expression : expressions) {
    if (text == expression.text) return expression.pattern;
  }
  split.section("pattern").refuse_value("Regex", "the expression of GPT-2, cl100k or Llama 3, which inkling knows");
}

// Throws where a field has another value than the one that leaves text alone. A field that is missing is fine.
void require_off(const JsonFields& json, std::string_view name) {
  if (json.has(name) && json.json(name) != "\"\"" && json.json(name) != "false")
    json.refuse_value(name, "null or false");
}

void require_byte_level(const JsonFields& step) {
  if (step.text("type") != "ByteLevel") step.refuse_value("type", "\"ByteLevel\"");
  require_off(step, "add_prefix_space");
}

Pattern read_pre_tokenizer(const JsonFields& step) {
  if (step.text("type") != "Sequence") {
    require_byte_level(step);
    if (step.optional_flag("use_regex") == false)
      step.refuse_value("use_regex", "true, where nothing else cuts the text");
    return Pattern::gpt2;
  }
  const std::vector<JsonFields> steps = step.sections("pretokenizers");
  if (steps.size() != 2 || steps[0].text("type") != "Split") {
    step.refuse_value("pretokenizers", "a Split followed by a ByteLevel");
  }
  if (steps[0].text("behavior") != "Isolated") steps[0].refuse_value("behavior", "\"Isolated\"");
  require_off(steps[0], "invert");
  require_byte_level(steps[1]);
  if (steps[1].optional_flag("use_regex") != false) steps[1].refuse_value("use_regex", "false");
  return read_expression(steps[0]);
}

// The name of the token in front of a text, if the post-processor puts one there and nothing behind.
std::optional<std::string> read_post_processor(const JsonFields& step) {
  const std::string type = step.text("type");
  if (type == "ByteLevel") return std::nullopt;  // about the places of tokens in the text
  if (type == "Sequence") {
    std::optional<std::string> name;
    for (const JsonFields& one : step.sections("processors")) {
      const auto found = read_post_processor(one);
      if (found && name) step.refuse_value("processors", "a sequence that puts one token in front of a text");
      if (found) name = found;
    }
    return name;
  }
  if (type != "TemplateProcessing") step.refuse_value("type", "\"ByteLevel\" or \"TemplateProcessing\"");
  const std::vector<JsonFields> parts = step.sections("single");
  if (parts.size() == 1 && parts[0].has("Sequence")) return std::nullopt;
  if (parts.size() != 2 || !parts[0].has("SpecialToken") || !parts[1].has("Sequence")) {
    step.refuse_value("single", "a text with at most one token in front of it");
  }
  return parts[0].section("SpecialToken").text("id");
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json print_pre_tokenizer(Pattern pattern) {
  if (pattern == Pattern::gpt2) return byte_level(true);
  std::string text;
  for (const Expression& expression : expressions) {
    if (expression.pattern == pattern) text = expression.text;
  }
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", text}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

}  // namespace

HuggingFaceRules read_hugging_face_rules(const JsonFields& json) {
  HuggingFaceRules rules;
  if (json.has("normalizer")) json.refuse_value("normalizer", "null: inkling encodes the text as it is");
  rules.pattern = read_pre_tokenizer(json.section("pre_tokenizer"));
  if (json.has("post_processor")) rules.first_token_name = read_post_processor(json.section("post_processor"));
  const JsonFields model = json.section("model");
  // Older files leave the type out.
  if (model.has("type") && model.text("type") != "BPE") model.refuse_value("type", "\"BPE\"");
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"}) {
    require_off(model, name);
  }
  rules.words_are_tokens = model.optional_flag("ignore_merges").value_or(false);
  return rules;
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
  return {{"id", added.token}, {"content", added.name}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},   {"normalized", false},   {"special", true}};
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
  std::vector<std::string> signs;
  for (const std::string& bytes : vocabulary.tokens) signs.push_back(bytes_to_signs(bytes));
  HuggingFaceTokenizer tokenizer;
  HuggingFaceBpe model{.vocab = Json::object(), .merges = Json::array(), .ignore_merges = vocabulary.words_are_tokens};
  for (std::size_t token = 0; token < signs.size(); ++token) {
    if (!signs[token].empty()) add_new_field(model.vocab, signs[token], token);
  }
  for (const AddedToken& added : vocabulary.added) {
    tokenizer.added.push_back(hugging_face_added(added));
    add_new_field(model.vocab, added.name, added.token);  // or tokenizers would give it a number of its own
    if (vocabulary.first_token == added.token) tokenizer.post_processor = hugging_face_template(added);
  }
  for (const Merge& merge : vocabulary.merges) model.merges.push_back(str(signs[merge.left], " ", signs[merge.right]));
  tokenizer.pre_tokenizer = print_pre_tokenizer(vocabulary.pattern);
  tokenizer.decoder = byte_level(true);
  tokenizer.model = hugging_face_bpe(model);
  return print_hugging_face(tokenizer);
}

}  // namespace inkling
