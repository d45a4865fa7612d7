// The list of all settings for editors, shells and documents: the schema, the reference and the words of --help.
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "config/config.h"
#include "config/fields.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

// Text that is not empty and holds no control character.
Json text_schema() {
  return {{"type", "string"}, {"minLength", 1}, {"not", {{"pattern", "[\\u0000-\\u001f\\u007f]"}}}};
}

Json one_or_list(const Json& item, std::size_t least) {
  Json list = {{"type", "array"}, {"items", item}};
  if (least > 0) list["minItems"] = least;
  return {{"anyOf", {item, list}}};
}

Json schema_of(const TrueOrFalse&) { return {{"type", "boolean"}}; }

Json schema_of(const WholeRange& range) {
  return {{"type", "integer"}, {"minimum", range.lowest}, {"maximum", range.highest}};
}

Json schema_of(const RealRange& range) {
  return {{"type", "number"},
          {range.lowest_excluded ? "exclusiveMinimum" : "minimum", range.lowest},
          {range.highest_excluded ? "exclusiveMaximum" : "maximum", range.highest}};
}

Json schema_of(const OneOf& choice) {
  Json words = Json::array();
  for (const std::string& word : choice.words) {
    words.push_back(word == "true" || word == "false" ? Json(word == "true") : Json(word));  // as YAML reads them
  }
  return {{"enum", words}};
}
Json schema_of(const DeviceName&) { return {{"type", "string"}, {"pattern", "^(cpu|cuda|cuda:(0|[1-9][0-9]?))$"}}; }
Json schema_of(const Text& text) {
  return text.may_be_any ? Json({{"type", "string"}, {"minLength", 1}}) : text_schema();
}
Json schema_of(const TextList& texts) {
  return one_or_list(texts.may_be_any ? Json({{"type", "string"}}) : text_schema(), 0);
}

Json schema_of(const PatternList&) {
  const std::string number = " +[1-9][0-9]*";
  const Json item = {{"type", "string"}, {"pattern", str("^(full|local", number, "|dilated", number, number, ")$")}};
  return one_or_list(item, 1);
}

Json schema_of(const ScalingText&) {
  const std::string number = " +[0-9.][0-9.eE+-]*";
  const std::string llama3 = str("llama3", number, number, number, " +[1-9][0-9]*");
  return {{"type", "string"}, {"pattern", str("^(none|linear", number, "|", llama3, ")$")}};
}

// The other things that are read: auto, 0 where it was auto, and the words that a choice has had.
std::vector<Json> further_values(const Setting& setting) {
  std::vector<Json> others;
  const auto* whole = std::get_if<WholeRange>(&setting.allowed);
  const auto* real = std::get_if<RealRange>(&setting.allowed);
  const bool zero_is_auto = (whole && whole->zero_was_auto) || (real && real->zero_was_auto);
  if (setting.takes_auto) others.push_back({{"const", "auto"}});
  if (setting.takes_auto && zero_is_auto) others.push_back({{"const", 0}, {"deprecated", true}});
  if (const auto* choice = std::get_if<OneOf>(&setting.allowed); choice && !choice->old_words.empty()) {
    Json old = Json::array();
    for (const OldWord& word : choice->old_words) old.push_back(word.before);
    others.push_back({{"enum", old}, {"deprecated", true}});
  }
  return others;
}

Json values_schema(const Setting& setting) {
  Json values = std::visit([](const auto& allowed) { return schema_of(allowed); }, setting.allowed);
  const std::vector<Json> others = further_values(setting);
  if (others.empty()) return values;
  Json any = Json::array({values});
  for (const Json& other : others) any.push_back(other);
  return {{"anyOf", any}};
}

Json json_of(const Setting& setting) {
  const Value value = setting.get();
  if (std::holds_alternative<Auto>(value)) return "auto";
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<decltype(held), const Auto&>) {
          return "auto";
        } else {
          return held;
        }
      },
      value);
}

bool is_required(const Setting& setting) { return setting.key == "data.source"; }

Json setting_schema(const Setting& setting) {
  Json schema = {{"description", setting.about}};
  if (!is_required(setting)) schema["default"] = json_of(setting);
  schema.update(values_schema(setting));
  if (is_required(setting)) schema["minItems"] = 1;
  schema["x-values"] = describe_allowed(setting);
  schema["x-on-resume"] = on_resume_word(setting.on_resume);
  return schema;
}

