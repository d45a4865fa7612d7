// Settings that must fit together, looked at once all of them are read.
#pragma once

#include <map>
#include <string>

#include "config/config.h"

namespace inkling {

// Where each setting that the person wrote stands ("file:line:column" or "--set section.key=value").
struct WrittenPlaces {
  std::string name;                          // the file, for what is not written anywhere
  std::map<std::string, std::string> files;  // by key
  std::map<std::string, std::string> flags;  // by key; these came later and count more
};

// Error input naming the place of a setting that does not fit another one.
void check_fit(const Config& config, const WrittenPlaces& places);

}  // namespace inkling
