// src/checkpoint/modeling_inkling.py as a text, which CMake compiles in (cmake/text_source.cmake).
#pragma once

#include <string_view>

namespace inkling {

// The Python file that lies in every checkpoint of the family inkling, so that transformers opens it.
extern const std::string_view modeling_inkling;

inline constexpr std::string_view modeling_inkling_name = "modeling_inkling.py";

}  // namespace inkling
