// What cublasLt refuses by its documentation, on a GPU and on the GPU in software; and, printed, what it makes of
// requests on which the documentation is silent.
#include <cstdio>
#include <functional>
#include <memory>

#include "product_objects.h"

namespace inkling {
namespace {

// A product of contiguous matrices, with room for any leading dimension of these tests behind each.
class ProductRules : public OnGpu<testing::TestWithParam<int>> {
 protected:
  static constexpr int rows = 72, columns = 40, depth = 56;
  static constexpr std::size_t room = std::size_t{1} << 20, workspace_bytes = std::size_t{4} << 20;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (auto& one : memory) {
      one = std::make_unique<DeviceBytes>(room);
      ASSERT_EQ(cudaMemset(one->data, 0, room), cudaSuccess);
    }
  }

  void* vector() const { return memory[3]->data; }
  void* auxiliary() const { return memory[4]->data; }

  ProductForm form(cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT, cudaDataType_t in = CUDA_R_16BF,
                   cudaDataType_t out = CUDA_R_16BF) const {
    const auto bits = static_cast<unsigned>(epilogue);
    ProductForm made = {.a = {in, rows, depth, rows},
                        .b = {in, depth, columns, depth},
                        .c = {out, rows, columns, rows},
                        .d = {out, rows, columns, rows},
                        .epilogue = epilogue};
    if ((bits & (4u | 16u | 256u | 512u)) != 0) made.vector = vector();
    if ((bits & 128u) != 0) made.auxiliary = auxiliary();
    if ((bits & 128u) != 0) made.auxiliary_leading = (bits & (2u | 8u)) != 0 ? 128 : rows;
    return made;
  }

  cublasStatus_t run(const DescribedProduct& product, const cublasLtMatmulAlgo_t* algorithm) const {
    static const DeviceBytes& workspace = *new DeviceBytes(workspace_bytes);
    const float one = 1.0f, zero = 0.0f;
    void* const d = memory[2]->data;
    const cublasStatus_t status =
        product.run({&one, memory[0]->data, memory[1]->data, &zero, d, d}, algorithm, workspace.data, workspace_bytes);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }

  // A request may be refused by the heuristic, or when its product is called. A real GPU is only asked: what cublasLt
  // lets through can end with an error that no later call survives.
  void expect_refused(const ProductForm& request) const {
    const DescribedProduct product(request);
    const auto answer = product.ask();
    if (!answer.has_any() || !is_on_software_gpu()) return;
    EXPECT_NE(run(product, &answer.results[0].algo), CUBLAS_STATUS_SUCCESS);
  }
  void expect_taken(const ProductForm& request) const {
    const DescribedProduct product(request);
    const auto answer = product.ask();
    ASSERT_TRUE(answer.has_any()) << cublasLtGetStatusName(answer.status);
    EXPECT_EQ(run(product, &answer.results[0].algo), CUBLAS_STATUS_SUCCESS);
  }

