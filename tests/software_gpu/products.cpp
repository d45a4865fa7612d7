// The CPU computes matrix products here. Sums are in double: a product of two floats is exact there, so that the same
// bits come out of every instruction set. The inner loop is compiled for several of them.
#include "products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace software_gpu {
namespace {

// --- numbers of each type

float to_float(std::uint16_t bfloat16) { return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat16) << 16); }

// bfloat16 keeps the upper half of a float: to the nearest, ties to even.
std::uint16_t to_bfloat16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

double number_at(const void* data, std::int64_t index, cudaDataType_t type) {
  if (type == CUDA_R_16BF) return to_float(static_cast<const std::uint16_t*>(data)[index]);
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  return static_cast<const double*>(data)[index];
}

// A sum of a GPU's is a float before it is a bfloat16.
void put_number(void* data, std::int64_t index, cudaDataType_t type, double value) {
  if (type == CUDA_R_16BF) {
    static_cast<std::uint16_t*>(data)[index] = to_bfloat16(static_cast<float>(value));
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else {
    static_cast<double*>(data)[index] = value;
  }
}

// --- one matrix of a batch, as the host sees it

struct View {
  std::byte* data;
  cudaDataType_t type;
  std::int64_t row_stride, column_stride;

  double at(std::int64_t row, std::int64_t column) const {
    return number_at(data, row * row_stride + column * column_stride, type);
  }
  void put(std::int64_t row, std::int64_t column, double value) const {
    put_number(data, row * row_stride + column * column_stride, type, value);
  }
};

View view(const Matrix& matrix, std::int64_t item, bool transposed = false) {
  auto* const first = static_cast<std::byte*>(on_host(matrix.data));
  std::byte* const data = first + item * matrix.batch_stride * static_cast<std::int64_t>(size_of(matrix.type));
  if (transposed) return {data, matrix.type, matrix.leading, 1};
  return {data, matrix.type, 1, matrix.leading};
}

// --- sums of products

constexpr std::int64_t tile_rows = 8, tile_columns = 6;                           // what registers hold
constexpr std::int64_t block_rows = 128, block_columns = 192, block_depth = 256;  // what caches hold

using Lanes [[gnu::vector_size(tile_rows * sizeof(double))]] = double;

// sums[column][row] += a[i][row] * b[i][column], over `depth` indices i.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2,fma", "default")]]
#endif
[[gnu::optimize("O3")]]
void add_tile(const double* a, const double* b, std::int64_t depth, double* sums, std::int64_t sums_stride) {
  Lanes total[tile_columns] = {};
  for (std::int64_t i = 0; i < depth; ++i, a += tile_rows, b += tile_columns) {
    Lanes column;
    std::memcpy(&column, a, sizeof column);
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < tile_columns; ++j) total[j] += column * b[j];
  }
#pragma GCC unroll 6
  for (std::int64_t j = 0; j < tile_columns; ++j) {
    for (std::int64_t row = 0; row < tile_rows; ++row) sums[j * sums_stride + row] += total[j][row];
  }
}

// Copies a part of a matrix in panels of `width` rows: panel[index][row], with zeros for rows that it does not have.
template <typename Element, typename Convert>
void fill_panel(const View& from, std::int64_t rows, std::int64_t width, std::int64_t depth, double* panel,
                const Convert& convert) {
  const auto* const data = reinterpret_cast<const Element*>(from.data);
  std::fill(panel, panel + width * depth, 0.0);
  for (std::int64_t i = 0; i < depth; ++i) {
    for (std::int64_t row = 0; row < rows; ++row)
      panel[i * width + row] = convert(data[row * from.row_stride + i * from.column_stride]);
  }
}

