// What only the GPU in software shows of products: mistakes that cublasLt forgives or that show elsewhere, and its
// settings. A mistake ends its process with exit code 99, so each is made in a child.
#include <cstdlib>
#include <functional>
#include <memory>

#include "product_objects.h"

namespace inkling {
namespace {

constexpr int side = 64;

class ProductMistakes : public OnGpu<> {
 protected:
  static constexpr int mistake = 99;
  static constexpr std::size_t matrix_bytes = side * side * sizeof(float), workspace_bytes = std::size_t{4} << 20;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    INKLING_NEEDS_SOFTWARE_GPU();
    memory = std::make_unique<Memory>();
    operands = {&one, memory->a.data, memory->b.data, &zero, memory->d.data, memory->d.data};
  }
  void TearDown() override {
    for (const char* const name : {"SOFTWARE_GPU_EPILOGUES", "SOFTWARE_GPU_ALGORITHMS"}) unsetenv(name);
  }

  static ProductForm form(cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT) {
    const ProductForm::Layout square = {CUDA_R_32F, side, side, side};
    return {.a = square, .b = square, .c = square, .d = square, .epilogue = epilogue};
  }

  cublasStatus_t run(const DescribedProduct& product, const cublasLtMatmulAlgo_t& algorithm) const {
    return product.run(operands, &algorithm, memory->workspace.data, workspace_bytes);
  }

  // In a child: runs the product after `change` has changed something, and waits for it.
  void expect_mistake(const char* text, const std::function<void()>& change) {
    const auto mistaken = [&] {
      const DescribedProduct product(form());
      const auto answer = product.ask();
      change();
      run(product, answer.results[0].algo);
      cudaDeviceSynchronize();
      std::exit(0);
    };
    EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), text);
  }

  struct Memory {
    const DeviceBytes a{matrix_bytes}, b{matrix_bytes}, d{matrix_bytes}, workspace{workspace_bytes};
  };
  std::unique_ptr<const Memory> memory;  // made where there is a GPU
  const float one = 1.0f, zero = 0.0f;
  DescribedProduct::Operands operands = {};
};

