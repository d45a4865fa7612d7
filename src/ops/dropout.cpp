#include "ops/dropout.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/kept.h"
#include "ops/parallel.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor masked(const at::Tensor& x, std::uint64_t key, double probability) {
  const at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  const std::uint32_t threshold = dropout_threshold(probability);
  const auto scale = static_cast<float>(1.0 / (1.0 - probability));
  float* const values = out.data_ptr<float>();
  parallel_parts(out.numel(), 4096, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().dropout(values + begin, key, static_cast<std::uint64_t>(begin), threshold, scale, end - begin);
  });
  return out;
}

struct CounterDropout : Function<CounterDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::uint64_t key, double probability) {
    context->saved_data["key"] = static_cast<std::int64_t>(key);
    context->saved_data["probability"] = probability;
    return masked(x, key, probability);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto key = static_cast<std::uint64_t>(context->saved_data["key"].toInt());
    return {masked(upstream[0], key, context->saved_data["probability"].toDouble()), {}, {}};
  }
};

// The same numbers as on the CPU, from a key that lies on the device.
struct DeviceDropout : Function<DeviceDropout> {
  struct Mask {
    at::Tensor key;
    std::uint64_t site;
    double probability;
  };

  static at::Tensor masked(const at::Tensor& x, const Mask& mask) {
    const at::Tensor in = x.contiguous();
    const at::Tensor out = at::empty_like(in);
    with_kernels(*cuda_library(x), x, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.dropout(elements<Element>(in), elements<Element>(out), elements<std::uint64_t>(mask.key), mask.site,
                      dropout_threshold(mask.probability), static_cast<float>(1.0 / (1.0 - mask.probability)),
                      in.numel(), current_stream(x));
    });
    return out;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Mask& mask) {
    keep(context, mask);
    return masked(x, mask);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {masked(upstream[0], kept<Mask>(context)), {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, Context& context) {
  if (context.dropout == 0.0) return x;
  if (context.kernels == Kernels::fused && cuda_library(x)) {
    const DeviceDropout::Mask mask{context.device_dropout_key, ++context.dropout_site, context.dropout};
    return DeviceDropout::apply(x, mask);
  }
  if (x.is_cpu() && x.scalar_type() == at::kFloat) {
    return CounterDropout::apply(x, context.next_dropout_key(), context.dropout);
  }
  return at::dropout(x, context.dropout, true);
}

void seed_dropout(const at::Device& device, const Context& context) {
  if (context.dropout == 0.0) return;
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(context.dropout_key);
}

}  // namespace inkling
