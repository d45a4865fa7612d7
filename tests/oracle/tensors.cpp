#include "tests/oracle/tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"

namespace inkling::oracle {

at::Tensor normal(std::uint64_t key, at::IntArrayRef shape, double scale) {
  const at::Tensor out = at::empty(shape, at::kDouble);
  double* const values = out.data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i)
    values[i] = scale * random_normal(mix64(key), static_cast<std::uint64_t>(i));
  return out;
}

at::Tensor tokens(std::uint64_t key, at::IntArrayRef shape, std::int64_t below) {
  const at::Tensor out = at::empty(shape, at::kLong);
  std::int64_t* const values = out.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    values[i] = static_cast<std::int64_t>(
        random_below(mix64(key), static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(below)));
  }
  return out;
}

at::Tensor key_on(at::Device device, std::uint64_t key, std::int64_t first_row) {
  return at::tensor({static_cast<std::int64_t>(key), first_row}, at::kLong).to(device);
}

double error(const at::Tensor& actual, const at::Tensor& expected) {
  if (!actual.defined() || actual.sizes() != expected.sizes()) return INFINITY;
  const at::Tensor a = actual.detach().to(at::kCPU, at::kDouble);
  const at::Tensor e = expected.detach().to(at::kCPU, at::kDouble);
  const auto norms = [](const at::Tensor& rows) { return rows.square().sum(-1).sqrt(); };
  const at::Tensor difference = norms(a - e);
  const auto error = at::where(difference.eq(0), 0.0, difference / norms(e)).max().item<double>();
  return std::isnan(error) ? INFINITY : error;
}

bool identical(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor left = a.detach().cpu().contiguous();
  const at::Tensor right = b.detach().cpu().contiguous();
  return std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

}  // namespace inkling::oracle
