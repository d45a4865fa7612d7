// The list of all settings. Each stands in it once, with its name, where it lives, what it may be, what changing it
// means and what it is for. Reading, --set, printing, the reference, the comparison on resume and state.json are loops
// over it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"
#include "config/resume_policy.h"
#include "config/yaml.h"

namespace inkling {

// Allowed says what a setting may be, apart from auto. A range includes its ends unless it says otherwise.
struct TrueOrFalse {};
struct WholeRange {
  std::int64_t lowest, highest;
  bool zero_was_auto = false;  // 0 is still read as auto
};
struct RealRange {
  double lowest, highest;
  bool lowest_excluded = false, highest_excluded = false;
  bool zero_was_auto = false;  // 0 is still read as auto
};
struct OldWord {
  std::string before, now;
};
struct OneOf {
  std::vector<std::string> words;
  std::vector<OldWord> old_words;  // are still read
};
struct DeviceName {};
struct Text {
  std::string form;         // for people: "a path"
  bool may_be_any = false;  // even with control characters
};
struct TextList {
  std::string form;         // of each text
  bool may_be_any = false;  // even empty, or with control characters, as a prompt may be
};
struct PatternList {};  // of attention, one for each layer in turn
struct ScalingText {};  // of rope
using Allowed =
    std::variant<TrueOrFalse, WholeRange, RealRange, OneOf, DeviceName, Text, TextList, PatternList, ScalingText>;

// A Value is what files hold for a setting: an enum, a device, a pattern of attention and a scaling of rope are their
// words.
struct Auto {};
using Value = std::variant<Auto, bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct Setting {
  std::string key;  // "data.tokenizer.kind"
  Allowed allowed;
  bool takes_auto;
  OnResume on_resume;
  std::string about;
  std::string old_key;                    // is still read; empty if the setting never had another
  std::function<Value()> get;             // from the struct that the list was made of
  std::function<void(const Value&)> set;  // into it; the value is one that is allowed
};

// The two parts of a key: "data.tokenizer" and "kind". The key of an outermost section, "data", has no first part.
std::string section_of(const std::string& key);
std::string name_of(const std::string& key);

struct Section {
  std::string key;  // "data.tokenizer"
  std::string about;
};

struct Settings {
  std::vector<Section> sections;  // in order; a nested section after its parent
  std::vector<Setting> settings;  // in order, so that those of one section stand together or around a nested one

  const Setting* find(const std::string& key) const;  // by its key or its old one; null if there is none
  bool has_section(const std::string& key) const;
};

// The list reads and writes `config`, which must outlive it.
Settings all_settings(Config& config);

// Returns the part of the list that a run resolves. It reads and writes `resolved`, and nothing in it takes auto.
Settings resolved_settings(Resolved& resolved);

// Returns the device of this name, or none if no device has it.
std::optional<DeviceChoice> find_device(std::string_view text);

// Conversions between a setting's value and what a file says (values.cpp).

// Reads `node` into the setting's member. Throws an Error input with the node's place for a value that has the wrong
// type or is not allowed.
void assign(const Setting& setting, const YamlNode& node);

// Returns "runtime.kernels: aten is called reference now" where `node` holds an old word of the setting.
std::optional<std::string> note_of_old_word(const Setting& setting, const YamlNode& node);

// Returns the member's value as YAML that reads back as the same value.
std::string value_as_yaml(const Setting& setting);

// Returns it as JSON. It must be a single value whose text needs no escape: a number, a truth value or a word.
std::string value_as_json(const Setting& setting);

// Returns `text` in quotes for a message, cut where it is long.
std::string shown(std::string_view text);

// Tells people what is allowed: "a whole number from 1 to 1000", "one of auto, float32, bfloat16".
std::string describe_allowed(const Setting& setting);

// "applies", "asks" or "refused": what a change on a resume means.
std::string_view on_resume_word(OnResume on_resume);

}  // namespace inkling
