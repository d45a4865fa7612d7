// From a file and --set flags to a checked Config, and from a Config to a file.
#include "config/config.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "config/fields.h"
#include "config/yaml.h"

namespace inkling {
namespace {

struct Translation {
  std::string_view theirs, ours;
};

// People bring these names from nanoGPT.
constexpr std::array nanogpt_names{
    Translation{"max_iters", "training.max_steps"},
    Translation{"lr_decay_iters", "schedule.decay_steps"},
    Translation{"warmup_iters", "schedule.warmup_steps"},
    Translation{"min_lr", "schedule.min_learning_rate"},
    Translation{"lr", "optimizer.learning_rate"},
    Translation{"eval_interval", "evaluation.interval"},
    Translation{"eval_iters", "evaluation.batches"},
    Translation{"log_interval", "logging.interval"},
    Translation{"dataset", "data.source"},
    Translation{"gradient_accumulation_steps", "training.micro_batch_size"},
};

std::string child(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

// Returns the names that may stand directly in `section`.
std::vector<std::string> names_of_section(const Settings& list, const std::string& section) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& key) {
    if (section_of(key) == section) names.push_back(name_of(key));
  };
  for (const Setting& setting : list.settings) add(setting.key);
  for (const Section& nested : list.sections) add(nested.key);
  return names;
}

// Returns the key of the setting that is meant by this one: of the same name in any section, or of the same words;
// empty if there is none.
std::string home_of(const Settings& list, const std::string& key) {
  const std::string name = name_of(key);
  const auto joined = [](std::string words) {
    std::replace(words.begin(), words.end(), '.', '_');
    return "_" + words;
  };
  for (const Setting& setting : list.settings) {  // muon.learning_rate, optimizer.muon_learning_rate
    if (key != name && joined(setting.key).ends_with(joined(key))) return setting.key;
  }
  for (const auto& [theirs, ours] : nanogpt_names) {
    if (theirs == name) return std::string(ours);
  }
  for (const Setting& setting : list.settings) {
    if (name_of(setting.key) == name) return setting.key;
  }
  return "";
}

// What a flag gives the setting; `place` stands for the flag in messages.
YamlNode flag_value(const Setting& setting, const std::string& place, const std::string& value) {
  const bool takes_list =
      std::holds_alternative<TextList>(setting.allowed) || std::holds_alternative<PatternList>(setting.allowed);
  if (takes_list && value.starts_with('[')) return parse_yaml(value, place);
  if (value.empty()) return {YamlNode::Kind::nothing, "", place, {}, {}};
  return {YamlNode::Kind::verbatim, value, place, {}, {}};
}

class ConfigReader {
 public:
  explicit ConfigReader(std::string_view name, Config config = {})
      : config_(std::move(config)), list_(all_settings(config_)) {
    config_.written.name = name;
  }
  ConfigReader(const ConfigReader&) = delete;  // list_ points into config_
  ConfigReader& operator=(const ConfigReader&) = delete;

  void read_file(std::string_view yaml) {
    const YamlNode root = parse_yaml(yaml, config_.written.name);
    if (root.kind != YamlNode::Kind::section) {
      throw Error::input(str(root.place,
                             ": a config consists of sections; write \"data:\" and below it \"  source: "
                             "my.txt\" (a space after the colon)"));
    }
    read_section(root, "");
  }

  // To be called when a program, not the person, wrote what was read so far.
  void forget_old_words() { notes_.clear(); }

  // Reads the flags, which override what was read so far.
  void read_flags(std::span<const std::string> flags) {
    for (const std::string& flag : flags) read_flag(flag);
  }

  void require_source() const { inkling::require_source(config_); }

  const Config& config() const { return config_; }

  // Hands the config over.
  Config take() {
    check_fit(config_);
    for (const std::string& note : notes_) log_info(note);
    return std::move(config_);
  }

 private:
  void read_section(const YamlNode& node, const std::string& section) {
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string key = child(section, node.keys[i].text);
      const YamlNode& value = node.items[i];
      if (list_.has_section(key)) {
        if (value.kind == YamlNode::Kind::nothing) continue;  // every setting below it is commented out
        if (value.kind != YamlNode::Kind::section) refuse_as_section(value, key);
        read_section(value, key);
      } else if (const Setting* setting = list_.find(key)) {
        set(*setting, value, key);
        const auto [before, is_first] = config_.written.files.try_emplace(setting->key, value.place);
        if (!is_first) {
          throw Error::input(str(value.place, ": ", key, " and what is written at ", before->second, " are both ",
                                 setting->key, "; remove one of them"));
        }
      } else {
        refuse_unknown(node.keys[i].place, key);
      }
    }
  }