  std::unique_ptr<DeviceBytes> memory[5];
};

TEST_P(ProductRules, RefuseExtentsThatDoNotFit) {
  expect_taken(form());
  ProductForm request = form();
  request.b.rows = depth + 8;
  request.b.leading = depth + 8;
  expect_refused(request);
  request = form();
  request.transpose_a = true;
  expect_refused(request);
  request = form();
  request.d.columns = columns - 8;
  expect_refused(request);
}

TEST_P(ProductRules, RefuseColumnsThatOverlap) {
  ProductForm request = form();
  request.a.leading = rows - 8;
  expect_refused(request);
}

TEST_P(ProductRules, RefuseTypesThatAreNotInTheTable) {
  for (const auto& [in, out] : {std::pair{CUDA_R_32F, CUDA_R_16BF}, std::pair{CUDA_R_16BF, CUDA_R_64F}})
    expect_refused(form(CUBLASLT_EPILOGUE_DEFAULT, in, out));
  ProductForm request = form();
  request.b.type = CUDA_R_32F;
  expect_refused(request);
  request = form();
  request.c.type = CUDA_R_32F;
  expect_refused(request);
}

TEST_P(ProductRules, RefuseLeadingDimensionsOfRelusMaskThatAreNoMultipleOf128) {
  ProductForm request = form(CUBLASLT_EPILOGUE_RELU_AUX);
  expect_taken(request);
  request.auxiliary_leading = 72;
  expect_refused(request);
}

TEST_P(ProductRules, RefuseToProposeNothing) {
  const ProductForm request = form();
  const DescribedProduct product(request);
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, rows, depth, rows), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, depth, columns, depth), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&d, CUDA_R_16BF, rows, columns, rows), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(DescribedProduct::handle(), product.product(), a, b, d, d, preference, 0,
                                           &result, &found),
            CUBLAS_STATUS_INVALID_VALUE);
  for (const cublasLtMatrixLayout_t matrix : {a, b, d}) cublasLtMatrixLayoutDestroy(matrix);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST_P(ProductRules, RefuseAttributesOfAnotherSize) {
  const ProductForm request = form();
  const DescribedProduct product(request);
  const std::int64_t value = 0;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.product(), CUBLASLT_MATMUL_DESC_TRANSA, &value, sizeof value),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.product(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &value, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.product(), CUBLASLT_MATMUL_DESC_TRANSA, nullptr, 4),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_P(ProductRules, ProposeAsManyAlgorithmsAsAreWantedAtMost) {
  const ProductForm request = form();
  const DescribedProduct product(request);
  for (const int wanted : {1, 2}) {
    const auto answer = product.ask(wanted);
    EXPECT_TRUE(answer.has_any());
    EXPECT_LE(answer.results.size(), static_cast<std::size_t>(wanted));
    for (const auto& result : answer.results) EXPECT_LE(result.workspaceSize, request.workspace_bytes);
  }
}

// --- what the documentation does not say

struct Variant {
  const char* name;
  std::function<void(ProductForm&)> change;
};

void make_batch(ProductForm& form) {
  for (ProductForm::Layout* const one : {&form.a, &form.b, &form.c, &form.d}) {
    one->batch = 2;
    one->stride = std::int64_t{one->leading} * one->columns;
  }
  form.auxiliary_stride = form.auxiliary_leading * form.d.columns;
}

void set_rows(ProductForm& form, int count) {
  for (ProductForm::Layout* const one : {&form.a, &form.c, &form.d}) one->rows = one->leading = count;
}

const Variant variants[] = {
    {"as is", [](ProductForm&) {}},
    {"bias of the other type",
     [](ProductForm& form) { form.vector_type = form.d.type == CUDA_R_32F ? CUDA_R_16BF : CUDA_R_32F; }},
    {"aux in float32", [](ProductForm& form) { form.auxiliary_type = CUDA_R_32F; }},
    {"aux in bfloat16", [](ProductForm& form) { form.auxiliary_type = CUDA_R_16BF; }},
    {"aux ld + 4", [](ProductForm& form) { form.auxiliary_leading += 4; }},
    {"aux + 8 bytes", [](ProductForm& form) { form.auxiliary = static_cast<char*>(form.auxiliary) + 8; }},
    {"aux + 4 bytes", [](ProductForm& form) { form.auxiliary = static_cast<char*>(form.auxiliary) + 4; }},
    {"bias + 8 bytes", [](ProductForm& form) { form.vector = static_cast<char*>(form.vector) + 8; }},
    {"bias + 4 bytes", [](ProductForm& form) { form.vector = static_cast<char*>(form.vector) + 4; }},
    {"bias + 2 bytes", [](ProductForm& form) { form.vector = static_cast<char*>(form.vector) + 2; }},
    {"no bias pointer", [](ProductForm& form) { form.vector = nullptr; }},
    {"71 rows, aux ld 72", [](ProductForm& form) { set_rows(form, 71); }},
    {"68 rows, aux ld 72", [](ProductForm& form) { set_rows(form, 68); }},
    {"0 rows", [](ProductForm& form) { set_rows(form, 0); }},
    {"aligned to 16", [](ProductForm& form) { form.alignment = 16; }},
    {"aligned to 4", [](ProductForm& form) { form.alignment = 4; }},
    {"aligned to 2", [](ProductForm& form) { form.alignment = 2; }},
    {"aligned to 1", [](ProductForm& form) { form.alignment = 1; }},
    {"batch, bias shared", make_batch},
    {"batch, biases apart",
     [](ProductForm& form) {
       make_batch(form);
       form.vector_stride = 128;
     }},
    {"batch of A alone", [](ProductForm& form) { form.a.batch = 2; }},
    {"D with gaps",
     [](ProductForm& form) { form.c.leading = form.d.leading = static_cast<int>(form.auxiliary_leading = 128); }},
};

