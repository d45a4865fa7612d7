// How a program shows its flags: to people by --help, within 80 columns, and by --interface as JSON, of which
// scripts/interface makes the man pages and what shells complete. Only program.h includes it.
//
// A flag's type says what shells complete after it: FILE, FOLDER, RUN… (a run or a checkpoint), CONFIG (a YAML file),
// KEY=VALUE (a setting), or the words themselves, as auto|float32|bfloat16.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace inkling {

namespace program_details {

inline constexpr std::size_t help_width = 80;

// Returns the words of `text` in lines of help_width, all but the first indented; `used` columns of the first are
// taken.
inline std::string wrapped(std::string_view text, std::size_t indent, std::size_t used) {
  std::string result;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word; used += count_characters(word)) {
    if (used > indent && used + 1 + count_characters(word) > help_width) {
      result += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++used;
    }
    result += word;
  }
  return result;
}

inline std::string shown_names(const CLI::Option& option) {
  if (option.get_positional()) return option.get_single_name();
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return join(names, ", ");
}

inline bool takes_value(const CLI::Option& option) { return option.get_type_size_max() > 0; }
inline bool is_repeatable(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

// One line or more: "  --count N=1             samples for each prompt".
inline std::string help_row(const CLI::Option& option) {
  constexpr std::size_t column = 24;
  std::string row = "  " + shown_names(option);
  if (takes_value(option) && !option.get_positional()) {
    row += " " + option.get_type_name();
    if (!option.get_default_str().empty()) row += "=" + option.get_default_str();
  }
  if (is_repeatable(option)) row += " ...";
  if (row.size() + 1 < column) {
    row.resize(column, ' ');
  } else if (row.size() + 2 + count_characters(option.get_description()) <= help_width) {
    row += "  ";
  } else {
    row += "\n" + std::string(column, ' ');
  }
  const std::size_t used = row.find('\n') == std::string::npos ? row.size() : column;
  return row + wrapped(option.get_description(), column, used) + "\n";
}

inline std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([=](const CLI::Option* option) {
    return option->get_positional() == positional && !option->get_group().empty();
  });
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string text = "Usage: " + app->get_name() + " [OPTIONS]";
    std::string rows;
    for (const CLI::Option* option : shown_options(*app, true)) {
      const std::string name = option->get_single_name() + (is_repeatable(*option) ? "..." : "");
      text += option->get_required() ? " " + name : " [" + name + "]";
      rows += help_row(*option);
    }
    text += str("\n", wrapped(app->get_description(), 0, 0), "\n\n", rows, rows.empty() ? "" : "\n");
    for (const std::string& group : app->get_groups()) {
      std::string of_group;
      for (const CLI::Option* option : shown_options(*app, false)) {
        if (option->get_group() == group) of_group += help_row(*option);
      }
      if (!of_group.empty()) text += str(text.ends_with("\n\n") ? "" : "\n", group, ":\n", of_group);
    }
    return app->get_footer().empty() ? text : text + "\n" + app->get_footer() + "\n";
  }
};

inline nlohmann::ordered_json interface_of(const CLI::Option& option) {
  return {{"name", shown_names(option)},
          {"positional", option.get_positional()},
          {"type", takes_value(option) ? option.get_type_name() : ""},
          {"default", option.get_default_str()},
          {"about", option.get_description()},
          {"repeatable", is_repeatable(option)},
          {"required", option.get_required()},
          {"group", option.get_group()}};
}

// What --interface prints.
inline std::string interface_text(const CLI::App& app) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : shown_options(app, positional)) options.push_back(interface_of(*option));
  }
  return nlohmann::ordered_json{{"program", app.get_name()},
                                {"about", app.get_description()},
                                {"footer", app.get_footer()},
                                {"version", INKLING_VERSION},
                                {"options", options}}
             .dump(2) +
         "\n";
}

}  // namespace program_details

}  // namespace inkling
