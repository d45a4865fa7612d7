// Matrix products through cublasLt.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/error.h"
#include "base/strings.h"

namespace inkling::cuda {

// What a matrix product does with its result before it is written.
struct Epilogue {
  enum class Kind {
    none,
    bias,           // + vector [n]
    gelu,           // + vector [n] (may be undefined) goes to `pre`, and gelu (tanh) of that is the result
    gelu_gradient,  // * gelu'(pre) (tanh)
    column_sums,    // nothing; the column sums of b go to vector [n], float32, which must be zero before
  };
  Kind kind = Kind::none;
  at::Tensor vector = {};   // read, but written by column_sums
  at::Tensor pre = {};      // [m, n]
  bool accumulate = false;  // add the result to what out holds
};

// out [m, n] = a [m, k] b [k, n], with sums in float32. a and b have one dtype and may be transposed views; out has
// that dtype, or float32. Where all that cublasLt proposes fails, LibTorch multiplies if the epilogue is no more than a
// bias; for others it returns false, and nothing is queued then.
// A plan is chosen once for each shape and alignment, and kept. Reductions in place, which add in whatever order
// threads arrive, are left out, so the same input gives the same bits.
bool try_multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue);

// Does the same for a product that must exist: throws Error internal if it does not.
inline void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue = {}) {
  if (try_multiply(a, b, out, epilogue)) return;
  throw Error::internal(str("cublasLt has no product of ", a.size(0), " x ", a.size(1), " and ", b.size(0), " x ",
                            b.size(1), " for this GPU; set runtime.kernels: reference"));
}

}  // namespace inkling::cuda