constexpr std::pair<cublasLtEpilogue_t, const char*> named_epilogues[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, "DEFAULT"},
    {CUBLASLT_EPILOGUE_BIAS, "BIAS"},
    {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, "RELU_AUX_BIAS"},
    {CUBLASLT_EPILOGUE_GELU, "GELU"},
    {CUBLASLT_EPILOGUE_GELU_BIAS, "GELU_BIAS"},
    {CUBLASLT_EPILOGUE_GELU_AUX, "GELU_AUX"},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, "GELU_AUX_BIAS"},
    {CUBLASLT_EPILOGUE_DGELU, "DGELU"},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, "DGELU_BGRAD"},
    {CUBLASLT_EPILOGUE_BGRADA, "BGRADA"},
    {CUBLASLT_EPILOGUE_BGRADB, "BGRADB"},
};

// How many algorithms there are for each request; a status instead where the heuristic returns one.
TEST_P(ProductRules, PrintsWhatItTakes) {
  if (is_on_software_gpu()) GTEST_SKIP() << "a real GPU is asked";
  struct Types {
    cudaDataType_t in, out;
    const char* name;
  };
  for (const Types& types : {Types{CUDA_R_32F, CUDA_R_32F, "float32"}, Types{CUDA_R_16BF, CUDA_R_16BF, "bfloat16"},
                             Types{CUDA_R_16BF, CUDA_R_32F, "bfloat16 to float32"}}) {
    for (const auto& [epilogue, name] : named_epilogues) {
      std::printf("%s %s:", types.name, name);
      for (const Variant& variant : variants) {
        ProductForm request = form(epilogue, types.in, types.out);
        const bool is_of_vector = std::string(variant.name).find("bias") != std::string::npos;
        const bool is_of_auxiliary = std::string(variant.name).find("aux") == 0;
        if (request.vector == nullptr && is_of_vector) continue;
        if (request.auxiliary == nullptr && is_of_auxiliary) continue;
        variant.change(request);
        const auto answer = DescribedProduct(request).ask(8);
        if (answer.status == CUBLAS_STATUS_SUCCESS) {
          std::printf(" %s: %zu;", variant.name, answer.results.size());
        } else {
          std::printf(" %s: %s;", variant.name, cublasLtGetStatusName(answer.status) + sizeof "CUBLAS_STATUS");
        }
      }
      std::printf("\n");
    }
  }
}

// Whether BGRADA stores its sums or adds them to what is there: with zeros for operands, ones stay where it adds.
TEST_P(ProductRules, PrintsWhetherBiasGradientsAreAdded) {
  if (is_on_software_gpu()) GTEST_SKIP() << "a real GPU is asked";
  const std::vector<float> ones(rows, 1.0f);
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    const ProductForm request = form(epilogue, CUDA_R_16BF, CUDA_R_32F);
    const DescribedProduct product(request);
    int number = 0;
    for (const auto& result : product.ask(8).results) {
      ASSERT_EQ(cudaMemcpy(vector(), ones.data(), rows * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
      ASSERT_EQ(run(product, &result.algo), CUBLAS_STATUS_SUCCESS);
      float first = 0.0f;
      ASSERT_EQ(cudaMemcpy(&first, vector(), sizeof first, cudaMemcpyDeviceToHost), cudaSuccess);
      std::printf("BGRAD%c, algorithm %d: 1 becomes %g\n", epilogue == CUBLASLT_EPILOGUE_BGRADA ? 'A' : 'B', number++,
                  static_cast<double>(first));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, ProductRules, testing::Values(0));

}  // namespace
}  // namespace inkling
