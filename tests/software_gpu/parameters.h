// Which of a kernel's parameters are pointers, as its name alone tells.
#pragma once

#include <string>
#include <vector>

namespace software_gpu {

// For each parameter in a demangled name: 1 for a pointer, n for a std::array<char*, n>, 0 for anything else. Empty
// where the name says nothing of parameters.
std::vector<int> pointers_of_parameters(const std::string& name);

}  // namespace software_gpu
