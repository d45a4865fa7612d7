// What every program does in the same way: flags in, exit code out. Only the source file of a program includes it.
#pragma once

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/log.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "help.h"
#include "version.h"

namespace inkling {

namespace program_details {

// std::filesystem throws where a folder may not be read.
inline int run_body(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::filesystem::filesystem_error& error) {
    throw_read_error(error.path1(), error.code().value());
  }
}

}  // namespace program_details

// Runs the body of main() and returns its exit code, or the one that belongs to what it threw, after "error: …" on
// stderr. An exception that is not ours is shown by its first line only: libraries append stack traces. Signals that
// ask it to end (base/stop_signals.h) end it at once, where `body` does not see to them.
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
  } catch (const Error& error) {
    log_error(error.message());
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    return static_cast<int>(ErrorKind::internal);
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    log_error(str("internal error: ", what.substr(0, what.find('\n'))));
    return static_cast<int>(ErrorKind::internal);
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
