// The flags of programs that make a recipe for a text.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "config/config.h"
#include "recipe/recipe.h"

namespace inkling {

// Refuses what is no number above 0 and up to a million (of minutes: two years), "nan" among it.
inline CLI::Validator above_zero(const std::string& flag) {
  const auto check = [flag](const std::string& written) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(written, number) && number > 0 && number <= 1e6) return {};
    throw Error::input(str(flag, " is ", quote(written), ": write a number above 0, and at most 1,000,000"));
  };
  return {check, ""};
}

// Adds them in a group of their own, all but the text, which is CONFIG's place in inkling-train.
inline void add_recipe_flags(CLI::App& app, recipe::Request& request) {
  const std::string group = "A recipe for a text";
  CLI::Option* const minutes = app.add_option("--minutes", request.minutes, "minutes of training");
  minutes->type_name("NUMBER")->group(group)->check(above_zero("--minutes"));
  const auto add = [&](const char* flag, auto& value, const char* about, const char* type) {
    return app.add_option(flag, value, about)->type_name(type)->group(group)->needs(minutes);
  };
  add("--memory", request.memory_gib, "GiB that training may hold (default: what is free)", "NUMBER")
      ->check(above_zero("--memory"));
  add("--tokenizer", request.tokenizer, "byte, char, or how many tokens are learned", "byte|char|NUMBER");
  add("--context", request.context, "tokens that the model sees at once", "NUMBER")->check(above_zero("--context"));
  const auto set_device = [&request](const std::string& value) {
    Config config;
    set_setting(config, "runtime.device", value, "--device");
    request.device = config.runtime.device;
  };
  app.add_option_function<std::string>("--device", set_device, "where it trains (default: a GPU if there is one)")
      ->type_name(values_as_type("runtime.device"))
      ->group(group)
      ->needs(minutes);
  add("--like", request.like, "start from this model, with its shape and its tokenizer", "FOLDER")
      ->excludes(app.get_option("--tokenizer"));
}

}  // namespace inkling
