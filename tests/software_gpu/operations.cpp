// Computes LibTorch's own operations. LibTorch's CUDA kernels cannot run here, but each of its operations has a twin
// for the CPU. So each operation is called twice: LibTorch's CUDA half launches what it launches, which is counted and
// checked, and the CPU's twin is put on the same stream behind it, with the same arguments in the same memory.
//
// Operations are seen between autograd and the devices, by the dispatch key Fake, which LibTorch itself has no use for.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/software_gpu/software_gpu.h"
#include "tests/software_gpu/twins.h"

namespace software_gpu {
namespace {

using torch::jit::Stack;

constexpr c10::DispatchKey seen_by = c10::DispatchKey::Fake;

// A tensor's place and form. It does not keep the tensor, whose memory must be free for others when LibTorch says so.
struct Place {
  void* data;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType dtype;

  explicit Place(const at::Tensor& tensor)
      : data(tensor.numel() == 0 ? nullptr : tensor.data_ptr()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        dtype(tensor.scalar_type()) {}

  at::Tensor on_cpu() const {
    if (data == nullptr) return at::empty_strided(sizes, strides, dtype);
    return at::for_blob(on_host(data), sizes).strides(strides).options(at::TensorOptions(dtype)).make_tensor();
  }
};

// An argument as it will be when its turn has come.
struct Argument {
  c10::IValue value = {};  // what is no tensor, or a tensor of the CPU
  std::shared_ptr<Place> place = {};
  std::vector<Argument> list = {};  // of tensors
  bool is_list = false;

  c10::IValue on_cpu() const {
    if (place) return place->on_cpu();
    if (!is_list) return value;
    c10::List<std::optional<at::Tensor>> optional;
    c10::List<at::Tensor> tensors;
    const bool has_gaps =
        std::any_of(list.begin(), list.end(), [](const Argument& one) { return one.value.isNone() && !one.place; });
    for (const Argument& one : list) {
      const c10::IValue each = one.on_cpu();
      if (has_gaps) {
        optional.push_back(each.isNone() ? std::optional<at::Tensor>() : each.toTensor());
      } else {
        tensors.push_back(each.toTensor());
      }
    }
    return has_gaps ? c10::IValue(optional) : c10::IValue(tensors);
  }
};

bool is_on_gpu(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda();
}

bool is_tensor_list(const c10::IValue& value) {
  if (value.isTensorList()) return true;
  if (!value.isList()) return false;
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(), [](const c10::IValue& one) { return one.isTensor(); });
}

Argument argument_of(const c10::IValue& value) {
  if (is_on_gpu(value)) return {.place = std::make_shared<Place>(value.toTensor())};
  if (value.isTensor() && value.toTensor().defined())
    return {.value = value.toTensor().clone()};  // read now, as a launch does
  if (value.isDevice()) return {.value = c10::Device(c10::kCPU)};
  if (value.isGenerator()) return {};
  if (!is_tensor_list(value)) return {.value = value};
  Argument list = {.is_list = true};
  for (const c10::IValue& one : value.toListRef()) list.list.push_back(argument_of(one));
  return list;
}

void collect(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  if (!is_tensor_list(value)) return;
  for (const c10::IValue& one : value.toListRef()) collect(one, tensors);
}

std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) collect(value, tensors);
  return tensors;
}

// What there is nothing to compute of: memory whose contents nobody has promised.
bool leaves_memory_as_it_is(const std::string& name) {
  static const std::set<std::string> names = {"aten::resize_",   "aten::set_",        "aten::record_stream",
                                              "aten::detach",    "aten::alias",       "aten::_local_scalar_dense",
                                              "aten::is_pinned", "aten::_pin_memory", "aten::resize_as_"};
  return names.contains(name) || name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

// What consists of other operations, each of which is computed by itself: what has no kernel of its own for GPUs, and
// copies between host and device. A copy within the device has one, but is registered for all devices.
bool consists_of_others(const c10::OperatorHandle& operation, c10::ArrayRef<c10::IValue> arguments) {
  if (operation.schema().name() == "aten::copy_") return is_on_gpu(arguments[0]) != is_on_gpu(arguments[1]);
  return !operation.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

// The log-sum-exp of attention has room for more queries than there are.
void write(const Place& place, const at::Tensor& result) {
  at::Tensor out = place.on_cpu();
  for (std::int64_t i = 0; i < out.dim(); ++i) out = out.narrow(i, 0, result.size(i));
  out.copy_(result);
}

// Calls the CPU's twin and writes what it returns where the GPU's results are; returns it.
Stack compute(const c10::OperatorHandle& operation, const std::vector<Argument>& arguments,
              const std::vector<Argument>& results) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard unseen(seen_by);
  const auto call = [&](bool in_float32) {
    Stack stack;
    for (const Argument& argument : arguments) {
      stack.push_back(argument.on_cpu());
      const bool is_half = stack.back().isTensor() && stack.back().toTensor().scalar_type() == at::kBFloat16;
      if (in_float32 && is_half) stack.back() = stack.back().toTensor().to(at::kFloat);
    }
    if (!compute_twin(operation.schema().name(), stack)) operation.callBoxed(stack);
    return stack;
  };
  Stack stack;
  try {
    stack = call(false);
  } catch (const c10::Error&) {  // the CPU's LayerNorm takes no bfloat16 beside float32, which the GPU's does
    if (operation.schema().is_mutable()) throw;
    stack = call(true);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_known = stack[i].isTensor() && stack[i].toTensor().defined();  // of attention, not all is
    if (results[i].place && is_known) write(*results[i].place, stack[i].toTensor());
    for (std::size_t j = 0; j < results[i].list.size(); ++j) {
      results[i].list[j].place->on_cpu().copy_(stack[i].toListRef()[j].toTensor());
    }
  }
  return stack;
}

// Whether to compute it where nothing is to be computed: what steers a run, such as the number of its updates, is
// small.
bool is_small(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return static_cast<std::size_t>(tensor.numel()) <= most_elements_of_what_is_small;
  });
}

