// Every setting of a run, once: its name, where it lives, what it may be, what changing it means, what it is for.
// Reading, --set, printing, the reference, the comparison on resume and state.json are loops over this list.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace inkling {

// What a setting may be, besides auto. The ends of a range are included unless the range says otherwise.
struct TrueOrFalse {};
struct WholeRange {
  std::int64_t lowest, highest;
};
struct RealRange {
  double lowest, highest;
  bool lowest_excluded = false, highest_excluded = false;
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
  std::string form;  // for people: "a path"
};
struct TextList {
  std::string form;  // of each text
};
using Allowed = std::variant<TrueOrFalse, WholeRange, RealRange, OneOf, DeviceName, Text, TextList>;

// The value of a setting as files have it: an enum and a device are their words.
struct Auto {};
using Value = std::variant<Auto, bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct Setting {
  std::string key;  // "data.tokenizer.kind"
  Allowed allowed;
  bool takes_auto;
  OnResume on_resume;
  std::string about;
  std::function<Value()> get;             // from the struct that the list was made of
  std::function<void(const Value&)> set;  // into it; the value is one that is allowed
};

std::string section_of(const Setting& setting);  // "data.tokenizer"
std::string name_of(const Setting& setting);     // "kind"

struct Section {
  std::string key;  // "data.tokenizer"
  std::string about;
};

struct Settings {
  std::vector<Section> sections;  // in order; a nested section after its parent
  std::vector<Setting> settings;  // in order, so that those of one section stand together or around a nested one

  const Setting* find(const std::string& key) const;  // null if there is none
  bool has_section(const std::string& key) const;
};

// The list of all settings, which reads and writes `config`; `config` must outlive it.
Settings all_settings(Config& config);

// The part of that list which a run resolves, for `resolved` in place of a Config: nothing in it takes auto.
Settings resolved_settings(Resolved& resolved);

// The device of this name; none if no device is called so.
std::optional<DeviceChoice> find_device(std::string_view text);

}  // namespace inkling