TEST_F(ProductMistakes, AreNoneWhereThereAreNone) {
  const DescribedProduct product(form());
  const auto answer = product.ask(8);
  ASSERT_EQ(answer.results.size(), 3u);
  for (const auto& result : answer.results) EXPECT_EQ(run(product, result.algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// An H200 takes both without a word, and the kernel ends with a misaligned address.
TEST_F(ProductMistakes, AreLeadingDimensionsAndAddressesOfGelusInputThatEndAKernel) {
  const DeviceBytes input(matrix_bytes + 4 * side * sizeof(float));
  const auto ask = [&](std::int64_t leading, std::size_t shift) {
    ProductForm request = form(CUBLASLT_EPILOGUE_GELU_AUX);
    request.auxiliary = static_cast<std::byte*>(input.data) + shift;
    request.auxiliary_leading = leading;
    const DescribedProduct product(request);
    product.ask();
    std::exit(0);
  };
  EXPECT_EXIT(ask(side, 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ask(side + 4, 0), testing::ExitedWithCode(mistake), "multiple of 8");
  EXPECT_EXIT(ask(side, 8), testing::ExitedWithCode(mistake), "aligned to 16 bytes");
}

TEST_F(ProductMistakes, AreResultsOverOperands) {
  expect_mistake("A and D overlap", [&] { operands.a = operands.d; });
  expect_mistake("B and D overlap", [&] { operands.b = operands.d; });
}

TEST_F(ProductMistakes, AreNoMatricesThatLieSideBySide) {
  const DeviceBytes both(2 * matrix_bytes);
  ProductForm halves = form();
  for (ProductForm::Layout* const half : {&halves.a, &halves.c, &halves.d}) half->leading = 2 * side;
  const auto multiply = [&](int rows_between) {
    const DescribedProduct product(halves);
    const auto answer = product.ask();
    operands.a = both.data;
    operands.c = operands.d = static_cast<float*>(both.data) + rows_between;
    run(product, answer.results[0].algo);
    std::exit(cudaDeviceSynchronize() == cudaSuccess ? 0 : 1);
  };
  EXPECT_EXIT(multiply(side), testing::ExitedWithCode(0), "");
  halves.alignment = 16;
  halves.d.rows = halves.c.rows = halves.a.rows = side - 4;
  EXPECT_EXIT(multiply(side), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(multiply(side / 2), testing::ExitedWithCode(mistake), "A and D overlap");
}

TEST_F(ProductMistakes, AreOperandsOutsideLiveMemory) {
  expect_mistake("A is not in live memory", [&] { operands.a = static_cast<const char*>(operands.a) + 256; });
  expect_mistake("B is not in live memory", [&] { cudaFree(memory->b.data); });
  expect_mistake("D is a null pointer", [&] { operands.d = nullptr; });
}

TEST_F(ProductMistakes, AreOperandsThatAreFreedBeforeTheProductsTurn) {
  const auto mistaken = [&] {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    const DescribedProduct product(form());
    const auto answer = product.ask();
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    product.run(operands, &answer.results[0].algo, memory->workspace.data, workspace_bytes, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiateWithFlags(&executable, graph, 0);
    cudaFree(memory->a.data);
    cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    std::exit(0);
  };
  EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), "whose turn has come: A is not in live memory");
}

TEST_F(ProductMistakes, AreBrokenPromisesOfAlignment) {
  const DeviceBytes larger(matrix_bytes + 256);
  expect_mistake("less aligned than was promised", [&] { operands.a = static_cast<char*>(larger.data) + 16; });
}

TEST_F(ProductMistakes, AreWorkspacesTooSmallOrOnTheHost) {
  const auto with = [&](void* workspace, std::size_t bytes) {
    const DescribedProduct product(form());
    const auto answer = product.ask();
    product.run(operands, &answer.results[0].algo, workspace, bytes);
    std::exit(0);
  };
  std::vector<char> on_host(workspace_bytes);
  EXPECT_EXIT(with(memory->workspace.data, 1024), testing::ExitedWithCode(mistake), "less workspace than");
  EXPECT_EXIT(with(on_host.data(), workspace_bytes), testing::ExitedWithCode(mistake), "outside device memory");
  EXPECT_EXIT(with(memory->d.data, workspace_bytes), testing::ExitedWithCode(mistake),
              "workspace is not in live memory");
}

TEST_F(ProductMistakes, AreAlgorithmsForOtherProducts) {
  const auto with = [&](bool invents) {
    ProductForm other = form();
    other.transpose_a = true;
    const DescribedProduct product(form()), transposed(other);
    cublasLtMatmulAlgo_t algorithm = transposed.ask().results[0].algo;
    if (invents) algorithm = {};
    run(product, algorithm);
    std::exit(0);
  };
  EXPECT_EXIT(with(false), testing::ExitedWithCode(mistake), "proposed for another product");
  EXPECT_EXIT(with(true), testing::ExitedWithCode(mistake), "that no heuristic proposed");
}

TEST_F(ProductMistakes, AreDescriptionsThatAreGone) {
  const auto mistaken = [] {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescDestroy(product);
    cublasLtMatmulDescDestroy(product);
    std::exit(0);
  };
  EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), "none, or no longer");
}

TEST_F(ProductMistakes, CanBeWithoutEpilogues) {
  setenv("SOFTWARE_GPU_EPILOGUES", "none", 1);
  EXPECT_TRUE(DescribedProduct(form()).ask().has_any());
  EXPECT_EQ(DescribedProduct(form(CUBLASLT_EPILOGUE_GELU)).ask().status, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(ProductMistakes, CanBeWithoutAlgorithms) {
  const DescribedProduct product(form());
  setenv("SOFTWARE_GPU_ALGORITHMS", "none", 1);
  EXPECT_EQ(product.ask().status, CUBLAS_STATUS_SUCCESS);
  EXPECT_FALSE(product.ask().has_any());
}

TEST_F(ProductMistakes, CanBeOfTheFirstAlgorithm) {
  const DescribedProduct product(form());
  const auto answer = product.ask(2);
  setenv("SOFTWARE_GPU_ALGORITHMS", "fail", 1);
  EXPECT_EQ(run(product, answer.results[0].algo), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(run(product, answer.results[1].algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace inkling
