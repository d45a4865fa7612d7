// Checks of settings that must fit together, made when all of them are read.
#pragma once

#include <map>
#include <string>

#include "config/config.h"

namespace inkling {

// WrittenPlaces says where each setting stands that the person wrote ("file:line:column" or "--set section.key=value").
struct WrittenPlaces {
  std::string name;                          // the file, for what is not written anywhere
  std::map<std::string, std::string> files;  // by key
  std::map<std::string, std::string> flags;  // by key; these came later and count more
};

// Throws an Error input that names the place of a setting which does not fit another one.
void check_fit(const Config& config, const WrittenPlaces& places);

}  // namespace inkling
