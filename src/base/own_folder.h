// Where the running program's own files are, wherever it was built or installed.
#pragma once

#include <filesystem>

namespace inkling {

// The folder of the file that this code is in: of the program, or of the library that is part of another program.
std::filesystem::path own_folder();

// share/inkling of the place where inkling is installed, which holds configs/ and data/; empty where it is not
// installed.
std::filesystem::path installed_share();

}  // namespace inkling