void pack(const View& matrix, std::int64_t row, std::int64_t rows, std::int64_t index, std::int64_t depth,
          std::int64_t width, std::vector<double>& panels) {
  panels.resize(static_cast<std::size_t>((rows + width - 1) / width * width * depth));
  for (std::int64_t done = 0; done < rows; done += width) {
    View part = matrix;
    part.data += ((row + done) * matrix.row_stride + index * matrix.column_stride) *
                 static_cast<std::int64_t>(size_of(matrix.type));
    double* const panel = panels.data() + done * depth;
    const std::int64_t left = std::min(width, rows - done);
    if (matrix.type == CUDA_R_16BF) {
      fill_panel<std::uint16_t>(part, left, width, depth, panel, to_float);
    } else if (matrix.type == CUDA_R_32F) {
      fill_panel<float>(part, left, width, depth, panel, [](float value) { return value; });
    } else {
      fill_panel<double>(part, left, width, depth, panel, [](double value) { return value; });
    }
  }
}

struct Block {
  std::int64_t row, rows, column, columns;
};

// The sums of a block of op(a) op(b): [block_columns][block_rows], with room for whole tiles.
struct Sums {
  static constexpr std::int64_t stride = block_rows;
  std::vector<double> values = std::vector<double>(stride * (block_columns + tile_columns));
  std::vector<double> a = {}, b = {};  // panels

  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(column * stride + row)];
  }

  // b is given as its transpose, whose rows are the columns of op(b).
  void compute(const View& first, const View& second_transposed, std::int64_t depth, const Block& block) {
    std::fill(values.begin(), values.end(), 0.0);
    for (std::int64_t index = 0; index < depth; index += block_depth) {
      const std::int64_t part = std::min(block_depth, depth - index);
      pack(first, block.row, block.rows, index, part, tile_rows, a);
      pack(second_transposed, block.column, block.columns, index, part, tile_columns, b);
      for (std::int64_t column = 0; column < block.columns; column += tile_columns) {
        for (std::int64_t row = 0; row < block.rows; row += tile_rows) {
          add_tile(a.data() + row * part, b.data() + column * part, part, values.data() + column * stride + row,
                   stride);
        }
      }
    }
  }
};

// --- what follows them

// GELU by tanh, and its derivative.
const double root_two_over_pi = std::sqrt(2.0 / M_PI);
constexpr double cubic = 0.044715;

double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(root_two_over_pi * (x + cubic * x * x * x))); }
double gelu_derivative(double x) {
  const double bend = std::tanh(root_two_over_pi * (x + cubic * x * x * x));
  return 0.5 * (1.0 + bend) + 0.5 * x * (1.0 - bend * bend) * root_two_over_pi * (1.0 + 3.0 * cubic * x * x);
}

// A matrix of bits: one for each element that RELU let pass.
struct Bits {
  std::uint8_t* data;
  std::int64_t leading;

  bool at(std::int64_t row, std::int64_t column) const {
    const std::int64_t bit = column * leading + row;
    return (data[bit / 8] >> (bit % 8) & 1) != 0;
  }
  void put(std::int64_t row, std::int64_t column, bool value) const {
    const std::int64_t bit = column * leading + row;
    const auto mask = static_cast<std::uint8_t>(1u << (bit % 8));
    data[bit / 8] = static_cast<std::uint8_t>(value ? data[bit / 8] | mask : data[bit / 8] & ~mask);
  }
};

// The epilogue of one product of a batch.
class Ending {
 public:
  Ending(const Finish& finish, std::int64_t item, std::int64_t rows)
      : epilogue_(finish.epilogue), row_sums_(finish.stores_row_sums() ? static_cast<std::size_t>(rows) : 0) {
    if (finish.has_vector()) vector_ = view(finish.vector, item);
    adds_bias_ = finish.adds_bias();
    if (!finish.has_auxiliary()) return;
    if (finish.has_bits()) {
      bits_ = {static_cast<std::uint8_t*>(on_host(finish.auxiliary.data)) + item * finish.auxiliary.batch_stride / 8,
               finish.auxiliary.leading};
    } else {
      auxiliary_ = view(finish.auxiliary, item);
    }
  }

  // Returns what becomes of an element.
  double of(double x, std::int64_t row, std::int64_t column) {
    if (adds_bias_) x += vector_.at(row, 0);
    const double result = activated(x, row, column);
    if (!row_sums_.empty()) row_sums_[static_cast<std::size_t>(row)] += result;
    return result;
  }

