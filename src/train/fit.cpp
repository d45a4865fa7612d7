#include "train/fit.h"

#include <limits>

#include "base/error.h"
#include "base/strings.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "train/memory.h"

namespace inkling {
namespace {

// Returns the largest divisor of batch_size below `size`; 0 if there is none.
std::int64_t smaller_micro_batch_size(std::int64_t batch_size, std::int64_t size) {
  do {
    --size;
  } while (size > 0 && batch_size % size != 0);
  return size;
}

}  // namespace

std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device) {
  if (config.memory_limit_gib) return static_cast<std::uint64_t>(*config.memory_limit_gib * (1 << 30));
  if (const auto memory = device_memory(device)) return memory->free;
  constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  return system_memory().free().value_or(unlimited) / 5 * 4;  // the estimate is good to 15 %, and LibTorch comes on top
}

std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t size) {
  const TrainingConfig& training = config.training;
  const std::string need = describe_memory(training_memory(config, shape, runtime, size));
  const std::int64_t half = smaller_micro_batch_size(training.batch_size, size / 2 + 1);
  if (half > 0) {
    return str(need, ". training.micro_batch_size: ", half, " instead of ", size,
               size == 2 * half ? " halves" : " lowers", " all but the weights (about ",
               format_bytes(training_memory(config, shape, runtime, half).total()), " then)");
  }
  if (training.recompute != Recompute::block) {
    return str(need,
               ". training.recompute: block keeps few of the activations and computes each block's forward pass twice");
  }
  return str(need, ". Half of model.block_size halves all but the weights; a smaller model.n_embd lowers all of it");
}

std::int64_t fitting_micro_batch_size(const Config& config, const GptShape& shape, const Runtime& runtime,
                                      std::uint64_t limit) {
  const TrainingConfig& training = config.training;
  const auto fits = [&](std::int64_t size) { return training_memory(config, shape, runtime, size).total() <= limit; };
  std::int64_t size = training.micro_batch_size.value_or(training.batch_size);
  while (!training.micro_batch_size && size > 1 && !fits(size)) {
    size = smaller_micro_batch_size(training.batch_size, size);
  }
  const bool is_tried = reports_lack_of_memory(runtime.device) && !config.runtime.memory_limit_gib;
  if (fits(size) || is_tried) return size;
  throw Error::environment(str("not enough memory: ", format_bytes(limit),
                               config.runtime.memory_limit_gib
                                   ? " are allowed (runtime.memory_limit_gib)"
                                   : " are available (or say how much with runtime.memory_limit_gib)",
                               ", and ", describe_need(config, shape, runtime, size)));
}

}  // namespace inkling
