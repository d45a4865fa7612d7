// cublasLt's products against sums in double on the host. These tests run on a GPU and on the GPU in software, and must
// say the same of both.
#include <algorithm>
#include <ostream>

#include "product_objects.h"
#include "tests/oracle/rounding.h"

namespace inkling {
namespace {

struct Case {
  int rows, columns, depth;
  int gap = 0;  // rows that leading dimensions have more than their matrices
  bool transpose_a = false, transpose_b = false;
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1.0f, beta = 0.0f;
  bool in_place = true;  // C is D
  int batch = 1;

  bool has(unsigned bit) const { return (static_cast<unsigned>(epilogue) & bit) != 0; }
  bool is(cublasLtEpilogue_t other) const { return epilogue == other; }
  bool adds_bias() const { return has(CUBLASLT_EPILOGUE_BIAS); }
  bool is_gelu() const { return has(CUBLASLT_EPILOGUE_GELU); }
  bool is_gelu_gradient() const { return has(64); }
  bool sums_operand() const { return is(CUBLASLT_EPILOGUE_BGRADA) || is(CUBLASLT_EPILOGUE_BGRADB); }
  bool sums_rows() const { return is(CUBLASLT_EPILOGUE_DGELU_BGRAD); }
  bool is_missing_on_hopper() const {
    return is(CUBLASLT_EPILOGUE_BGRADB) || (is(CUBLASLT_EPILOGUE_BGRADA) && transpose_a);
  }
  bool has_vector() const { return adds_bias() || sums_operand() || sums_rows(); }
  bool has_auxiliary() const { return has(128); }
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  const auto type = [](cudaDataType_t value) { return value == CUDA_R_16BF ? "bfloat16" : "float32"; };
  out << one.rows << "x" << one.columns << "x" << one.depth << (one.transpose_a ? "T" : "N")
      << (one.transpose_b ? "T" : "N") << "_" << type(one.in) << "_" << type(one.out) << "_epilogue" << one.epilogue;
  if (one.gap > 0) out << "_gap" << one.gap;
  if (one.batch > 1) out << "_batch" << one.batch;
  if (one.beta != 0.0f) out << (one.in_place ? "_accumulated" : "_added");
  return out;
}

double gelu_of(double x) { return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu_of(x + 1e-5) - gelu_of(x - 1e-5)) / 2e-5; }  // right to 1e-10

// The largest error of cublasLt's GELU, which approximates tanh: 1e-5 was seen on an H100 at x of size 1, and it grows
// with x. The GPU in software approximates nothing; the slope above does.
double gelu_error() { return is_on_software_gpu() ? 1e-9 : 2e-5; }
// Of its slope, which a GPU may round to the result's type.
double slope_error(cudaDataType_t type) {
  return is_on_software_gpu() || type != CUDA_R_16BF ? gelu_error() : gelu_error() + oracle::bfloat16_roundoff;
}

// The matrices of a case.
struct Operands {
  DeviceMatrix a, b, c, d, vector, auxiliary;

  explicit Operands(const Case& of)
      : a(extents(of, of.rows, of.depth, of.transpose_a), of.in, 1),
        b(extents(of, of.depth, of.columns, of.transpose_b), of.in, 2),
        c(extents(of, of.rows, of.columns, false), of.out, 3),
        d(extents(of, of.rows, of.columns, false), of.out, 3),
        vector(vector_extents(of), of.out, of.adds_bias() ? 4 : 0),
        auxiliary(auxiliary_extents(of), of.out, 5) {}