Json section_schema(const std::string& about) {
  // A section whose settings are all commented out is null.
  return {{"description", about},
          {"type", {"object", "null"}},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

void add_setting(Json& section, const Setting& setting) {
  section["properties"][name_of(setting.key)] = setting_schema(setting);
  if (is_required(setting)) {
    section["type"] = "object";
    section["required"].push_back(name_of(setting.key));
  }
  if (setting.old_key.empty()) return;
  Json old = values_schema(setting);
  old["description"] = str("The old name of ", name_of(setting.key), ".");
  old["deprecated"] = true;
  section["properties"][name_of(setting.old_key)] = old;
  section["allOf"].push_back(
      {{"not", {{"type", "object"}, {"required", {name_of(setting.key), name_of(setting.old_key)}}}}});
}

// The schema of a section with what stands in it, and the sections nested in it.
Json filled_section(const Settings& list, const Section& section) {
  Json schema = section_schema(section.about);
  for (const Setting& setting : list.settings) {
    if (section_of(setting.key) == section.key) add_setting(schema, setting);
  }
  for (const Section& nested : list.sections) {
    if (section_of(nested.key) == section.key) schema["properties"][name_of(nested.key)] = filled_section(list, nested);
  }
  return schema;
}

std::string type_of(const OneOf& choice) { return join(choice.words, "|"); }
std::string type_of(const TrueOrFalse&) { return "true|false"; }
std::string type_of(const DeviceName&) { return "cpu|cuda|cuda:N"; }
std::string type_of(const WholeRange&) { return "N"; }
std::string type_of(const RealRange&) { return "NUMBER"; }
std::string type_of(const Text&) { return "TEXT"; }
std::string type_of(const TextList&) { return "TEXT"; }
std::string type_of(const PatternList&) { return "PATTERN"; }
std::string type_of(const ScalingText&) { return "SCALING"; }

std::string default_for_reference(const Setting& setting) {
  return setting.key == "data.source" ? "required" : "`" + value_as_yaml(setting) + "`";
}

constexpr std::string_view reference_head =
    R"(A config is one YAML file with the sections below. A setting that is left out has its default; only `data.source`
must be written. `--set section.key=value` overrides a setting (in a nested section `data.tokenizer.kind=byte`, several
sources as `data.source=[a.txt,b.txt]`), and `--print-config` prints the result with every setting.

"On resume" says what happens when a setting differs from the run that is resumed; to write what `auto` came to is no
difference. *applies*: it is used from there on.
*asks*: it changes the result, so it needs `--accept-changes`. *refused*: it means another model or other data, and
`--fresh` starts a new run with it.
)";

}  // namespace

std::string config_schema() {
  Config defaults;
  const Settings list = all_settings(defaults);
  Json schema = section_schema("The settings of a run.");
  schema["type"] = "object";
  schema["required"] = {"data"};
  for (const Section& section : list.sections) {
    if (section_of(section.key).empty()) schema["properties"][section.key] = filled_section(list, section);
  }
  Json whole = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "inkling's config"}};
  whole.update(schema);
  return whole.dump(2) + "\n";
}

std::string values_as_type(std::string_view key) {
  Config defaults;
  const Settings list = all_settings(defaults);
  const Setting& setting = *list.find(std::string(key));
  const std::string type = std::visit([](const auto& allowed) { return type_of(allowed); }, setting.allowed);
  return setting.takes_auto ? "auto|" + type : type;
}

std::string config_reference() {
  Config defaults;
  const Settings list = all_settings(defaults);
  std::string text(reference_head);
  for (const Section& section : list.sections) {
    text += str("\n### `", section.key, "`\n\n", section.about, "\n\n",
                "| Setting | Default | Values | On resume | Meaning |\n|---|---|---|---|---|\n");
    for (const Setting& setting : list.settings) {
      if (section_of(setting.key) != section.key) continue;
      text += str("| `", name_of(setting.key), "` | ", default_for_reference(setting), " | ", describe_allowed(setting),
                  " | ", on_resume_word(setting.on_resume), " | ", setting.about, " |\n");
    }
  }
  return text;
}

}  // namespace inkling
