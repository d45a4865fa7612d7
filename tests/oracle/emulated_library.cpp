#include "tests/oracle/emulated_library.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>

#include "backend/cpu_backend.h"
#include "backend/cuda_backend.h"
#include "backend/cuda_products.h"
#include "base/error.h"
#include "tests/oracle/ops.h"

namespace inkling {
namespace {

using Kind = cuda::Epilogue::Kind;

bool has_epilogues = true;

// What cublasLt can be told of a matrix: one of its two strides is 1.
void check_layout(const at::Tensor& matrix) {
  if (matrix.stride(0) != 1 && matrix.stride(1) != 1) throw Error::internal("a matrix that cublasLt cannot be told of");
}

// d gelu(x) / dx, the form with tanh, by autograd.
at::Tensor gelu_derivative(const at::Tensor& x) {
  const at::AutoGradMode with_gradient(true);
  const at::Tensor leaf = x.detach().to(at::kDouble).set_requires_grad(true);
  oracle::gelu(leaf, false).sum().backward();
  return leaf.grad();
}

}  // namespace

namespace cuda {

bool try_multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue) {
  if (!has_epilogues && epilogue.kind != Kind::none && epilogue.kind != Kind::bias) return false;
  const at::NoGradGuard no_gradient;
  for (const at::Tensor& matrix : {a, b}) check_layout(matrix);
  if (out.stride(1) != 1 || a.scalar_type() != b.scalar_type()) throw Error::internal("no such product in cublasLt");
  at::Tensor result = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  if (epilogue.kind == Kind::column_sums) {
    if (epilogue.vector.scalar_type() != at::kFloat || epilogue.vector.count_nonzero().item<std::int64_t>() != 0) {
      throw Error::internal("column sums go to zeros, in float32");
    }
    epilogue.vector.copy_(b.to(at::kDouble).sum(0));
  } else if (epilogue.vector.defined()) {
    result = result + epilogue.vector;
  }
  if (epilogue.kind == Kind::gelu) {
    epilogue.pre.copy_(result);
    result = oracle::gelu(result, false);
  }
  if (epilogue.kind == Kind::gelu_gradient) result = result * gelu_derivative(epilogue.pre);
  out.copy_(epilogue.accumulate ? out + result : result);
  return true;
}

Stream current_stream() { return nullptr; }

std::function<void()> record(int, const std::function<void()>& work) { return work; }

}  // namespace cuda

const Backend& oracle::declining_backend() {
  static const Backend backend = [] {
    Backend declining = cpu_backend();
    declining.activates = [](Activation) { return false; };
    declining.attends = [](at::ScalarType, const AttentionForm&, bool) { return false; };
    declining.decodes = [](const AttentionForm&, Activation) { return false; };
    return declining;
  }();
  return backend;
}

const Backend& oracle::emulated_backend(bool with_epilogues) {
  has_epilogues = with_epilogues;
  static const Backend backend = [] {
    Backend emulated = cuda::backend();
    emulated.attends = [](at::ScalarType, const AttentionForm&, bool) { return false; };  // FlashAttention wants a GPU
    return emulated;
  }();
  return backend;
}

}  // namespace inkling
