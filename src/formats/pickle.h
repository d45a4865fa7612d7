// Python's pickles. They are recognised to be refused: reading one can run any program.
#pragma once

#include <filesystem>

#include "base/files.h"

namespace inkling {

// By its name, in any case: .pkl, .pickle, .pt, .pth, .ckpt.
bool is_named_pickle(const std::filesystem::path& path);

// By its first bytes: what torch.save writes, which is a zip archive around a pickle, or a bare pickle. The second may
// be a mistake about a file of 16-bit numbers, the first cannot well be.
bool is_saved_by_torch(const InputFile& file);
bool is_pickle(const InputFile& file);

// Throws Error input with the reason and what to do instead, by the file's name.
[[noreturn]] void refuse_pickle(const std::filesystem::path& path);

// Throws that if `path` is a file that is a pickle, by name or first bytes.
void refuse_if_pickle(const std::filesystem::path& path);

}  // namespace inkling
