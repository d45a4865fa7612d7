// Prints samples on standard output while they are being made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generate/generator.h"

namespace inkling {

enum class SampleForm {
  text,  // the prompt and its continuation; a line of dashes stands between two samples
  json,  // one JSON object a line, once a sample is complete: prompt, text, tokens, finish, seed, sample
};

// Prints samples in their order. The first one that is not complete is printed as it grows; later ones wait. Text is
// printed as soon as it is made, without a buffer. Throws Error environment if it cannot write.
class SamplePrinter {
 public:
  // `prompts` must outlive this.
  SamplePrinter(const std::vector<std::string>& prompts, std::uint64_t seed, SampleForm form)
      : prompts_(prompts), seed_(seed), form_(form) {}

  // Takes what a Watcher is called with. Returns false once nobody reads any more (`| head` has seen enough), which is
  // not an error; whoever calls this must ignore SIGPIPE.
  bool add(std::size_t index, const Sample& sample, std::string_view added, bool finished);

  // After an interruption: ends the samples that were begun and are not complete.
  void finish(const std::vector<Sample>& samples);

 private:
  struct Pending {
    std::string text;  // not printed yet
    bool begun = false, finished = false;
  };

  void write(std::string_view text);
  void print_what_may_be_seen();
  std::string json_line(const Sample& sample) const;

  const std::vector<std::string>& prompts_;
  std::uint64_t seed_;
  SampleForm form_;
  bool reader_gone_ = false;
  std::size_t next_ = 0;  // the first sample not printed to its end
  std::map<std::size_t, Pending> waiting_;
};

}  // namespace inkling
