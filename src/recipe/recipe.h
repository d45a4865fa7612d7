// A configuration made for a text, a machine and a time: what inkling-recipe writes, and inkling-train --minutes trains
// from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace inkling::recipe {

// What a person asks for.
struct Request {
  std::vector<std::string> text;              // files or folders, as data.source
  double minutes = 0;                         // of training
  std::optional<double> memory_gib = {};      // that training may hold: runtime.memory_limit_gib
  std::optional<std::string> tokenizer = {};  // "byte", "char", or how many tokens a byte-level BPE learns
  std::optional<std::int64_t> context = {};   // model.block_size
  std::optional<DeviceChoice> device = {};    // runtime.device
  std::optional<std::string> like = {};       // the folder of a model to start from: model.init_from
  std::vector<std::string> overrides = {};    // "section.key=value": what is set whatever else is chosen
};

struct Recipe {
  std::string yaml;         // the file, with the reason of each line
  std::string explanation;  // the candidates that were weighed, a table
};

// Looks at the text, measures this machine, and chooses: up to half a minute. Throws the errors of sample_text(),
// Error input for a request that cannot be met, Error environment for what the machine lacks, and Stopped.
Recipe make_recipe(const Request& request);

// Returns what make_recipe() makes, or the recipe of the run in this folder, by which it goes on. Throws, too, Error
// input where the run has none, or was begun by one for another request; other settings are for the run to judge.
std::string recipe_for(const Request& request, const std::filesystem::path& run);

}  // namespace inkling::recipe
