#include "train/samples.h"

#include "base/error.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "runtime/cpu_memory.h"
#include "text/prompts.h"

namespace inkling {

std::vector<std::string> sampling_prompts(const SamplingConfig& sampling) {
  return sampling.prompts.empty() ? std::vector<std::string>{""} : sampling.prompts;
}

void check_sampling(const SamplingConfig& sampling, const Tokenizer* tokenizer) {
  if (sampling.interval == 0) return;
  if (tokenizer == nullptr) {
    throw Error::input(str("sampling.interval is ", sampling.interval,
                           ", and ready token files have no tokenizer that turns tokens into text; write "
                           "sampling.interval: 0, or train from the text"));
  }
  const std::vector<std::string> prompts = sampling_prompts(sampling);
  hint_at_names(*tokenizer, {prompts, std::vector<std::string>(prompts.size(), "sampling.prompts")}, {});
  for (const std::string& prompt : prompts) {
    try {
      encode_prompt(*tokenizer, prompt);
    } catch (const Error& error) {
      throw Error(error.kind(), str("sampling.prompts, ", quote(prompt), ": ", error.message()));
    }
  }
}

std::vector<DrawnSample> draw_samples(const SamplingConfig& sampling, const Writer& writer) {
  const std::vector<std::string> prompts = sampling_prompts(sampling);
  const GenerationSettings settings = {
      .max_tokens = sampling.max_tokens, .sampling = sampling.settings, .seed = sampling.seed};
  const auto watch = [](std::size_t, const Sample&, std::string_view, bool) { return !stop_requested(); };
  give_back_cpu_memory();  // the blocks kept for a step are of no use here, nor are these in the next step
  const std::vector<Sample> samples = generate(writer, prompts, settings, watch);
  give_back_cpu_memory();
  leave_if_stopped();
  std::vector<DrawnSample> drawn;
  for (const Sample& sample : samples) drawn.push_back({prompts[sample.prompt], sample.text});
  return drawn;
}

}  // namespace inkling
