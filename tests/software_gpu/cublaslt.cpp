// A stand-in for libcublasLt.so.13: what NVIDIA's documentation allows is computed, everything else is refused as
// cublasLt does. Its settings are in the environment, with SOFTWARE_GPU_ in front:
//
//     EPILOGUES=none     it has no epilogue but a bias
//     ALGORITHMS=none    it has no product at all
//     ALGORITHMS=fail    the first algorithm that it proposes for a product fails
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "cublaslt_descriptions.h"
#include "products.h"

namespace software_gpu {
namespace {

struct NamedEpilogue {
  cublasLtEpilogue_t epilogue;
  const char* name;
};
constexpr NamedEpilogue epilogues[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, ""},
    {CUBLASLT_EPILOGUE_RELU, " RELU"},
    {CUBLASLT_EPILOGUE_RELU_AUX, " RELU_AUX"},
    {CUBLASLT_EPILOGUE_BIAS, " BIAS"},
    {CUBLASLT_EPILOGUE_RELU_BIAS, " RELU_BIAS"},
    {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, " RELU_AUX_BIAS"},
    {CUBLASLT_EPILOGUE_DRELU, " DRELU"},
    {CUBLASLT_EPILOGUE_DRELU_BGRAD, " DRELU_BGRAD"},
    {CUBLASLT_EPILOGUE_GELU, " GELU"},
    {CUBLASLT_EPILOGUE_GELU_AUX, " GELU_AUX"},
    {CUBLASLT_EPILOGUE_GELU_BIAS, " GELU_BIAS"},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, " GELU_AUX_BIAS"},
    {CUBLASLT_EPILOGUE_DGELU, " DGELU"},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, " DGELU_BGRAD"},
    {CUBLASLT_EPILOGUE_BGRADA, " BGRADA"},
    {CUBLASLT_EPILOGUE_BGRADB, " BGRADB"},
};

// The descriptions of one product.
struct Request {
  const Description *product, *a, *b, *c, *d;

  bool is_whole() const { return product != nullptr && a != nullptr && b != nullptr && c != nullptr && d != nullptr; }
};

Request request(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {find_description(product, Described::product), find_description(a, Described::matrix),
          find_description(b, Described::matrix), find_description(c, Described::matrix),
          find_description(d, Described::matrix)};
}

Matrix matrix_of(const Description& layout) {
  return {.type = layout.get(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F),
          .rows = layout.get(CUBLASLT_MATRIX_LAYOUT_ROWS, std::int64_t{0}),
          .columns = layout.get(CUBLASLT_MATRIX_LAYOUT_COLS, std::int64_t{0}),
          .leading = layout.get(CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{0}),
          .batch_stride = layout.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0})};
}

// The type in an attribute whose default is that of the result.
cudaDataType_t type_of(const Description& product, int attribute, const Matrix& result) {
  const int type = product.get(attribute, -1);
  return type == -1 ? result.type : static_cast<cudaDataType_t>(type);
}

// What is described, without the pointers that come with the call.
Product product_of(const Request& from) {
  const Description& described = *from.product;
  Product product = {.transpose_a = described.get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) != CUBLAS_OP_N,
                     .transpose_b = described.get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) != CUBLAS_OP_N,
                     .a = matrix_of(*from.a),
                     .b = matrix_of(*from.b),
                     .c = matrix_of(*from.c),
                     .d = matrix_of(*from.d),
                     .batch = from.d->get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1)};
  Finish& finish = product.finish;
  finish.epilogue = described.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  finish.vector = {.data = described.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr),
                   .type = type_of(described, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, product.d),
                   .rows = product.d.rows,
                   .columns = 1,
                   .leading = product.d.rows,
                   .batch_stride = described.get(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, std::int64_t{0})};
  finish.auxiliary = {.data = described.get<const void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr),
                      .type = type_of(described, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, product.d),
                      .rows = product.d.rows,
                      .columns = product.d.columns,
                      .leading = described.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{0}),
                      .batch_stride = described.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, std::int64_t{0})};
  product.name = "cublasLtMatmul";
  for (const NamedEpilogue& known : epilogues) {
    if (known.epilogue == finish.epilogue) product.name += known.name;
  }
  return product;
}

