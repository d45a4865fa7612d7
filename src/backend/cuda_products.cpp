#include "backend/cuda_products.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "backend/cuda_backend.h"
#include "base/error.h"

namespace inkling::cuda {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what cublasLt wants on Hopper
constexpr int most_algorithms = 8;                              // that are tried before LibTorch multiplies

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw GpuError(std::string("cublasLt failed to ") + what + ": " + cublasLtGetStatusString(status));
}

// cublasLt counts matrices column by column, so it takes a row-major matrix for its transpose, and what it computes is
// out^T = b^T a^T: its first operand is our b, and its rows are our columns.
struct Operand {
  const void* data;
  std::int64_t rows, columns, leading;  // as cublasLt sees it
  bool transposed;
};

Operand operand(const at::Tensor& matrix) {
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  // A matrix of one column may have the stride 1 in both dimensions.
  const bool row_major = matrix.stride(1) == 1 && (rows == 1 || matrix.stride(0) >= columns);
  if (row_major) return {matrix.data_ptr(), columns, rows, std::max(matrix.stride(0), columns), false};
  return {matrix.data_ptr(), rows, columns, std::max(matrix.stride(1), rows), true};
}

// Returns the power of two that the address is a multiple of, at most 256; 256 for an undefined tensor.
std::uint32_t alignment(const at::Tensor& tensor) {
  constexpr std::uintptr_t most = 256;
  const std::uintptr_t address = tensor.defined() ? reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) : 0;
  return static_cast<std::uint32_t>((address | most) & (~(address | most) + 1));  // the lowest bit that is set
}

struct Alignments {
  std::uint32_t first, second, out, vector, pre;
  auto operator<=>(const Alignments&) const = default;
};

// Everything that a plan depends on.
using Key = std::tuple<int, cudaDataType_t, cudaDataType_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, bool, bool, int, bool, bool, Alignments>;

struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> algorithms = {};  // cublasLt's proposals, the best first
  int count = 0;
  int taken = 0;  // the first of them that has not failed; all have if that is `count`
};

cudaDataType_t data_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? CUDA_R_32F : CUDA_R_16BF;
}

template <typename Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "describe a product");
}

