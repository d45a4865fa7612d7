// Writes settings as text: a config with every default, the changes between two configs, the reference for docs.
#include <sstream>

#include "base/strings.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/values.h"

namespace inkling {
namespace {

std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> words;
  std::istringstream stream(key);
  for (std::string word; std::getline(stream, word, '.');) words.push_back(word);
  return words;
}

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

std::string print_config(const Config& config) {
  Config copy = config;
  std::string text;
  std::vector<std::string> open;  // the sections that the last line stands in
  for (const Setting& setting : all_settings(copy).settings) {
    std::vector<std::string> path = split_key(setting.key);
    const std::string name = path.back();
    path.pop_back();
    std::size_t common = 0;
    while (common < path.size() && common < open.size() && path[common] == open[common]) ++common;
    for (std::size_t depth = common; depth < path.size(); ++depth) {
      text += std::string(2 * depth, ' ') + path[depth] + ":\n";
    }
    text += str(std::string(2 * path.size(), ' '), name, ": ", value_as_yaml(setting), "\n");
    open = std::move(path);
  }
  return text;
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