  // `flag` is "section.key=value".
  void read_flag(const std::string& flag) {
    const std::string place = "--set " + flag;
    const std::size_t equals = flag.find('=');
    if (equals == std::string::npos) throw Error::input(place + ": there is no \"=\"; write --set section.key=value");
    const std::string key = flag.substr(0, equals), value = flag.substr(equals + 1);
    if (list_.has_section(key)) {
      throw Error::input(str(place, ": ", key, " is a section; write --set ", key, ".NAME=value with a NAME of ",
                             join(names_of_section(list_, key), ", ")));
    }
    const Setting* setting = list_.find(key);
    if (setting == nullptr) refuse_unknown(place, key);
    set(*setting, flag_value(*setting, place, value), key);
    config_.written.flags[setting->key] = place;
  }

  void set(const Setting& setting, const YamlNode& node, const std::string& written_key) {
    assign(setting, node);
    if (written_key != setting.key) {
      notes_.insert(
          str(written_key, ": ", node.text, " is called ", setting.key, ": ", value_as_yaml(setting), " now"));
    } else if (auto note = note_of_old_word(setting, node))
      notes_.insert(std::move(*note));
  }

  [[noreturn]] void refuse_as_section(const YamlNode& value, const std::string& key) const {
    const std::string what = value.kind == YamlNode::Kind::list ? "a list" : shown(value.text);
    throw Error::input(str(value.place, ": ", key, " is a section, but here it is ", what, "; write ", key,
                           ": and its settings below, indented: ", join(names_of_section(list_, key), ", ")));
  }

  [[noreturn]] void refuse_unknown(const std::string& place, const std::string& key) const {
    const std::string section = section_of(key), name = name_of(key);
    const bool known_section = section.empty() || list_.has_section(section);
    const std::vector<std::string> known = names_of_section(list_, known_section ? section : "");
    const std::string home = home_of(list_, key);
    std::string advice;
    if (!home.empty()) {
      advice = "did you mean " + home + "?";
    } else if (const auto nearest = nearest_name(known_section ? name : section, known)) {
      advice = "did you mean " + child(known_section ? section : "", *nearest) + "?";
    }
    throw Error::input(str(place, ": there is no setting ", shown(key), advice.empty() ? "" : "; ", advice, " (",
                           section.empty() || !known_section ? "sections" : section + " has", ": ", join(known, ", "),
                           ")"));
  }

  Config config_;
  Settings list_;
  std::set<std::string> notes_;  // on old words, each once
};

// Throws an Error input where the path does not lead to a file, and says what the person may have meant.
void check_path(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    const bool run = fs::exists(path / "config.yaml", ignored);
    throw Error::input(str(path.string(), ": this is a folder; give the YAML file",
                           run ? ", here " + (path / "config.yaml").string() : ""));
  }
  if (fs::exists(status)) return;
  auto nearest = nearest_beside(path, ".yaml");
  const fs::path installed = installed_share() / path;  // configs/fables.yaml, as the documents write it
  if (!nearest && path.is_relative() && fs::exists(installed, ignored)) nearest = installed;
  const fs::path of_that_name = installed_share() / "configs" / path.filename().replace_extension(".yaml");
  if (!nearest && fs::exists(of_that_name, ignored)) nearest = of_that_name;
  throw Error::input(str(path.string(), ": there is no such file; ",
                         nearest ? "did you mean " + nearest->string() + "?"
                                 : "give the path of a YAML file, such as configs/fables.yaml"));
}

// The shipped configs name their grammars as data/fables.grammar, which must also be found where they are installed,
// from any working folder. So a source that is not where the person stands is looked for from the config's folder, and
// from the folder around that one. A person who types a source on the command line means the working folder.
void find_sources_beside(const fs::path& config_path, Config& config) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(config_path, ignored).lexically_normal().parent_path();
  for (const auto& [key, sources] : {std::pair{"data.source", &config.data.source},
                                     std::pair{"data.validation_source", &config.data.validation_source}}) {
    if (config.written.flags.contains(key)) continue;
    for (std::string& source : *sources) {
      if (fs::path(source).is_absolute() || fs::exists(source, ignored)) continue;
      for (const fs::path& place : {folder / source, folder.parent_path() / source}) {
        if (!fs::exists(place, ignored)) continue;
        log_info(str(key, ": ", source, " is not here, so it is ", place.string()));
        source = place.string();
        break;
      }
    }
  }
}