  void store_row_sums() const {
    for (std::size_t row = 0; row < row_sums_.size(); ++row)
      vector_.put(static_cast<std::int64_t>(row), 0, row_sums_[row]);
  }

 private:
  double activated(double x, std::int64_t row, std::int64_t column) const {
    switch (epilogue_) {
      case CUBLASLT_EPILOGUE_RELU_AUX:
      case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
        bits_.put(row, column, x > 0.0);
        return std::fmax(x, 0.0);
      case CUBLASLT_EPILOGUE_RELU:
      case CUBLASLT_EPILOGUE_RELU_BIAS:
        return std::fmax(x, 0.0);
      case CUBLASLT_EPILOGUE_DRELU:
      case CUBLASLT_EPILOGUE_DRELU_BGRAD:
        return bits_.at(row, column) ? x : 0.0;
      case CUBLASLT_EPILOGUE_GELU_AUX:
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        auxiliary_.put(row, column, x);
        return gelu(x);  // of what is not rounded yet
      case CUBLASLT_EPILOGUE_GELU:
      case CUBLASLT_EPILOGUE_GELU_BIAS:
        return gelu(x);
      case CUBLASLT_EPILOGUE_DGELU:
      case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        return x * gelu_derivative(auxiliary_.at(row, column));
      default:
        return x;
    }
  }

  cublasLtEpilogue_t epilogue_;
  bool adds_bias_ = false;
  View vector_ = {}, auxiliary_ = {};
  Bits bits_ = {};
  std::vector<double> row_sums_;
};

// Writes the sums of each row of an operand, over `depth` columns.
void sum_rows(const View& matrix, std::int64_t rows, std::int64_t depth, const View& sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < depth; ++i) sum += matrix.at(row, i);
    sums.put(row, 0, sum);
  }
}

void multiply_item(const Product& product, std::int64_t item, double alpha, double beta) {
  const View a = view(product.a, item, product.transpose_a);
  const View b = view(product.b, item, !product.transpose_b);  // transposed once more
  const View c = view(product.c, item), d = view(product.d, item);
  const std::int64_t rows = product.d.rows, columns = product.d.columns, depth = product.depth();
  Ending ending(product.finish, item, rows);
  Sums sums;
  for (std::int64_t column = 0; column < columns; column += block_columns) {
    for (std::int64_t row = 0; row < rows; row += block_rows) {
      const Block block = {row, std::min(block_rows, rows - row), column, std::min(block_columns, columns - column)};
      if (alpha != 0.0) sums.compute(a, b, depth, block);
      for (std::int64_t j = 0; j < block.columns; ++j) {
        for (std::int64_t i = 0; i < block.rows; ++i) {
          const double before = beta == 0.0 ? 0.0 : beta * c.at(row + i, column + j);
          d.put(row + i, column + j, ending.of(alpha * sums.at(i, j) + before, row + i, column + j));
        }
      }
    }
  }
  ending.store_row_sums();
  if (product.finish.sums_first()) sum_rows(a, rows, depth, view(product.finish.vector, item));
}

}  // namespace

Factor Factor::read(const void* number, cudaDataType_t type, bool is_on_device) {
  if (is_on_device) return {.on_device = number, .type = type};
  return {.value = number_at(number, 0, type), .type = type};
}

double Factor::now() const { return on_device == nullptr ? value : number_at(on_host(on_device), 0, type); }

std::size_t size_of(cudaDataType_t type) {
  if (type == CUDA_R_16BF) return 2;
  if (type == CUDA_R_32F) return 4;
  return type == CUDA_R_64F ? 8 : 0;
}

void multiply(const Product& product) {
  const double alpha = product.alpha.now(), beta = product.beta.now();
  // What is in it afterwards is no result of anybody's: a workspace that somebody else uses shows.
  if (product.workspace_bytes > 0) std::memset(on_host(product.workspace), 0xff, product.workspace_bytes);
  for (std::int64_t item = 0; item < product.batch; ++item) multiply_item(product, item, alpha, beta);
}

}  // namespace software_gpu
