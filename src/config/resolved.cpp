#include "config/resolved.h"

#include <string_view>

#include "base/error.h"
#include "config/fields.h"
#include "config/values.h"

namespace inkling {
namespace {

// A single JSON value is a YAML value too. Its quotes are cut off without a look for escapes, because
// no word of a setting needs one.
YamlNode node_of(std::string_view json) {
  const bool is_text = json.size() >= 2 && json.front() == '"';
  return {is_text ? YamlNode::Kind::quoted : YamlNode::Kind::plain,
          std::string(is_text ? json.substr(1, json.size() - 2) : json),
          "",
          {},
          {}};
}

}  // namespace

std::vector<ResolvedField> resolved_fields(const Resolved& resolved) {
  Resolved copy = resolved;
  std::vector<ResolvedField> fields;
  for (const Setting& setting : resolved_settings(copy).settings) {
    fields.push_back({.section = section_of(setting.key),
                      .name = name_of(setting.key),
                      .json = value_as_json(setting),
                      .allowed = describe_allowed(setting)});
  }
  return fields;
}

bool set_resolved_field(Resolved& resolved, const ResolvedField& field) {
  try {
    assign(*resolved_settings(resolved).find(field.section + "." + field.name), node_of(field.json));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace inkling
