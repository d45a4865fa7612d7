// cublasLt's descriptions and their life.
#include "cublaslt_descriptions.h"

#include <memory>
#include <mutex>
#include <utility>

#include "software_gpu.h"

namespace software_gpu {
namespace {

bool is_between(int attribute, int first, int last) { return attribute >= first && attribute <= last; }

// As cublasLt.h says at each of them; 0 for one that there is not.
std::size_t attribute_bytes(Described kind, int attribute) {
  if (kind == Described::matrix) {
    if (!is_between(attribute, CUBLASLT_MATRIX_LAYOUT_TYPE, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE)) return 0;
    const bool is_long =
        is_between(attribute, CUBLASLT_MATRIX_LAYOUT_ROWS, CUBLASLT_MATRIX_LAYOUT_LD) ||
        is_between(attribute, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET);
    return is_long ? 8 : 4;
  }
  if (kind == Described::preference) {
    if (!is_between(attribute, CUBLASLT_MATMUL_PREF_SEARCH_MODE, CUBLASLT_MATMUL_PREF_IMPL_MASK)) return 0;
    return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || attribute == CUBLASLT_MATMUL_PREF_IMPL_MASK ? 8 : 4;
  }
  if (attribute < 0) return 0;
  if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return 1;
  const bool is_long =
      attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ||
      is_between(attribute, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE) ||
      is_between(attribute, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER) ||
      is_between(attribute, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER,
                 CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER);
  return is_long ? 8 : 4;
}

std::map<const void*, std::unique_ptr<Description>>& descriptions() {
  static auto& all = *new std::map<const void*, std::unique_ptr<Description>>;
  return all;
}

Description* find_to_change(const void* handle, Described kind) {
  const auto found = descriptions().find(handle);
  if (found != descriptions().end() && found->second->kind == kind) return found->second.get();
  complain("cublasLt is given a description that is none, or no longer");
  return nullptr;
}

template <typename Handle>
cublasStatus_t create(Handle* out, Described kind, std::map<int, std::uint64_t> attributes) {
  const std::scoped_lock lock(mutex());
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto made = std::make_unique<Description>(Description{.kind = kind, .attributes = std::move(attributes)});
  *out = reinterpret_cast<Handle>(made.get());
  const void* const key = made.get();
  descriptions().emplace(key, std::move(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(const void* handle, Described kind, int attribute, const void* data, std::size_t bytes) {
  const std::scoped_lock lock(mutex());
  Description* const description = find_to_change(handle, kind);
  if (description == nullptr || data == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 || bytes != attribute_bytes(kind, attribute)) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  description->attributes[attribute] = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t destroy(const void* handle, Described kind) {
  const std::scoped_lock lock(mutex());
  if (find_to_change(handle, kind) == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  descriptions().erase(handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const Description* find_description(const void* handle, Described kind) { return find_to_change(handle, kind); }

}  // namespace software_gpu

using software_gpu::Described;

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t scale) {
  return software_gpu::create(out, Described::product,
                              {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, static_cast<std::uint64_t>(compute)},
                               {CUBLASLT_MATMUL_DESC_SCALE_TYPE, static_cast<std::uint64_t>(scale)}});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return software_gpu::destroy(product, Described::product);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, std::size_t bytes) {
  return software_gpu::set(product, Described::product, attribute, data, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  return software_gpu::create(out, Described::matrix,
                              {{CUBLASLT_MATRIX_LAYOUT_TYPE, static_cast<std::uint64_t>(type)},
                               {CUBLASLT_MATRIX_LAYOUT_ROWS, rows},
                               {CUBLASLT_MATRIX_LAYOUT_COLS, columns},
                               {CUBLASLT_MATRIX_LAYOUT_LD, static_cast<std::uint64_t>(leading)}});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  return software_gpu::destroy(matrix, Described::matrix);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matrix,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* data,
                                                std::size_t bytes) {
  return software_gpu::set(matrix, Described::matrix, attribute, data, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return software_gpu::create(out, Described::preference, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return software_gpu::destroy(preference, Described::preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* data,
                                                    std::size_t bytes) {
  return software_gpu::set(preference, Described::preference, attribute, data, bytes);
}

}  // extern "C"
