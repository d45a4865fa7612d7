// What must be true of a product's matrices, and its way onto a stream.
#include <algorithm>
#include <vector>

#include "products.h"

namespace software_gpu {
namespace {

bool has(cublasLtEpilogue_t epilogue, unsigned bits) { return (static_cast<unsigned>(epilogue) & bits) == bits; }

// The bits that cublasLtEpilogue_t is made of.
constexpr unsigned relu_bit = CUBLASLT_EPILOGUE_RELU, bias_bit = CUBLASLT_EPILOGUE_BIAS, auxiliary_bit = 128,
                   through_relu_bit = 8, row_sums_bit = 16, gelu_bit = CUBLASLT_EPILOGUE_GELU;

// What a product reads or writes.
struct Region {
  const char* name;
  Matrix matrix;
  std::int64_t batch;
  bool is_written;
  bool is_bits = false;

  // Bytes of `elements` of it.
  std::int64_t bytes(std::int64_t elements) const {
    return is_bits ? (elements + 7) / 8 : elements * static_cast<std::int64_t>(size_of(matrix.type));
  }
  // From the first element of one of its matrices to the last.
  std::int64_t elements() const {
    const bool is_empty = matrix.rows == 0 || matrix.columns == 0;
    return is_empty ? 0 : (matrix.columns - 1) * matrix.leading + matrix.rows;
  }
  std::int64_t all_bytes() const { return bytes((batch - 1) * matrix.batch_stride + elements()); }
  const std::byte* begin() const { return static_cast<const std::byte*>(matrix.data); }
  const std::byte* end() const { return begin() + all_bytes(); }
  // Whether its matrices lie one behind the other.
  bool is_in_order() const { return batch == 1 || matrix.batch_stride >= elements(); }
};

std::vector<Region> regions_of(const Product& product) {
  const std::int64_t batch = product.batch;
  std::vector<Region> regions;
  if (product.depth() > 0 && product.alpha.may_count()) {
    regions.push_back({"A", product.a, batch, false});
    regions.push_back({"B", product.b, batch, false});
  }
  if (product.beta.may_count()) regions.push_back({"C", product.c, batch, false});
  regions.push_back({"D", product.d, batch, true});
  const Finish& finish = product.finish;
  if (finish.has_vector()) regions.push_back({"the bias", finish.vector, batch, finish.writes_vector()});
  if (finish.has_auxiliary()) {
    regions.push_back({"the auxiliary matrix", finish.auxiliary, batch, finish.writes_auxiliary(), finish.has_bits()});
  }
  if (product.workspace_bytes > 0) {
    const auto bits = static_cast<std::int64_t>(product.workspace_bytes) * 8;
    regions.push_back({"the workspace", {.data = product.workspace, .rows = bits, .columns = 1}, 1, true, true});
  }
  return regions;
}

// Whether two regions have a byte in common. Columns of matrices with the same distance between them may lie side by
// side; batches that do are given the benefit of the doubt.
bool overlap(const Region& one, const Region& other) {
  if (one.begin() >= other.end() || other.begin() >= one.end()) return false;
  if (one.batch > 1 || other.batch > 1) return one.is_in_order() && other.is_in_order();
  const std::int64_t pitch = one.bytes(one.matrix.leading);
  if (pitch != other.bytes(other.matrix.leading) || pitch == 0) return true;
  const std::int64_t distance = ((other.begin() - one.begin()) % pitch + pitch) % pitch;
  return distance < one.bytes(one.matrix.rows) || distance + other.bytes(other.matrix.rows) > pitch;
}

bool is_same(const Matrix& one, const Matrix& other) {
  return one.data == other.data && one.leading == other.leading && one.batch_stride == other.batch_stride;
}

std::string misplaced(const Region& region) {
  const std::string name = region.name;
  const Matrix& matrix = region.matrix;
  const auto bytes = static_cast<std::size_t>(region.all_bytes());
  if (matrix.data == nullptr) return name + " is a null pointer";
  if (!region.is_bits && reinterpret_cast<std::uintptr_t>(matrix.data) % size_of(matrix.type) != 0)
    return name + " is not aligned to its type";
  if (bytes > 0 && !is_live(matrix.data, bytes))
    return name + " is not in live memory with all of its " + std::to_string(bytes) + " bytes";
  const bool is_interleaved =
      matrix.batch_stride >= matrix.rows && region.batch * matrix.batch_stride <= matrix.leading;
  if (region.is_written && !region.is_in_order() && !is_interleaved)
    return "the matrices of " + name + "'s batch overlap";
  return "";
}

// Returns what is wrong with where a product's matrices lie, empty where nothing is.
std::string misplacement(const Product& product) {
  const std::vector<Region> regions = regions_of(product);
  for (const Region& region : regions) {
    const std::string wrong = misplaced(region);
    if (!wrong.empty()) return wrong;
  }
  for (const Factor& factor : {product.alpha, product.beta}) {
    if (factor.on_device != nullptr && !is_live(factor.on_device, size_of(factor.type)))
      return "alpha or beta is not in live memory";
  }
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (std::size_t j = i + 1; j < regions.size(); ++j) {
      const Region &one = regions[i], &other = regions[j];
      if (!one.is_written && !other.is_written) continue;
      const bool is_in_place = other.name == std::string("D") && one.name == std::string("C");
      if (is_in_place && is_same(one.matrix, other.matrix)) continue;
      if (overlap(one, other)) return std::string(one.name) + " and " + other.name + " overlap";
    }
  }
  return "";
}

std::string misfit(const Matrix& matrix, const char* name, bool may_repeat_a_column) {
  if (matrix.rows < 0 || matrix.columns < 0) return std::string(name) + " has a negative extent";
  if (matrix.leading >= std::max<std::int64_t>(1, matrix.rows)) return "";
  if (may_repeat_a_column && matrix.leading == 0) return "";
  return std::string("the leading dimension of ") + name + " is smaller than its rows";
}

}  // namespace

