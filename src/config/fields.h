// Every setting of a run, once: its name, where it lives, what it may be, what changing it means, what it is for.
// Reading, --set, printing, the reference and the comparison on resume are loops over this list.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/config.h"

namespace inkling {

// What a setting may be. Ends of a range are included unless said otherwise.
struct TrueOrFalse {};
struct WholeRange {
  std::int64_t lowest, highest;
  bool zero_is_auto = false;  // 0 is read and printed as the word auto
};
struct RealRange {
  double lowest, highest;
  bool lowest_excluded = false, highest_excluded = false;
};
struct OneOf {
  std::vector<std::string> names;
};
struct FreeText {
  std::string form;                               // for people: "a path"
  bool (*accepts)(const std::string&) = nullptr;  // none: every text but the empty one
};
using Allowed = std::variant<TrueOrFalse, WholeRange, RealRange, OneOf, FreeText>;

using Member = std::variant<std::int64_t*, std::uint64_t*, double*, bool*, std::string*, std::vector<std::string>*>;

struct Setting {
  std::string key;  // "data.tokenizer.kind"
  Member member;    // of the Config that all_settings() was given
  Allowed allowed;
  OnResume on_resume;
  std::string about;
};

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

// The list with pointers into `config`, which must outlive it.
Settings all_settings(Config& config);

}  // namespace inkling