std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> words;
  std::istringstream stream(key);
  for (std::string word; std::getline(stream, word, '.');) words.push_back(word);
  return words;
}

// The names of the sections that a setting stands in, those that the one before it did not, a line each. `open`: the
// sections of the one before.
std::string sections_up_to(const std::string& key, std::vector<std::string>& open) {
  std::vector<std::string> path = split_key(key);
  path.pop_back();
  std::size_t common = 0;
  while (common < path.size() && common < open.size() && path[common] == open[common]) ++common;
  std::string text;
  for (std::size_t depth = common; depth < path.size(); ++depth) {
    text += std::string(2 * depth, ' ') + path[depth] + ":\n";
  }
  open = std::move(path);
  return text;
}

std::string line_of(const Setting& setting) {
  const auto depth = static_cast<std::size_t>(std::count(setting.key.begin(), setting.key.end(), '.'));
  return str(std::string(2 * depth, ' '), name_of(setting.key), ": ", value_as_yaml(setting));
}

}  // namespace

Config load_config(const fs::path& path, std::span<const std::string> overrides) {
  check_path(path);
  try {
    Config config = parse_config(read_small_file_or_pipe(path), path.string(), overrides);
    find_sources_beside(path, config);
    return config;
  } catch (const Error& error) {
    if (path.extension() == ".yaml" || path.extension() == ".yml") throw;
    throw Error(
        error.kind(),
        str(error.message(),
            ". CONFIG is a YAML file; text to train on is named in one, at data.source, or given with --minutes"));
  }
}

Config load_kept_config(const fs::path& path, std::span<const std::string> overrides) {
  ConfigReader reader(path.string());
  reader.read_file(read_small_file(path));
  reader.forget_old_words();
  reader.read_flags(overrides);
  reader.require_source();
  return reader.take();
}

Config parse_config(std::string_view yaml, std::string_view name, std::span<const std::string> overrides) {
  ConfigReader reader(name);
  reader.read_file(yaml);
  reader.read_flags(overrides);
  reader.require_source();
  return reader.take();
}

Config defaults_with(std::span<const std::string> overrides) {
  ConfigReader reader("the defaults");
  reader.read_flags(overrides);
  return reader.take();
}

Config overridden(const Config& config, std::span<const std::string> overrides) {
  ConfigReader reader(config.written.name, config);
  reader.read_flags(overrides);
  return reader.config();
}

void set_setting(Config& config, const std::string& key, const std::string& value, const std::string& flag) {
  Setting setting = *all_settings(config).find(key);
  setting.key = flag;
  const YamlNode node = flag_value(setting, str(flag, "=", value), value);
  assign(setting, node);
  if (const auto note = note_of_old_word(setting, node)) log_info(*note);
}

std::string print_config(const Config& config) {
  Config copy = config;
  std::string text;
  std::vector<std::string> open;
  for (const Setting& setting : all_settings(copy).settings) {
    text += sections_up_to(setting.key, open) + line_of(setting) + "\n";
  }
  return text;
}

std::string print_config(const Config& config, const std::map<std::string, std::string>& comments) {
  constexpr std::size_t comment_column = 34;
  Config copy = config, unset;
  const Settings settings = all_settings(copy), defaults = all_settings(unset);
  std::string text;
  std::vector<std::string> open;
  for (std::size_t i = 0; i < settings.settings.size(); ++i) {
    const Setting& setting = settings.settings[i];
    const auto comment = comments.find(setting.key);
    std::string line = line_of(setting);
    if (comment == comments.end() && line == line_of(defaults.settings[i])) continue;
    if (comment != comments.end() && !comment->second.empty()) {
      line.resize(std::max(line.size() + 2, comment_column), ' ');
      line += "# " + comment->second;
    }
    const std::string sections = sections_up_to(setting.key, open);
    text += str(!text.empty() && sections.find_first_not_of(' ') == 0 ? "\n" : "", sections, line, "\n");
  }
  return text;
}

}  // namespace inkling