// --- what there is a product for

struct Refusal {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string reason = {};
};
const Refusal accepted = {};

Refusal unsupported(std::string reason) { return {CUBLAS_STATUS_NOT_SUPPORTED, std::move(reason)}; }
// What cublasLt takes without a word, though its header forbids it, and its kernel dies of.
Refusal deadly(std::string reason) {
  complain("a product with " + reason);
  return unsupported(std::move(reason));
}
Refusal invalid(std::string reason) { return {CUBLAS_STATUS_INVALID_VALUE, std::move(reason)}; }
bool is_refused(const Refusal& refusal) { return refusal.status != CUBLAS_STATUS_SUCCESS; }

// What of cublasLt the GPU in software has not got.
Refusal judge_forms(const Request& from) {
  for (const Description* const matrix : {from.a, from.b, from.c, from.d}) {
    if (matrix->get(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL) != CUBLASLT_ORDER_COL ||
        matrix->get(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, std::int64_t{0}) != 0 ||
        matrix->get(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 0) != 0) {
      return unsupported("a matrix that is not column by column, or a batch of pointers");
    }
    if (matrix->get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1) != from.d->get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1))
      return invalid("batches of different sizes");
  }
  const Description& product = *from.product;
  if (product.get(CUBLASLT_MATMUL_DESC_TRANSC, CUBLAS_OP_N) != CUBLAS_OP_N) return unsupported("C transposed");
  const int pointers = product.get(CUBLASLT_MATMUL_DESC_POINTER_MODE, int{CUBLASLT_POINTER_MODE_HOST});
  if (pointers != CUBLASLT_POINTER_MODE_HOST && pointers != CUBLASLT_POINTER_MODE_DEVICE)
    return unsupported("a vector of alphas");
  return accepted;
}

// The rows of cublasLtMatmul()'s table of types that concern float32, float64 and bfloat16.
Refusal judge_types(const Request& from, const Product& product) {
  const auto compute = from.product->get(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F);
  const auto scale = from.product->get(CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F);
  const cudaDataType_t in = product.a.type, out = product.d.type;
  if (in != product.b.type) return unsupported("A and B of different types");
  const bool is_double = in == CUDA_R_64F && out == CUDA_R_64F && scale == CUDA_R_64F &&
                         (compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC);
  const bool is_fast_float = compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16BF ||
                             compute == CUBLAS_COMPUTE_32F_FAST_16F;
  const bool is_float = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  const bool is_from_float = in == CUDA_R_32F && out == CUDA_R_32F && (is_float || is_fast_float);
  const bool is_from_bfloat16 = in == CUDA_R_16BF && (out == CUDA_R_16BF || out == CUDA_R_32F) && is_float;
  if (is_double || (scale == CUDA_R_32F && (is_from_float || is_from_bfloat16))) return accepted;
  return unsupported("types that are not in the table of cublasLtMatmul()");
}