  static DeviceMatrix::Extents extents(const Case& of, int rows, int columns, bool is_transposed) {
    if (is_transposed) std::swap(rows, columns);
    return {rows, columns, rows + of.gap, of.batch};
  }
  static DeviceMatrix::Extents vector_extents(const Case& of) {
    const int length = of.is(CUBLASLT_EPILOGUE_BGRADB) ? of.columns : of.rows;
    return {length, 1, length, of.batch};
  }
  static DeviceMatrix::Extents auxiliary_extents(const Case& of) {
    return {of.rows, of.columns, (of.rows + of.gap + 7) / 8 * 8, of.batch};
  }
};

ProductForm::Layout layout_of(const DeviceMatrix& matrix) {
  const DeviceMatrix::Extents& extents = matrix.extents();
  const bool is_batch = extents.batch > 1;
  return {matrix.type(),   extents.rows,  extents.columns,
          extents.leading, extents.batch, is_batch ? extents.stride() : 0};
}

ProductForm form_of(const Case& of, const Operands& on) {
  ProductForm form = {.a = layout_of(on.a),
                      .b = layout_of(on.b),
                      .c = layout_of(on.c),
                      .d = layout_of(on.d),
                      .transpose_a = of.transpose_a,
                      .transpose_b = of.transpose_b,
                      .epilogue = of.epilogue};
  if (of.has_vector()) {
    form.vector = on.vector.data();
    form.vector_type = of.out;
    if (of.batch > 1) form.vector_stride = on.vector.extents().stride();
  }
  if (of.has_auxiliary()) {
    form.auxiliary = on.auxiliary.data();
    form.auxiliary_leading = on.auxiliary.extents().leading;
    if (of.batch > 1) form.auxiliary_stride = on.auxiliary.extents().stride();
  }
  return form;
}

// What a case must give, in double, from what the matrices held before.
class Wanted {
 public:
  Wanted(const Case& of, const Operands& on) : of_(of), on_(on) {}

  // What the epilogue begins with: the auxiliary output of GELU.
  double before(int item, int row, int column) const {
    double sum = 0.0;
    for (int i = 0; i < of_.depth; ++i) sum += first(item, row, i) * second(item, i, column);
    double x = of_.alpha * sum;
    if (of_.beta != 0.0f) x += of_.beta * on_.c.at(item, row, column);
    return of_.adds_bias() ? x + on_.vector.at(item, row, 0) : x;
  }
  double result(double x, int item, int row, int column) const {
    if (of_.has(CUBLASLT_EPILOGUE_RELU)) return std::max(x, 0.0);
    if (of_.is_gelu()) return gelu_of(x);
    return of_.is_gelu_gradient() ? x * gelu_slope(on_.auxiliary.at(item, row, column)) : x;
  }
  // BGRADA's or BGRADB's.
  double operand_sum(int item, int at) const {
    double sum = 0.0;
    for (int i = 0; i < of_.depth; ++i)
      sum += of_.is(CUBLASLT_EPILOGUE_BGRADA) ? first(item, at, i) : second(item, i, at);
    return sum;
  }

  // Of `before`: the sum's own error, and roundings when it is scaled, and added to C and a bias.
  double error_before(double x) const {
    return oracle::sum_error(of_.depth) + oracle::rounding_error(3.0) * (std::sqrt(of_.depth) + std::fabs(x));
  }
  double error(double x, double result) const {
    double error = 2.0 * error_before(x) + kept_error(result);  // no slope is larger than 1.13
    if (of_.is_gelu()) error += gelu_error() * std::fmax(1.0, std::fabs(x));
    if (of_.is_gelu_gradient()) error += slope_error(of_.out) * std::fmax(1.0, std::fabs(x));
    return error;
  }
  // Of what is written in the type of the result.
  double kept_error(double value) const {
    return of_.out == CUDA_R_16BF ? oracle::bfloat16_roundoff * std::fabs(value) : 0.0;
  }
  // Of the sum of a row of results, which may have been rounded before.
  double row_sum_error(double sum) const {
    const double size = std::sqrt(of_.depth) * std::sqrt(of_.columns);
    const double roundoff = of_.out == CUDA_R_16BF ? oracle::bfloat16_roundoff : oracle::float32_roundoff;
    return size * (oracle::rounding_error(1.0, roundoff) + oracle::rounding_error(of_.columns + of_.depth) +
                   slope_error(of_.out) * std::sqrt(of_.columns)) +
           kept_error(sum);
  }

 private:
  double first(int item, int row, int i) const {
    return of_.transpose_a ? on_.a.at(item, i, row) : on_.a.at(item, row, i);
  }
  double second(int item, int i, int column) const {
    return of_.transpose_b ? on_.b.at(item, column, i) : on_.b.at(item, i, column);
  }

