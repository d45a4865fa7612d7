// Files that people take for text and that are none as they stand: tables, pages, office files, archives, pictures.
// Read as text, they would be learned as what they look like inside.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace inkling {

enum class Inside {
  characters,  // any tokenizer can take them
  bytes,       // only a tokenizer of bytes can, but text can be taken out
  no_text,     // nor can any be taken out, such as from a picture
};

struct ForeignFile {
  std::string what;    // "a PDF"
  std::string remedy;  // what to do to get its text, with a command that names the file
  Inside inside = Inside::bytes;
};

// By the name's ending, in any case and without .gz or .zst; none if it may be text.
std::optional<ForeignFile> foreign_by_name(const std::filesystem::path& path);

// By how the file (or what a compressed one holds) begins, whatever its name is: a pointer of Git LFS (below) or the
// sign of a kind that has one. `front` is the first `bytes_of_front` bytes, or all if there are fewer.
inline constexpr std::size_t bytes_of_front = 512;
std::optional<ForeignFile> foreign_by_front(const std::filesystem::path& path, std::string_view front);

// The same for text in UTF-16 or UTF-32, also without a byte order mark where it is of Latin letters.
std::optional<ForeignFile> wide_text(const std::filesystem::path& path, std::string_view front);

// The same for a pointer of Git LFS, which stands for a file of any kind.
std::optional<ForeignFile> pointer_of_git_lfs(std::string_view front);

bool is_pointer_of_git_lfs(std::string_view front);
bool is_web_page(std::string_view front);  // HTML, in any case and behind white space

// Python's pickles. They are recognised to be refused: reading one can run any program.

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
