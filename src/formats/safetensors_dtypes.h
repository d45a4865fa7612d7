// The element types of safetensors, for the files that read and write it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace inkling {

struct SafetensorsDtype {
  std::string_view name;
  std::uint64_t bits;  // of one element
};

// They are in the order of the reference implementation's enumeration, by which its writer sorts (from the end).
inline constexpr std::array safetensors_dtypes = {
    SafetensorsDtype{"BOOL", 8},        SafetensorsDtype{"F4", 4},          SafetensorsDtype{"F6_E2M3", 6},
    SafetensorsDtype{"F6_E3M2", 6},     SafetensorsDtype{"U8", 8},          SafetensorsDtype{"I8", 8},
    SafetensorsDtype{"F8_E5M2", 8},     SafetensorsDtype{"F8_E4M3", 8},     SafetensorsDtype{"F8_E8M0", 8},
    SafetensorsDtype{"F8_E4M3FNUZ", 8}, SafetensorsDtype{"F8_E5M2FNUZ", 8}, SafetensorsDtype{"I16", 16},
    SafetensorsDtype{"U16", 16},        SafetensorsDtype{"F16", 16},        SafetensorsDtype{"BF16", 16},
    SafetensorsDtype{"I32", 32},        SafetensorsDtype{"U32", 32},        SafetensorsDtype{"F32", 32},
    SafetensorsDtype{"C64", 64},        SafetensorsDtype{"F64", 64},        SafetensorsDtype{"I64", 64},
    SafetensorsDtype{"U64", 64},
};

// The position in the list above, or its size if the name is unknown.
constexpr std::size_t safetensors_dtype_rank(std::string_view name) {
  std::size_t rank = 0;
  while (rank < safetensors_dtypes.size() && safetensors_dtypes[rank].name != name) ++rank;
  return rank;
}

inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // bytes of JSON

}  // namespace inkling
