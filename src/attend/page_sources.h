// page.html with its style and scripts as one text, which CMake compiles in (cmake/text_source.cmake).
#pragma once

#include <string_view>

namespace inkling {

// The page without numbers: @DATA@ stands where they belong, and @NONCE@ wherever the name of its own scripts belongs.
extern const std::string_view page_sources;

}  // namespace inkling
