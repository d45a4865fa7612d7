// inkling as a library: opens a trained model and writes text with it.
//
//   inkling::TextModel model = inkling::load("runs/fables");
//   std::cout << model.sample("One day, ");
//
// Nothing of LibTorch is needed to compile or link: libinkling.so looks for it when the first model is opened, in the
// same places as the programs do ($INKLING_TORCH, a virtual environment, Python's packages, ~/.cache/inkling).
//
// Functions throw std::invalid_argument for what the caller can correct (a folder without a model, a temperature below
// 0) and std::runtime_error for what this machine lacks or what failed; what() says what to do. A model must not be
// used by two threads at the same time.
//
// Nothing of the program's own settings is changed: rounding, locale, signals, LibTorch's threads and switches are as
// before when a function returns, and while on_text runs. (On a GPU, CUBLAS_WORKSPACE_CONFIG is set where it is not.
// And a thread of the program's that uses LibTorch for the first time during a call keeps the call's number of
// threads.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define INKLING_EXPORT __attribute__((visibility("default")))

namespace inkling {

// As inkling-sample's flags of these names.
struct LoadOptions {
  std::string checkpoint;           // of a run: "best" (as when empty), "newest" or a step
  std::string device = "auto";      // "cpu", "cuda" or "cuda:N"
  std::string dtype = "auto";       // "float32" or "bfloat16"
  std::optional<int> threads = {};  // CPU threads; none: one per physical core at most
};

struct SampleOptions {
  std::uint64_t max_tokens = 500;
  std::uint64_t seed = 1;
  // None: what the model's generation_config.json says, or else what inkling-sample does without these flags.
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
  std::optional<std::uint64_t> top_k = {};
  std::vector<std::string> stops;  // a text ends before the first of these, or at a special token of this name
  bool special = false;            // names of special tokens in the prompt are these tokens
  bool ignore_end = false;         // go on where the model ends a document
  // Is called with each piece of a text as it is made (of several texts, with those of all of them); false ends them
  // all.
  std::function<bool(std::string_view)> on_text;
};

struct OpenModel;  // what LibTorch is needed for

class INKLING_EXPORT TextModel {
 public:
  explicit TextModel(std::unique_ptr<OpenModel> model);
  TextModel(TextModel&&) noexcept;
  TextModel& operator=(TextModel&&) noexcept;
  ~TextModel();

  // Returns what goes on from the prompt, without it. The same seed gives the same text on the same machine.
  std::string sample(const std::string& prompt, const SampleOptions& options = {}) const;

  // Returns several texts that go on from the prompt. The first is what sample() returns.
  std::vector<std::string> samples(const std::string& prompt, std::uint64_t count,
                                   const SampleOptions& options = {}) const;

 private:
  std::unique_ptr<OpenModel> model_;
};

// Opens the folder of a run, of a checkpoint, or of a model in Hugging Face's format.
INKLING_EXPORT TextModel load(const std::filesystem::path& run_or_checkpoint, const LoadOptions& options = {});

}  // namespace inkling
