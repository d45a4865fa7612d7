// What happened, as JSON in the file that SOFTWARE_GPU_REPORT names, and the exit code 99 of a process that made
// mistakes.
#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr int exit_code_of_mistakes = 99;

struct Found {
  std::string what;
  Place place;
  unsigned long count = 0;
};

struct Report {
  Totals totals;
  std::map<std::string, unsigned long> calls, counts, errors;
  std::map<std::string, KernelCounts> kernels;
  std::map<std::pair<std::string, Place>, unsigned long> waits;
  std::vector<Found> mistakes;
};

Report& report() {
  static Report& one = *new Report;  // never destroyed: libraries call CUDA while they are unloaded
  return one;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// The elements of a list or an object, between commas.
template <typename Elements, typename Write>
std::string joined(char open, const Elements& elements, char close, const Write& write) {
  std::string out(1, open);
  for (const auto& element : elements) out += (out.size() == 1 ? "" : ", ") + write(element);
  return out + close;
}

std::string numbers(const std::map<std::string, unsigned long>& by_name) {
  return joined('{', by_name, '}',
                [](const auto& one) { return quoted(one.first) + ": " + std::to_string(one.second); });
}

std::string kernels_as_json() {
  std::map<std::string, KernelCounts> launched = report().kernels;
  std::erase_if(launched, [](const auto& one) { return one.second.direct + one.second.recorded == 0; });
  return joined('{', launched, '}', [](const auto& one) {
    const KernelCounts& counts = one.second;
    return "\n  " + quoted(one.first) + ": {\"direct\": " + std::to_string(counts.direct) +
           ", \"recorded\": " + std::to_string(counts.recorded) + ", \"replayed\": " + std::to_string(counts.replayed) +
           ", \"shape\": " + quoted(counts.shape) + "}";
  });
}

// How often by what and described place. Places that differ only in what is not described are one.
using Described = std::map<std::pair<std::string, std::vector<std::string>>, unsigned long>;
Described described(const std::vector<Found>& all) {
  std::vector<Place> places;
  for (const Found& one : all) places.push_back(one.place);
  const std::vector<std::vector<std::string>> frames = describe(places);
  Described result;
  for (std::size_t i = 0; i < all.size(); ++i) result[{all[i].what, frames[i]}] += all[i].count;
  return result;
}

std::string found_as_json(const char* key, const std::vector<Found>& all) {
  return joined('[', described(all), ']', [&](const auto& one) {
    const auto& [what, frames] = one.first;
    return std::string("\n  {\"") + key + "\": " + quoted(what) + ", \"count\": " + std::to_string(one.second) +
           ", \"place\": " + joined('[', frames, ']', quoted) + "}";
  });
}

std::vector<Found> waits() {
  std::vector<Found> all;
  for (const auto& [key, count] : report().waits) all.push_back({key.first, key.second, count});
  return all;
}

void write_report() {
  std::string path = setting("REPORT", "");
  const Report& all = report();
  if (path.empty() || all.calls.empty()) return;
  if (const std::size_t at = path.find("%p"); at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
  std::ostringstream out;
  const auto field = [&](const char* name, const auto& value) { out << ",\n" << '"' << name << "\": " << value; };
  out << "{\"program\": " << quoted(program_invocation_short_name);
  field("launches", all.totals.launches);
  field("recorded", all.totals.recorded);
  field("replayed", all.totals.replayed);
  field("graph_launches", all.totals.graph_launches);
  field("captures", all.totals.captures);
  field("graph_nodes", joined('[', all.totals.graph_nodes, ']', [](std::size_t n) { return std::to_string(n); }));
  field("peak_bytes", peak_of_device_memory());
  field("pinned_peak_bytes", peak_of_pinned_memory());
  field("copied_to_device", all.totals.copied_to_device);
  field("copied_to_host", all.totals.copied_to_host);
  field("calls", numbers(all.calls));
  field("counts", numbers(all.counts));
  field("errors", numbers(all.errors));
  field("kernels", kernels_as_json());
  field("waits", found_as_json("call", waits()));
  field("mistakes", found_as_json("what", all.mistakes));
  std::ofstream(path) << out.str() << "}\n";
}

void print_mistakes() {
  for (const auto& [mistake, times] : described(report().mistakes)) {
    std::fprintf(stderr, "software GPU: %s (%lu times), first at\n", mistake.first.c_str(), times);
    for (const std::string& frame : mistake.second) std::fprintf(stderr, "    %s\n", frame.c_str());
  }
}

// After the destructors of all libraries that use this one.
__attribute__((destructor)) void end_of_process() {
  const std::unique_lock lock(mutex(),
                              std::try_to_lock);  // a thread that goes on must not stop the process from ending
  write_report();
  if (report().mistakes.empty()) return;
  std::fflush(nullptr);
  print_mistakes();
  if (number("FORGIVING", 0) == 0) _exit(exit_code_of_mistakes);
}

}  // namespace

void count_call(const char* name) { ++report().calls[name]; }
void count_error(const std::string& what) { ++report().errors[what]; }

void count(const std::string& what) {
  const std::scoped_lock lock(mutex());
  ++report().counts[what];
}

KernelCounts& counts_of_kernel(const std::string& name) { return report().kernels[name]; }
Totals& totals() { return report().totals; }

void count_wait(const char* what) { ++report().waits[{what, this_place()}]; }

void complain(const std::string& mistake) {
  const std::scoped_lock lock(mutex());
  for (Found& one : report().mistakes) {
    if (one.what != mistake) continue;
    ++one.count;
    return;
  }
  report().mistakes.push_back({.what = mistake, .place = this_place(), .count = 1});
}

void end_with_mistake(const std::string& mistake) {
  complain(mistake);
  write_report();
  std::fflush(nullptr);
  print_mistakes();
  _exit(exit_code_of_mistakes);
}

}  // namespace software_gpu
