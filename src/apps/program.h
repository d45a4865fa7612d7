// What every program does in the same way: flags in, exit code out. Only the source file of a program includes it.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "base/system_files.h"

#if __has_include("runtime/device.h")  // programs that link the floors above LibTorch
#define INKLING_HAS_TORCH
#include <torch/headeronly/version.h>

#include "kernels/cpu_kernels.h"
#include "runtime/device.h"
#include "runtime/ranks.h"
#endif

namespace inkling {

namespace program_details {

// A program shows its flags to people by --help, within 80 columns, and to programs by --interface, as JSON, of which
// scripts/interface makes the man pages and what shells complete.
//
// A flag's type says what shells complete after it: FILE, FOLDER, RUN… (a run or a checkpoint), CONFIG (a YAML file),
// KEY=VALUE (a setting), or the words themselves, as auto|float32|bfloat16.

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

// What --version prints: everything that a bug report has to say about the program and the machine.
inline std::string version_text(const std::string& program) {
  const std::string first = str(program, " ", INKLING_VERSION, "\n");
#ifdef INKLING_HAS_TORCH
  const std::filesystem::path cuda = cuda_library_path();
  std::error_code ignored;
  return str(first, "LibTorch: ", TORCH_VERSION, "\n", "CUDA half: ",
             std::filesystem::exists(cuda, ignored) ? cuda.string() : str("none, there is no ", cuda.string()), "\n",
             "instruction set: ", cpu_kernels().name, "\n");
#else
  return first + "LibTorch: not needed\n";
#endif
}

namespace program_details {

// std::filesystem throws where a folder may not be read.
inline int run_body(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::filesystem::filesystem_error& error) {
    throw_read_error(error.path1(), error.code().value());
  }
}

inline int report(const Error& error) {
  log_error(error.message());
#ifdef INKLING_HAS_TORCH
  tell_launcher(error.message());
#endif
  return static_cast<int>(error.kind());
}

// An exception that is not ours is a GPU's, or a defect. Libraries append stack traces, so only the first line is
// shown.
inline Error explain_foreign(std::string_view what) {
#ifdef INKLING_HAS_TORCH
  if (const auto of_gpu = explain_gpu_error(what)) return *of_gpu;
#endif
  return Error::internal(str("internal error: ", what.substr(0, what.find('\n'))));
}

}  // namespace program_details

// Runs the body of main() and returns its exit code, or the one that belongs to what it threw, after "error: …" on
// stderr. Signals that ask it to end (base/stop_signals.h) end it at once, where `body` does not see to them.
inline int run_program(const std::function<int()>& body) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond `ulimit -f` is an error like a full disk
  answer_stop_signals();
  try {
    const int code = program_details::run_body(body);
    std::cout.flush();
    if (!std::cout)
      throw Error::environment("cannot write to standard output: the disk is full or the reader has gone");
    return code;
  } catch (const Stopped&) {
    std::signal(SIGPIPE, SIG_IGN);  // who reads this may have been ended by the same signal
    log_info(str("stopped by a signal: ", ::strsignal(stop_signal())));
    end_by_signal(stop_signal());
#ifdef INKLING_HAS_TORCH
  } catch (const GpuError& error) {
    return program_details::report(explain_gpu_error(error.what()).value_or(error));
#endif
  } catch (const Error& error) {
    return program_details::report(error);
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    return static_cast<int>(ErrorKind::internal);
  } catch (const std::exception& error) {
    return program_details::report(program_details::explain_foreign(error.what()));
  }
}

// The flags of every program that starts from a configuration file.
struct ConfigFlags {
  std::string config;                  // path of the YAML file
  std::vector<std::string> overrides;  // "section.key=value", in order
  bool print_config = false;
  bool dry_run = false;
};

// For programs that read a configuration and let the command line override it.
inline void add_set_flag(CLI::App& app, std::vector<std::string>& overrides, const std::string& about) {
  const auto check = [](const std::string& text) -> std::string {
    if (text.find('=') != std::string::npos) return {};
    throw Error::input(str("--set ", text, ": there is no \"=\"; write --set KEY=VALUE without spaces"));
  };
  app.add_option("--set", overrides, about)
      ->check(check, "")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

inline void add_config_flags(CLI::App& app, ConfigFlags& flags) {
  app.add_option("CONFIG", flags.config, "the run's settings, a YAML file")->required();
  add_set_flag(app, flags.overrides, "override one setting, as section.key=value");
  app.add_flag("--print-config", flags.print_config, "print the settings with every default, and stop");
  app.add_flag("--dry-run", flags.dry_run, "check everything, write nothing");
}

namespace program_details {

inline std::string describe_unexpected(const CLI::App& app, const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') {
    const bool takes_prompt = app.get_option_no_throw("--prompt") != nullptr;
    return str("unexpected argument ", quote(argument), ": ",
               takes_prompt ? str("did you mean --prompt ", quote(argument), "? ") : std::string(), app.get_name(),
               " --help shows what it takes");
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string flag = argument.substr(0, argument.find('='));
  const auto nearest = nearest_name(flag, known);
  return str("unknown flag ", flag, nearest ? str(": did you mean ", *nearest, "?") : std::string(),
             nearest ? " " : ": ", app.get_name(), " --help lists the flags");
}

}  // namespace program_details

// Calls `call`, which uses what `flag` was given. What that refuses begins with the flag's name.
template <typename Call>
auto for_flag(std::string_view flag, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.kind(), str(flag, ": ", error.message()));
  }
}

// Reads the command line. Returns false if it asked for help or the like, which has then been printed and ends the
// program with 0. Throws Error input for a flag that is unknown (naming the nearest one), a missing argument or a value
// of the wrong type.
inline bool parse_flags(CLI::App& app, int argc, char** argv) {
  // This does not use set_version_flag(), of which a program can have only one: inkling-train needs it for its
  // --settings.
  app.add_flag_callback(
      "--version", [&] { throw CLI::CallForVersion(version_text(app.get_name()), 0); },
      "print the versions and what this machine has, and stop");
  app.add_flag_callback("--interface", [&] { throw CLI::CallForVersion(program_details::interface_text(app), 0); })
      ->group("");  // not shown
  app.set_help_flag("-h,--help", "print this, and stop");
  app.formatter(std::make_shared<program_details::HelpFormatter>());
  app.allow_extras();  // so that an unknown flag is reported by us and before a missing argument
  std::string problem;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::CallForVersion& asked) {  // a flag that only prints a text
    std::cout << asked.what();
    return false;
  } catch (const CLI::ParseError& error) {
    problem = str(error.what(), ": ", app.get_name(), " --help shows what it takes");
  }
  const std::vector<std::string> unexpected = app.remaining();
  if (!unexpected.empty()) problem = program_details::describe_unexpected(app, unexpected.front());
  if (!problem.empty()) throw Error::input(problem);
  return true;
}

}  // namespace inkling
