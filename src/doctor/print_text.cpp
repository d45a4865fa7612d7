// Shows facts and problems as a text of 80 columns.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "doctor/doctor.h"

namespace inkling::doctor {
namespace {

constexpr std::size_t columns = 80;
constexpr std::size_t label_width = 15;

std::string one_line(std::string_view text) { return printable(text, Charset::utf8); }

// `text` without its first `count` characters, which are moved to the end of `line`.
void move_characters(std::string& text, std::size_t count, std::string& line) {
  std::size_t end = 0;
  while (count-- > 0 && end < text.size()) {
    do {
      ++end;
    } while (end < text.size() && continues_character(text[end]));
  }
  line += text.substr(0, end);
  text.erase(0, end);
}

// The words of `text` in lines of at most `width` characters; a longer word is cut.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::string rest = one_line(text);
  while (!rest.empty()) {
    std::size_t space = rest.find(' ');
    std::string word = rest.substr(0, space);
    rest.erase(0, space == std::string::npos ? rest.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t taken = count_characters(lines.back());
    if (taken > 0 && taken + 1 + count_characters(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    while (count_characters(word) > width) {
      move_characters(word, width, lines.back());
      lines.emplace_back();
    }
    lines.back() += word;
  }
  return lines;
}

std::string spaces(std::size_t width, std::string_view beside) {
  const std::size_t taken = count_characters(beside);
  return std::string(width > taken ? width - taken : 0, ' ');
}

// What spaces outside of quotes part. No word is cut, however long: a command is there to be copied.
std::vector<std::string> words_of_command(std::string_view text) {
  std::vector<std::string> words(1);
  char quote = '\0';
  for (const char c : text) {
    if (c == ' ' && quote == '\0') {
      words.emplace_back();
      continue;
    }
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    }
    words.back() += c;
  }
  return words;
}

// A cell that is too long loses its middle.
std::string fitted(const std::string& cell, std::size_t width) {
  std::string rest = one_line(cell), front;
  const std::size_t length = count_characters(rest);
  if (length <= width) return rest;
  const std::size_t kept = width - 3, head = kept / 2;
  move_characters(rest, head, front);
  std::string dropped;
  move_characters(rest, length - kept, dropped);
  return front + "..." + rest;
}

// A page of 80 columns that is written from top to bottom: headings, labelled entries, rows of a table, commands.
class Page {
 public:
  void heading(std::string_view text) {
    text_ += text_.empty() ? "" : "\n";
    for (const std::string& line : wrapped(text, columns)) text_ += line + "\n";
  }

  // "  label           text that goes on
  //                    below itself": control characters and bytes that are not UTF-8 are shown as "?".
  void entry(std::string_view label, std::string_view text) {
    std::string front = str("  ", fitted(std::string(label), label_width));
    front += spaces(label_width + 4, front);
    for (const std::string& line : wrapped(text, columns - label_width - 4)) {
      text_ += front + line + "\n";
      front.assign(label_width + 4, ' ');
    }
  }

  // A text over the whole width, behind "  mark ".
  void note(std::string_view text, std::string_view mark = "") {
    std::string front = mark.empty() ? "  " : str("  ", mark, " ");
    const std::size_t indent = count_characters(front);
    for (const std::string& line : wrapped(text, columns - indent)) {
      text_ += front + line + "\n";
      front.assign(indent, ' ');
    }
  }

  // "    $ text", which goes on behind a backslash where it is longer; words stay whole.
  void command(std::string_view text) {
    std::string line = "    $";
    for (const std::string& word : words_of_command(one_line(text))) {
      if (count_characters(line) + 1 + count_characters(word) + 2 > columns && !line.ends_with("$")) {
        text_ += line + " \\\n";
        line = "     ";
      }
      line += " " + word;
    }
    text_ += line + "\n";
  }

  // Cells in columns of these widths, the first to the left and the others to the right.
  void row(std::span<const std::string> cells, std::span<const std::size_t> widths) {
    std::string line = "  ";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = fitted(cells[i], widths[i]);
      line += i == 0 ? cell + spaces(widths[i], cell) : spaces(widths[i], cell) + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string count_of(std::int64_t count, std::string_view one) { return str(count, " ", one, count == 1 ? "" : "s"); }

// "GFLOP/s" with three digits that mean something.
std::string format_flops(double flops) {
  const bool is_large = flops >= 1e13;
  const double value = flops / (is_large ? 1e12 : 1e9);
  return str(format_fixed(value, value < 10 ? 1 : 0), is_large ? " TFLOP/s" : " GFLOP/s");
}

std::string format_time(double seconds) {
  constexpr double minute = 60, hour = 60 * minute, day = 24 * hour, year = 365 * day;
  const auto digits = [](double value) { return value < 9.95 ? 1 : 0; };
  const auto with_unit = [&](double value, const char* unit) { return str(format_fixed(value, digits(value)), unit); };
  if (seconds < 0.0009995) return with_unit(1e6 * seconds, " us");
  if (seconds < 0.9995) return with_unit(1000 * seconds, " ms");
  if (seconds < 2 * minute) return with_unit(seconds, " s");
  if (seconds < 2 * hour) return with_unit(seconds / minute, " min");
  if (seconds < 2 * day) return with_unit(seconds / hour, " h");
  return seconds < 2 * year ? with_unit(seconds / day, " days") : with_unit(seconds / year, " years");
}

std::string format_parameters(std::uint64_t count) {
  const double millions = static_cast<double>(count) / 1e6;
  return str(format_fixed(millions, millions < 9.95 ? 2 : millions < 99.5 ? 1 : 0), " M");
}

std::string describe_processor(const Processor& processor, const System& system) {
  std::string words = processor.model.empty() ? "unknown" : processor.model;
  words += str("; ", count_of(processor.cores, "core"), ", ", count_of(processor.usable_threads, "thread"));
  if (processor.threads > processor.usable_threads) words += str(" of the machine's ", processor.threads);
  if (processor.quota) words += str(", ", format_fixed(*processor.quota, 1), " cores' worth of time (control group)");
  for (const CacheSize& cache : processor.caches) words += str("; L", cache.level, " ", format_bytes(cache.bytes));
  return words + (system.is_virtual ? "; virtual" : "");
}

std::string describe_instructions(const InstructionSets& sets) {
  std::vector<std::string> missing, others;
  for (const std::string& name : sets.compiled) {
    const bool is_supported = std::count(sets.supported.begin(), sets.supported.end(), name) > 0;
    if (!is_supported) missing.push_back(name);
    if (is_supported && name != sets.in_use) others.push_back(name);
  }
  std::string words = sets.in_use.empty() ? "none" : sets.in_use;
  if (!others.empty()) words += str("; could also use ", join(others, ", "));
  if (!missing.empty()) words += str("; this processor lacks ", join(missing, ", "));
  return words;
}

std::string describe_memory_of(const SystemMemory& memory) {
  std::string words = memory.total ? str(format_bytes(*memory.total), ", ") : "";
  words += memory.available ? str(format_bytes(*memory.available), " free") : "how much is free is unknown";
  if (memory.group_limit) {
    words += str("; a control group allows ", format_bytes(*memory.group_limit), ", of which ",
                 format_bytes(memory.group_free.value_or(0)), " are free");
  }
  if (memory.swap_total == 0) return words + "; no swap";
  return words + str("; swap ", format_bytes(memory.swap_total), ", ", format_bytes(memory.swap_free), " free");
}

// One entry for what is on the same disk.
void print_disks(const std::vector<Disk>& disks, Page& page) {
  const auto same = [](const Disk& a, const Disk& b) {
    return a.total == b.total && a.free == b.free && a.kind == b.kind && a.is_writable == b.is_writable;
  };
  for (auto disk = disks.begin(); disk != disks.end(); ++disk) {
    if (std::any_of(disks.begin(), disk, [&](const Disk& before) { return same(before, *disk); })) continue;
    std::vector<std::string> uses;
    for (auto other = disk; other != disks.end(); ++other) {
      if (same(*disk, *other)) uses.push_back(str(other->use, " (", other->path, ")"));
    }
    page.entry("disk", str(format_bytes(disk->free), " free of ", format_bytes(disk->total),
                           disk->kind.empty() ? "" : str(" (", disk->kind, ")"),
                           disk->is_writable ? "" : ", not writable", ", for ", join(uses, ", ")));
  }
}

std::string describe_libraries(const Libraries& libraries) {
  std::vector<std::string> words;
  for (const Library& library : libraries.all) words.push_back(str(library.name, " ", library.version));
  return join(words, ", ");
}

void print_graphics(const Graphics& graphics, Page& page) {
  for (const Gpu& gpu : graphics.gpus) {
    page.entry("GPU", str(gpu.name, ", compute capability ", gpu.major, ".", gpu.minor, ", ", format_bytes(gpu.memory),
                          ", ", format_bytes(gpu.free), " free; driver ",
                          graphics.driver_version.empty() ? "unknown" : graphics.driver_version));
  }
  if (!graphics.gpus.empty()) return;
  std::string words = str("none that can be used: ", graphics.why_none);
  if (!graphics.devices.empty()) words += str("; in the machine: ", join(graphics.devices, ", "));
  if (!graphics.driver_version.empty()) words += str("; NVIDIA's driver ", graphics.driver_version);
  page.entry("GPU", words);
}

void print_machine(const Facts& facts, Page& page) {
  const System& system = facts.system;
  page.entry("system", str(system.distribution.empty() ? "unknown" : system.distribution, ", Linux ", system.kernel,
                           system.is_container ? ", in a container" : ""));
  page.entry("processor", describe_processor(facts.processor, system));
  page.entry("instructions", describe_instructions(facts.instructions));
  page.entry("memory", describe_memory_of(facts.memory));
  print_disks(facts.disks, page);
  print_graphics(facts.graphics, page);
  page.entry("software", describe_libraries(facts.libraries));
  page.entry("LibTorch in", facts.libraries.torch_folder);
  for (const Variable& variable : facts.environment.variables) {
    page.entry("variable", str(variable.name, "=", variable.value));
  }
}

void print_load(const Load& load, Page& page) {
  page.heading("Busy just now");
  for (const Program& program : load.programs) {
    page.entry(str("process ", program.process),
               str(program.name, ", ", format_fixed(program.cores, 1), " cores",
                   program.run_folder.empty() ? "" : str(", trains in ", program.run_folder)));
  }
  if (load.stolen >= 0.05) page.entry("other machines", str(format_fixed(load.stolen, 1), " cores (stolen time)"));
  page.entry("in all", str(format_fixed(load.busy, 1), " cores busy, load average ", format_fixed(load.average, 1)));
}

void print_speed(const Speed& speed, Page& page) {
  page.heading("Speed, measured just now");
  std::vector<std::string> words;
  for (const ProductSpeed& product : speed.products) {
    words.push_back(speed.products.size() == 1 && speed.device != "cpu"
                        ? format_flops(product.flops)
                        : str(format_flops(product.flops), " with ", count_of(product.threads, "thread")));
  }
  page.entry("products", str(join(words, ", "), " (large matrices in ", speed.dtype, " on ", speed.device, ")"));
  if (speed.thread_start > 0) page.entry("threads", str(format_time(speed.thread_start), " to begin and end together"));
  page.entry("memory", str(format_fixed(speed.memory / 1e9, 1), " GB/s read"));
}

constexpr std::array<std::size_t, 7> widths = {26, 8, 10, 9, 10, 9, 6};

std::vector<std::string> cells_of(const Forecast& forecast, bool is_measured) {
  const bool is_known = forecast.parameters > 0, is_estimated = forecast.step_seconds > 0;
  std::vector<std::string> cells = {
      forecast.name, is_known ? format_parameters(forecast.parameters) : "",
      forecast.memory > 0 ? format_bytes(forecast.memory) : "", is_estimated ? format_time(forecast.step_seconds) : "",
      is_estimated ? format_time(forecast.measured_run.value_or(forecast.run_seconds)) : "no"};
  if (is_measured && forecast.measured_step) {
    cells.push_back(format_time(*forecast.measured_step));
    cells.push_back(format_fixed(*forecast.measured_step / forecast.step_seconds, 2));
  }
  return cells;
}

// What the table cannot say in a row.
void print_notes(const std::vector<Forecast>& forecasts, Page& page) {
  for (const Forecast& forecast : forecasts) {
    if (!forecast.why_not.empty()) page.note(str(forecast.name, ": ", forecast.why_not), "-");
    if (forecast.measured_step && forecast.measured_windows < forecast.batch_size) {
      page.note(str(forecast.name, ": timed with ", forecast.measured_windows, " of its ", forecast.batch_size,
                    " windows a step, and scaled"),
                "-");
    }
    if (forecast.why_not.empty() && forecast.micro_batch_size > 0 && forecast.micro_batch_size < forecast.batch_size) {
      page.note(str(forecast.name, ": ", forecast.micro_batch_size, " of its ", forecast.batch_size,
                    " windows at a time", forecast.split == "batch" ? " in each thread" : ""),
                "-");
    }
  }
}

void print_forecasts(const Facts& facts, Page& page) {
  if (facts.forecasts.empty()) return;
  const bool is_measured = std::any_of(facts.forecasts.begin(), facts.forecasts.end(),
                                       [](const Forecast& forecast) { return forecast.measured_step.has_value(); });
  page.heading("Training here");
  std::vector<std::string> titles = {"configuration", "weights", "memory", "a step", "whole run"};
  if (is_measured) titles.insert(titles.end(), {"timed", "ratio"});
  page.row(titles, widths);
  for (const Forecast& forecast : facts.forecasts) page.row(cells_of(forecast, is_measured), widths);
  page.note(
      str("\"a step\" is ESTIMATED from the speeds above: arithmetic for each token, memory that is moved, and threads "
          "that begin and end together. ",
          is_measured ? "\"timed\" is the median of real steps on random tokens, \"ratio\" timed over estimated; "
                        "the whole run follows what was timed. "
                      : "--measure times real steps instead. ",
          "The run has its evaluations; preparing data and saving are left out."));
  print_notes(facts.forecasts, page);
}

void print_choices(const Choices& choices, Page& page) {
  if (choices.all.empty()) return;
  page.heading("What auto means here (runtime.…)");
  for (const Choice& choice : choices.all) page.entry(choice.setting, str(choice.value, ": ", choice.reason));
}

void print_problems(const std::vector<Problem>& problems, Page& page) {
  const auto fatal = static_cast<std::int64_t>(std::count_if(
      problems.begin(), problems.end(), [](const Problem& problem) { return problem.severity == Severity::cannot; }));
  const auto warnings = static_cast<std::int64_t>(problems.size()) - fatal;
  page.heading(problems.empty() ? "No problems were found."
                                : "Problems, each with a command that solves it or shows what would");
  for (const Problem& problem : problems) {
    page.note(problem.text, problem.severity == Severity::cannot ? "X" : "!");
    page.command(problem.command);
  }
  if (fatal > 0) {
    page.heading(str("Training cannot work here before ", count_of(fatal, "problem"), " marked X ",
                     fatal == 1 ? "is" : "are", " solved."));
  } else if (warnings > 0) {
    page.heading(str("Training works here; ", count_of(warnings, "thing"), " could be better."));
  }
}

}  // namespace

std::string as_text(const Facts& facts, const std::vector<Problem>& problems) {
  Page page;
  page.heading("This machine");
  print_machine(facts, page);
  print_load(facts.load, page);
  if (facts.speed) print_speed(*facts.speed, page);
  print_choices(facts.choices, page);
  print_forecasts(facts, page);
  print_problems(problems, page);
  return page.text();
}

}  // namespace inkling::doctor