Refusal judge_epilogue(const Product& product) {
  const Finish& finish = product.finish;
  const bool is_known = std::any_of(std::begin(epilogues), std::end(epilogues),
                                    [&](const NamedEpilogue& one) { return one.epilogue == finish.epilogue; });
  if (!is_known) return unsupported("an epilogue that there is not");
  const bool is_simple = finish.epilogue == CUBLASLT_EPILOGUE_DEFAULT || finish.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (!is_simple && setting("EPILOGUES", "all") == std::string_view("none"))
    return unsupported("epilogues are switched off");
  if (finish.has_vector()) {
    if (finish.vector.type != product.d.type) return invalid("a bias of another type than the result's");
    if (reinterpret_cast<std::uintptr_t>(finish.vector.data) % size_of(finish.vector.type) != 0)
      return unsupported("a bias that is not aligned to its type");
  }
  if (finish.sums_second() || (finish.sums_first() && product.transpose_a))
    return unsupported("sums of an operand that an H200 has no kernel for");
  if (!finish.has_auxiliary()) return accepted;
  const Matrix& auxiliary = finish.auxiliary;
  const std::int64_t multiple = finish.has_bits() ? 128 : 8;
  if (auxiliary.leading % multiple != 0 || auxiliary.batch_stride % multiple != 0)
    return (finish.has_bits() ? unsupported : deadly)("an auxiliary leading dimension that is no multiple of " +
                                                      std::to_string(multiple));
  if (auxiliary.leading < product.d.rows) return unsupported("an auxiliary leading dimension that is too small");
  if (!finish.has_bits() && auxiliary.type != product.d.type)
    return unsupported("an auxiliary matrix of another type than the result's");
  if (reinterpret_cast<std::uintptr_t>(auxiliary.data) % 16 != 0)
    return deadly("an auxiliary matrix that is not aligned to 16 bytes");
  return accepted;
}

Refusal judge(const Request& from, const Product& product) {
  const std::string wrong = misfit(product);
  if (!wrong.empty()) return invalid(wrong);
  if (product.batch == 0 || product.d.rows == 0 || product.d.columns == 0 || product.depth() == 0)
    return invalid("nothing to multiply");
  for (const Refusal& refusal : {judge_forms(from), judge_types(from, product), judge_epilogue(product)}) {
    if (is_refused(refusal)) return refusal;
  }
  return accepted;
}

cublasStatus_t refuse(const char* call, const Refusal& refusal) {
  count(std::string(call) + " refuses " + refusal.reason);
  return refusal.status;
}

// --- algorithms

// What cublasLtMatmulAlgo_t holds here: what the heuristic was told, so that it can be compared with the call.
struct Algorithm {
  std::uint64_t product = 0;                 // a hash of its description
  std::uint64_t number = 0, workspace = 0;   // which of those proposed, and the bytes it needs
  std::uint16_t a = 0, b = 0, c = 0, d = 0;  // promised alignments, bytes
  std::uint64_t reserved[3] = {};
  std::uint64_t seal = 0;  // a hash of the others