  const Case& of_;
  const Operands& on_;
};

void expect_result(const Case& of, const Operands& before, const Operands& after) {
  const Wanted wanted(of, before);
  for (int item = 0; item < of.batch; ++item) {
    std::vector<double> row_sums(static_cast<std::size_t>(of.rows));
    for (int column = 0; column < of.columns; ++column) {
      for (int row = 0; row < of.rows; ++row) {
        const double x = wanted.before(item, row, column), result = wanted.result(x, item, row, column);
        ASSERT_NEAR(after.d.at(item, row, column), result, wanted.error(x, result)) << row << ", " << column;
        row_sums[static_cast<std::size_t>(row)] += result;
        if (of.is_gelu() && of.has_auxiliary()) {
          ASSERT_NEAR(after.auxiliary.at(item, row, column), x, wanted.error_before(x) + wanted.kept_error(x))
              << "the input of GELU at " << row << ", " << column;
        }
      }
    }
    for (int i = 0; i < after.vector.extents().rows; ++i) {
      const double found = after.vector.at(item, i, 0);
      if (of.sums_operand()) {
        const double sum = wanted.operand_sum(item, i);
        ASSERT_NEAR(found, sum, oracle::sum_error(of.depth) + wanted.kept_error(sum)) << "sum " << i;
      } else if (of.sums_rows()) {
        const double sum = row_sums[static_cast<std::size_t>(i)];
        ASSERT_NEAR(found, sum, wanted.row_sum_error(sum)) << "row sum " << i;
      }
    }
  }
}

class Products : public OnGpu<testing::TestWithParam<Case>> {};

// Each of the algorithms that the heuristic proposes.
TEST_P(Products, AreRight) {
  const Case& of = GetParam();
  constexpr std::size_t workspace_bytes = std::size_t{4} << 20;
  const DeviceBytes workspace(workspace_bytes);
  const Operands before(of);
  const DescribedProduct described(form_of(of, before));
  const int algorithms = static_cast<int>(described.ask(3).results.size());
  if (of.is_missing_on_hopper()) {
    ASSERT_TRUE(algorithms == 0 || !is_on_software_gpu());
  } else {
    ASSERT_GT(algorithms, 0);
  }
  for (int i = 0; i < algorithms; ++i) {
    Operands on(of);
    const DescribedProduct product(form_of(of, on));
    const auto answer = product.ask(3);
    ASSERT_LT(static_cast<std::size_t>(i), answer.results.size());
    const cublasLtMatmulHeuristicResult_t& chosen = answer.results[static_cast<std::size_t>(i)];
    const void* const c = of.in_place ? on.d.data() : on.c.data();
    ASSERT_EQ(product.run({&of.alpha, on.a.data(), on.b.data(), &of.beta, c, on.d.data()}, &chosen.algo, workspace.data,
                          workspace_bytes),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (DeviceMatrix* const written : {&on.d, &on.vector, &on.auxiliary}) written->read_back();
    expect_result(of, before, on);
  }
}

struct Types {
  cudaDataType_t in, out;
};
constexpr Types all_types[] = {{CUDA_R_32F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
constexpr cublasLtEpilogue_t all_epilogues[] = {
    CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_RELU,
    CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
    CUBLASLT_EPILOGUE_GELU_AUX,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB};

// Shapes that every epilogue can have, and for the simplest ones those of blocks' ends, single elements and batches.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Types& types : all_types) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const auto add = [&](Case one) {
          one.transpose_a = transpose_a;
          one.transpose_b = transpose_b;
          one.in = types.in;
          one.out = types.out;
          cases.push_back(one);
        };
        for (const cublasLtEpilogue_t epilogue : all_epilogues)
          add({.rows = 72, .columns = 40, .depth = 56, .gap = 8, .epilogue = epilogue});
        add({.rows = 264, .columns = 200, .depth = 304});
        add({.rows = 7, .columns = 5, .depth = 3, .gap = 1, .epilogue = CUBLASLT_EPILOGUE_BIAS});
        add({.rows = 1, .columns = 1, .depth = 65});
        add({.rows = 33, .columns = 1, .depth = 1, .gap = 3});
        add({.rows = 24, .columns = 16, .depth = 40, .alpha = 0.5f, .beta = -2.0f});
        add({.rows = 24, .columns = 16, .depth = 40, .alpha = 0.5f, .beta = -2.0f, .in_place = false});
        if (types.out == CUDA_R_32F && !transpose_a)
          add({.rows = 24, .columns = 16, .depth = 40, .epilogue = CUBLASLT_EPILOGUE_BGRADA, .beta = 1.0f});
        add({.rows = 24, .columns = 16, .depth = 40, .gap = 8, .batch = 3});
        add({.rows = 24, .columns = 16, .depth = 40, .epilogue = CUBLASLT_EPILOGUE_BIAS, .batch = 3});
        add({.rows = 24, .columns = 16, .depth = 40, .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, .batch = 2});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, Products, testing::ValuesIn(all_cases()),
                         [](const auto& one) { return testing::PrintToString(one.param); });

class ProductCalls : public OnGpu<testing::TestWithParam<int>> {};

// The mask of RELU_AUX has no documented order of bits, but DRELU reads what RELU_AUX wrote.
TEST_P(ProductCalls, LetAGradientThroughWhereReluDid) {
  const Case forward = {.rows = 128, .columns = 24, .depth = 40, .in = CUDA_R_16BF, .out = CUDA_R_16BF};
  Operands on(forward), back(forward);
  const DeviceBytes mask(128 / 8 * 24);
  ProductForm form = form_of(forward, on);
  form.auxiliary = mask.data;
  form.auxiliary_leading = 128;
  const float one = 1.0f, zero = 0.0f;
  const auto run = [&](cublasLtEpilogue_t epilogue, const Operands& to) {
    form.epilogue = epilogue;
    form.workspace_bytes = 0;
    const DescribedProduct product(form);
    const auto answer = product.ask();
    if (!answer.has_any()) return false;
    EXPECT_EQ(product.run({&one, on.a.data(), on.b.data(), &zero, to.d.data(), to.d.data()}, &answer.results[0].algo,
                          nullptr, 0),
              CUBLAS_STATUS_SUCCESS);
    return true;
  };
  const bool has_both = run(CUBLASLT_EPILOGUE_RELU_AUX, on) && run(CUBLASLT_EPILOGUE_DRELU, back);
  ASSERT_TRUE(has_both);
  on.d.read_back();
  back.d.read_back();
  for (int column = 0; column < forward.columns; ++column) {
    for (int row = 0; row < forward.rows; ++row)
      ASSERT_NEAR(back.d.at(0, row, column), on.d.at(0, row, column), 0x1p-7 * on.d.at(0, row, column));
  }
}

// A sum with one term that is not zero is exact in float32. In units of 2^-7, these are 193.5 and 196.5.
TEST_P(ProductCalls, RoundTiesToEven) {
  const Case of = {.rows = 8, .columns = 8, .depth = 8, .in = CUDA_R_16BF, .out = CUDA_R_16BF};
  Operands on(of);
  std::uint16_t a[64] = {}, b[64] = {};
  a[0] = static_cast<std::uint16_t>(bits_of(1.0f + 0x1p-7f, CUDA_R_16BF));
  a[1] = static_cast<std::uint16_t>(bits_of(1.0f + 3 * 0x1p-7f, CUDA_R_16BF));
  b[0] = static_cast<std::uint16_t>(bits_of(1.5f, CUDA_R_16BF));
  ASSERT_EQ(cudaMemcpy(on.a.data(), a, sizeof a, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(on.b.data(), b, sizeof b, cudaMemcpyHostToDevice), cudaSuccess);
  ProductForm form = form_of(of, on);
  form.workspace_bytes = 0;
  const DescribedProduct product(form);
  const auto answer = product.ask();
  ASSERT_TRUE(answer.has_any());
  ASSERT_EQ(product.run({&of.alpha, on.a.data(), on.b.data(), &of.beta, on.d.data(), on.d.data()},
                        &answer.results[0].algo, nullptr, 0),
            CUBLAS_STATUS_SUCCESS);
  on.d.read_back();
  EXPECT_EQ(on.d.at(0, 0, 0), 194 * 0x1p-7);
  EXPECT_EQ(on.d.at(0, 1, 0), 196 * 0x1p-7);
}

TEST_P(ProductCalls, ReadFactorsOnTheDeviceWhenTheirTurnComes) {
  const Case of = {.rows = 16, .columns = 8, .depth = 24, .alpha = -3.0f, .beta = 0.5f};
  const Operands before(of);
  Operands on(of);
  ProductForm form = form_of(of, on);
  form.on_device = true;
  form.workspace_bytes = 0;
  const DescribedProduct product(form);
  const auto answer = product.ask();
  ASSERT_TRUE(answer.has_any());
  const DeviceBytes factors(512);
  auto* const alpha = static_cast<float*>(factors.data);
  auto* const beta = alpha + 64;
  ASSERT_EQ(cudaMemset(factors.data, 0, 512), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(alpha, &of.alpha, sizeof(float), cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(beta, &of.beta, sizeof(float), cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(product.run({alpha, on.a.data(), on.b.data(), beta, on.d.data(), on.d.data()}, &answer.results[0].algo,
                        nullptr, 0, stream),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  on.d.read_back();
  expect_result(of, before, on);
}

INSTANTIATE_TEST_SUITE_P(Cuda, ProductCalls, testing::Values(0));

}  // namespace
}  // namespace inkling