cublasLtEpilogue_t epilogue_of(const Epilogue& epilogue) {
  switch (epilogue.kind) {
    case Epilogue::Kind::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::Kind::gelu:
      return epilogue.vector.defined() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::Kind::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::Kind::column_sums:
      return CUBLASLT_EPILOGUE_BGRADA;  // the first operand is our b
    case Epilogue::Kind::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Without cublasLt: products with no more than a bias. The same shapes on the same GPU, driver and cublasLt come here
// each time, so a resumed run gets the same bits without being told. Returns false for other epilogues, which the
// caller has other ways for.
bool multiply_by_libtorch(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue) {
  if (epilogue.kind != Epilogue::Kind::none && epilogue.kind != Epilogue::Kind::bias) return false;
  const at::NoGradGuard no_gradient;
  const bool is_widened = out.scalar_type() != a.scalar_type();  // sums of bfloat16 in float32
  const at::Tensor product = is_widened ? at::mm(a, b, out.scalar_type()) : at::mm(a, b);
  if (epilogue.accumulate) {
    out.add_(product);
  } else {
    out.copy_(product);
  }
  if (epilogue.vector.defined()) out.add_(epilogue.vector);
  return true;
}

class Products {
 public:
  explicit Products(at::Device device)
      : workspace_(at::empty({static_cast<std::int64_t>(workspace_bytes)},
                             at::TensorOptions().device(device).dtype(at::kByte))) {
    check(cublasLtCreate(&handle_), "start");
  }

  bool multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue) {
    const Operand first = operand(b), second = operand(a);
    const Alignments aligned = {alignment(b), alignment(a), alignment(out), alignment(epilogue.vector),
                                alignment(epilogue.pre)};
    const Key key = {a.device().index(),
                     data_type(a),
                     data_type(out),
                     first.rows,
                     first.columns,
                     first.leading,
                     second.rows,
                     second.columns,
                     second.leading,
                     out.stride(0),
                     first.transposed,
                     second.transposed,
                     static_cast<int>(epilogue.kind),
                     epilogue.vector.defined(),
                     epilogue.accumulate,
                     aligned};
    const std::lock_guard<std::mutex> lock(mutex_);
    auto [entry, is_new] = plans_.try_emplace(key);
    Plan& plan = entry->second;
    if (is_new) describe(plan, first, second, out, epilogue, data_type(a));
    if (epilogue.vector.defined()) {
      set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(epilogue.vector.data_ptr()));
    }
    if (epilogue.pre.defined()) {
      set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(epilogue.pre.data_ptr()));
    }
    if (is_new) choose_algorithm(plan, aligned);
    // A proposal that fails when it is called has queued nothing. The plan remembers it, so all later calls, those that
    // are recorded too, begin with the one that works.
    const float one = 1.0f, beta = epilogue.accumulate ? 1.0f : 0.0f;
    for (; plan.taken < plan.count; ++plan.taken) {
      const auto index = static_cast<std::size_t>(plan.taken);
      const cublasStatus_t status =
          cublasLtMatmul(handle_, plan.product, &one, first.data, plan.first, second.data, plan.second, &beta,
                         out.data_ptr(), plan.out, out.data_ptr(), plan.out, &plan.algorithms[index].algo,
                         workspace_.data_ptr(), workspace_bytes, static_cast<cudaStream_t>(current_stream()));
      if (status == CUBLAS_STATUS_SUCCESS) return true;
      cudaGetLastError();  // or LibTorch takes the error of this launch for that of its next one
    }
    return multiply_by_libtorch(a, b, out, epilogue);
  }

 private:
  static void describe(Plan& plan, const Operand& first, const Operand& second, const at::Tensor& out,
                       const Epilogue& epilogue, cudaDataType_t in) {
    check(cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
    if (epilogue.vector.defined()) {
      set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(epilogue.vector));
    }
    if (epilogue.pre.defined()) {
      set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{epilogue.pre.stride(0)});
    }
    const auto layout = [](cublasLtMatrixLayout_t& made, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                           std::int64_t leading) {
      check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), leading),
            "describe a matrix");
    };
    layout(plan.first, in, first.rows, first.columns, first.leading);
    layout(plan.second, in, second.rows, second.columns, second.leading);
    layout(plan.out, data_type(out), out.size(1), out.size(0), out.stride(0));
  }

  // The description has the pointers to vector and pre already, so that cublasLt sees their alignment.
  void choose_algorithm(Plan& plan, const Alignments& aligned) {
    cublasLtMatmulPreference_t wanted = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wanted), "describe what is wanted");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(wanted, attribute, &value, sizeof value), "describe what is wanted");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.first);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.second);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.out);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.out);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.first, plan.second, plan.out, plan.out, wanted,
                                       most_algorithms, plan.algorithms.data(), &plan.count);
    cublasLtMatmulPreferenceDestroy(wanted);
    if (status != CUBLAS_STATUS_SUCCESS) plan.count = 0;
  }

  cublasLtHandle_t handle_ = nullptr;
  at::Tensor workspace_;
  std::mutex mutex_;  // the backward pass queues from a thread of its own
  std::map<Key, Plan> plans_;
};

}  // namespace

bool try_multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue) {
  // There is one for each device. They are never destroyed: at the end of a program CUDA may be gone before them.
  static auto* const products = new std::map<int, Products>;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const int index = out.device().index();
  auto found = products->find(index);
  if (found == products->end()) found = products->try_emplace(index, out.device()).first;
  return found->second.multiply(a, b, out, epilogue);
}

}  // namespace inkling::cuda
