// What programs describe to cublasLt: products, matrices and preferences, each of them attributes by number.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

namespace software_gpu {

enum class Described { product, matrix, preference };

struct Description {
  Described kind;
  std::map<int, std::uint64_t> attributes = {};

  template <typename Value>
  Value get(int attribute, Value otherwise) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return otherwise;
    Value value{};
    std::memcpy(&value, &found->second, sizeof value);
    return value;
  }
};

// Returns a description that has not been destroyed, or null with a complaint. Called while mutex() is held.
const Description* find_description(const void* handle, Described kind);

}  // namespace software_gpu