// The results that the CPU's are to be copied to: those that are not arguments, which it writes itself.
std::vector<Argument> new_results(const c10::OperatorHandle& operation, c10::ArrayRef<c10::IValue> results) {
  std::vector<Argument> found;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_written = operation.schema().returns()[i].alias_info() != nullptr;
    found.push_back(is_written ? Argument() : argument_of(results[i]));
  }
  return found;
}

bool only_shows_memory(const c10::OperatorHandle& operation, const std::vector<at::Tensor>& before,
                       const std::vector<at::Tensor>& after) {
  if (operation.schema().is_mutable()) return false;
  return std::any_of(after.begin(), after.end(), [&](const at::Tensor& result) {
    return std::any_of(before.begin(), before.end(),
                       [&](const at::Tensor& argument) { return result.is_alias_of(argument); });
  });
}

std::vector<Argument> given_arguments(const c10::OperatorHandle& operation, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<Argument> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {  // of factories, pinned memory is CUDA's
    const bool is_pinning = operation.schema().arguments()[i].name() == "pin_memory";
    given.push_back(is_pinning ? Argument() : argument_of(arguments[i]));
  }
  return given;
}

// What the host is told, such as whether two tensors are equal, was read from what nobody had computed. It has waited
// for the stream, so the CPU's twin is called at once.
void correct_what_the_host_is_told(const c10::OperatorHandle& operation, const std::vector<Argument>& given,
                                   Stack* stack, std::size_t returned) {
  const Stack told = compute(operation, given, {});
  std::copy(told.begin(), told.end(), stack->end() - static_cast<std::ptrdiff_t>(returned));
}

void see(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, Stack* stack) {
  const std::string& name = operation.schema().name();
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, seen_by);
  const auto count = static_cast<std::ptrdiff_t>(operation.schema().arguments().size());
  const std::vector<c10::IValue> arguments(stack->end() - count, stack->end());
  if (call_instead(name, *stack)) return;
  if (consists_of_others(operation, arguments)) return operation.redispatchBoxed(below, stack);
  const c10::impl::ExcludeDispatchKeyGuard unseen(seen_by);
  {
    const WithinOperation within;
    operation.redispatchBoxed(below, stack);
  }
  const std::size_t returned = operation.schema().returns().size();
  const c10::ArrayRef<c10::IValue> results(stack->data() + stack->size() - returned, returned);
  const std::vector<at::Tensor> before = tensors_in(arguments), after = tensors_in(results);
  const auto on_gpu = [](const std::vector<at::Tensor>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return tensor.is_cuda(); });
  };
  if (!on_gpu(before) && !on_gpu(after)) return;
  if (!computes() && !(is_small(before) && is_small(after))) return;
  if (leaves_memory_as_it_is(name) || only_shows_memory(operation, before, after)) return;
  const std::vector<Argument> given = given_arguments(operation, arguments);
  if (returned > 0 && after.empty()) return correct_what_the_host_is_told(operation, given, stack, returned);
  if (!after.empty() && !on_gpu(after)) return;
  queue(c10::cuda::getCurrentCUDAStream().stream(),
        {.kind = "operation", .name = name, .run = [operation, given, kept = new_results(operation, results)] {
           compute(operation, given, kept);
         }});
}

[[maybe_unused]] const bool is_seen = [] {
  begin_threads_with([] { c10::impl::tls_set_dispatch_key_included(seen_by, true); });
  return true;
}();

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&see>()); }

}  // namespace software_gpu