  std::uint64_t proper_seal() const {
    const std::string_view all(reinterpret_cast<const char*>(this), offsetof(Algorithm, seal));
    return std::hash<std::string_view>()(all) | 1;
  }
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

constexpr std::uint64_t workspaces[] = {1 << 20, 1 << 16, 0};  // bytes, of each algorithm

std::uint64_t hash_of(const Product& product) { return std::hash<std::string>()(describe(product)); }

// Compares a call with what its algorithm was chosen for; complains where they differ.
cublasStatus_t follow(const Algorithm& algorithm, Product& product, void* workspace, std::size_t workspace_bytes) {
  const auto wrong = [&](const std::string& mistake) {
    complain("cublasLtMatmul " + mistake + ": " + describe(product));
    return CUBLAS_STATUS_INVALID_VALUE;
  };
  if (algorithm.seal != algorithm.proper_seal()) return wrong("with an algorithm that no heuristic proposed");
  if (algorithm.product != hash_of(product)) return wrong("with an algorithm that was proposed for another product");
  const auto is_aligned = [](const void* data, std::uint16_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  };
  if (!is_aligned(product.a.data, algorithm.a) || !is_aligned(product.b.data, algorithm.b) ||
      !is_aligned(product.d.data, algorithm.d) ||
      (product.beta.may_count() && !is_aligned(product.c.data, algorithm.c))) {
    return wrong("of matrices that are less aligned than was promised");
  }
  if (workspace_bytes < algorithm.workspace) return wrong("with less workspace than the algorithm needs");
  if (algorithm.workspace > 0 && !is_device_memory(workspace)) return wrong("with a workspace outside device memory");
  if (!is_aligned(workspace, 16)) return wrong("with a workspace that is not aligned to 16 bytes");
  product.workspace = workspace;
  product.workspace_bytes = algorithm.workspace;
  if (algorithm.number == 0 && setting("ALGORITHMS", "all") == std::string_view("fail"))
    return refuse("cublasLtMatmul", unsupported("the first algorithm"));
  return CUBLAS_STATUS_SUCCESS;
}

struct Pointers {
  const void *alpha, *a, *b, *beta, *c;
  void* d;
};

bool add_pointers(Product& product, const Description& described, const Pointers& pointers) {
  if (pointers.alpha == nullptr || pointers.beta == nullptr) return false;
  const cudaDataType_t scale = described.get(CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F);
  const bool on_device =
      described.get(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) == CUBLASLT_POINTER_MODE_DEVICE;
  product.alpha = Factor::read(pointers.alpha, scale, on_device);
  product.beta = Factor::read(pointers.beta, scale, on_device);
  product.a.data = pointers.a;
  product.b.data = pointers.b;
  product.c.data = pointers.c;
  product.d.data = pointers.d;
  return true;
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusName(cublasStatus_t status) { return name_of(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return name_of(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  const std::scoped_lock lock(mutex());
  count("cublasLtCreate");
  auto* const made = new char;  // its address is all there is to it
  handles().insert(made);
  *out = reinterpret_cast<cublasLtHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::scoped_lock lock(mutex());
  if (handles().erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product_description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const std::scoped_lock lock(mutex());
  constexpr auto* call = "cublasLtMatmulAlgoGetHeuristic";
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted <= 0 || results == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  const Request from = request(product_description, a, b, c, d);
  const Description* const preferred = find_description(preference, Described::preference);
  if (!from.is_whole() || preferred == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  count(call);
  const Product product = product_of(from);
  const Refusal refusal = judge(from, product);
  if (is_refused(refusal)) return refuse(call, refusal);
  if (setting("ALGORITHMS", "all") == std::string_view("none")) return CUBLAS_STATUS_SUCCESS;
  const auto alignment = [&](int attribute) {
    return static_cast<std::uint16_t>(std::clamp(preferred->get(attribute, 256u), 1u, 256u));
  };
  Algorithm algorithm = {.product = hash_of(product),
                         .a = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                         .b = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
                         .c = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
                         .d = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)};
  if (algorithm.a < size_of(product.a.type) || algorithm.b < size_of(product.b.type) ||
      algorithm.c < size_of(product.c.type) || algorithm.d < size_of(product.d.type)) {
    return refuse(call, unsupported("matrices that are not aligned to their types"));
  }
  const auto most = preferred->get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  for (const std::uint64_t bytes : workspaces) {
    if (*found == wanted) break;
    algorithm.workspace = std::min(bytes, most);
    algorithm.seal = algorithm.proper_seal();
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    result.workspaceSize = algorithm.workspace;
    result.wavesCount = 1.0f;
    ++algorithm.number;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product_description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm_data, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  const std::scoped_lock lock(mutex());
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Request from = request(product_description, a_layout, b_layout, c_layout, d_layout);
  if (!from.is_whole()) return CUBLAS_STATUS_INVALID_VALUE;
  Product product = product_of(from);
  const Pointers pointers = {alpha, a, b, beta, c, d};
  if (!add_pointers(product, *from.product, pointers)) return CUBLAS_STATUS_INVALID_VALUE;
  const Refusal refusal = judge(from, product);
  if (is_refused(refusal)) return refuse("cublasLtMatmul", refusal);
  if (algorithm_data != nullptr) {  // without one, cublasLt asks its own heuristic
    const cublasStatus_t status =
        follow(std::bit_cast<Algorithm>(*algorithm_data), product, workspace, workspace_bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  } else if (setting("ALGORITHMS", "all") == std::string_view("none")) {
    return refuse("cublasLtMatmul", unsupported("everything"));
  }
  return queue_product(stream, product);
}

}  // extern "C"
