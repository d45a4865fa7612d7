// This is the only file that includes spdlog. Both spdlog and fmt are header-only here, so that programs need neither
// library at run time and our version of fmt never meets the one that torch ships.
#define FMT_HEADER_ONLY
#define SPDLOG_HEADER_ONLY
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace inkling {

namespace {

// Writes "warning: " or "error: " before the message; information needs no prefix.
class LevelPrefix : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    std::string_view prefix;
    if (message.level == spdlog::level::warn) prefix = "warning: ";
    if (message.level == spdlog::level::err) prefix = "error: ";
    line.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelPrefix>(); }
};

bool stderr_has_color() {
  const char* no_color = std::getenv("NO_COLOR");
  return stderr_is_terminal() && (no_color == nullptr || *no_color == '\0');
}

spdlog::logger make_logger() {
  const auto mode = stderr_has_color() ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(mode);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelPrefix>('*').set_pattern("%^%*%$%v");
  sink->set_formatter(std::move(formatter));
  spdlog::logger logger("inkling", std::move(sink));
  logger.flush_on(spdlog::level::trace);
  return logger;
}

std::string error_prefix;
std::atomic<bool> errors_alone = false;

void log(spdlog::level::level_enum level, std::string_view message) {
  static spdlog::logger logger = make_logger();
  if (!errors_alone) return logger.log(level, spdlog::string_view_t(message.data(), message.size()));
  if (level == spdlog::level::err) logger.log(level, error_prefix + std::string(message));
}

}  // namespace

void log_info(std::string_view message) { log(spdlog::level::info, message); }
void log_warning(std::string_view message) { log(spdlog::level::warn, message); }
void log_error(std::string_view message) { log(spdlog::level::err, message); }

void log_errors_alone(std::string_view prefix) {
  error_prefix = prefix;
  errors_alone = true;
}

bool stderr_is_terminal() { return !errors_alone && ::isatty(STDERR_FILENO) == 1; }

}  // namespace inkling
