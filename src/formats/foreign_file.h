// Files that people take for text and that are none as they stand: tables, pages, office files, archives, pictures.
// Read as text, they would be learned as what they look like inside.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace inkling
