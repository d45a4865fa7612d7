// Files that lie under the name of another: what was saved in place of a model's file, by its first bytes.
#pragma once

#include <filesystem>
#include <string_view>

namespace inkling {

// Throws Error input, naming what the file is and how to get the right one, if `beginning` (its first bytes, 1,024 are
// enough) is that of a Git LFS pointer, a web page, a server's answer, a GGUF or HDF5 file, or a pickle of torch.
void refuse_stand_in(const std::filesystem::path& path, std::string_view beginning);

}  // namespace inkling