bool Finish::adds_bias() const { return has(epilogue, bias_bit); }
bool Finish::stores_row_sums() const { return has(epilogue, row_sums_bit); }
bool Finish::sums_first() const { return epilogue == CUBLASLT_EPILOGUE_BGRADA; }
bool Finish::sums_second() const { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
bool Finish::has_auxiliary() const { return has(epilogue, auxiliary_bit); }
bool Finish::writes_auxiliary() const {
  return has(epilogue, auxiliary_bit | relu_bit) || has(epilogue, auxiliary_bit | gelu_bit);
}
bool Finish::has_bits() const {
  return has(epilogue, auxiliary_bit | relu_bit) || has(epilogue, auxiliary_bit | through_relu_bit);
}

std::string describe(const Product& product) {
  const auto text = [](const char* name, std::int64_t value) { return name + std::to_string(value); };
  const auto matrix = [&](const char* name, const Matrix& one) {
    return text(name, one.rows) + text("x", one.columns) + text(" ld ", one.leading) + text(" type ", one.type);
  };
  return product.name + (product.transpose_a ? " T" : " N") + (product.transpose_b ? "T" : "N") +
         matrix(", A ", product.a) + matrix(", B ", product.b) + matrix(", D ", product.d) +
         text(", batch ", product.batch);
}

std::string misfit(const Product& product) {
  const Matrix &a = product.a, &b = product.b, &c = product.c, &d = product.d;
  if (product.batch < 0) return "the batch is negative";
  const bool is_in_place = c.data != nullptr && c.data == d.data;
  for (const std::string& wrong :
       {misfit(a, "A", false), misfit(b, "B", false), misfit(c, "C", !is_in_place), misfit(d, "D", false)}) {
    if (!wrong.empty()) return wrong;
  }
  if ((product.transpose_a ? a.columns : a.rows) != d.rows) return "the rows of op(A) are not those of D";
  if ((product.transpose_b ? b.rows : b.columns) != d.columns) return "the columns of op(B) are not those of D";
  if ((product.transpose_b ? b.columns : b.rows) != product.depth()) return "op(A) and op(B) do not fit";
  if (c.rows != d.rows || c.columns != d.columns) return "C and D have different extents";
  if (c.type != d.type) return "C and D have different types";
  return "";
}

cublasStatus_t queue_product(cudaStream_t stream, const Product& product) {
  const std::string wrong = misplacement(product);
  if (!wrong.empty()) {
    complain(wrong + ": " + describe(product));
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  count(product.name);
  const auto run = [product] {
    const std::string meanwhile = misplacement(product);
    if (meanwhile.empty()) return multiply(product);
    complain("a product whose turn has come: " + meanwhile + ": " + describe(product));
  };
  const cudaError_t error = queue(stream, {.kind = "product", .name = product.name, .run = run});
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

const char* name_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "a cublasStatus_t that the GPU in software never returns";
  }
}

std::set<const void*>& handles() {
  static auto& all = *new std::set<const void*>;
  return all;
}

}  // namespace software_gpu
