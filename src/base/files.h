// Files that are never half written: each is written under a temporary name, fsynced and renamed, and its folder is
// fsynced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace inkling {

namespace fs = std::filesystem;

// What is read whole into memory (settings, states, prompts) is at most this large, in bytes.
inline constexpr std::size_t largest_small_file = std::size_t{64} << 20;

// Returns the whole of a regular file of at most 64 MiB. Throws Error input at once if it is larger or missing, or is a
// folder, a pipe or a device, and Error environment if it may be there but cannot be read.
std::string read_small_file(const fs::path& path);

// Does the same for what a person names on the command line, where a pipe is read to its end: <(command), /dev/stdin.
std::string read_small_file_or_pipe(const fs::path& path);

// A file opened for reading at any offset (pread: no mapping, so a file cut short is an error and not a signal).
class InputFile {
 public:
  // Throws Error input if it is missing or not a regular file, Error environment if it may be there but cannot be read.
  explicit InputFile(const fs::path& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const fs::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // bytes, when it was opened

  // Fills `out` from byte `offset` on. Throws Error input if the file ends before `out` is full.
  void read_exactly(std::uint64_t offset, std::span<std::byte> out) const;
  std::string read_all() const;  // from the beginning to size()
  // Reads up to out.size() bytes; returns how many (0 at the end).
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  fs::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// A new file that appears under its name only when commit() has returned, and is dropped without a trace otherwise.
// What a killed process leaves is a hidden file (.NAME.tmp-PID-N), which the next writer of the same name removes.
// Every write error (disk full …) is an Error environment naming the path.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path);  // creates the temporary file beside `path`
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);  // over what is already written
  std::uint64_t size() const { return size_; }
  void commit();  // fsync, rename over `path`, fsync the directory

 private:
  fs::path path_;
  fs::path temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string buffer_;
  void flush();
};

void write_file(const fs::path& path, std::string_view contents);  // OutputFile in one call

// A new folder with the same promise: the caller fills temporary(), then commit() renames it to `path`, which must not
// exist. An older version, and what killed writers have left behind, is removed by `remove`, which must not throw (the
// default removes everything that the folder holds).
class OutputFolder {
 public:
  using Remove = void (*)(const fs::path& folder);
  explicit OutputFolder(const fs::path& path);
  OutputFolder(const fs::path& path, Remove remove);
  ~OutputFolder();  // removes the temporary folder if commit() was not called
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const fs::path& temporary() const { return temporary_; }
  void commit();
  // Does what commit() does, but exchanges an older folder `path` for the new one in one step and then removes it.
  // Where the file system cannot exchange names, this takes two steps: a process killed between them leaves the older
  // version under a name from which restore_replaced() of base/paths.h brings it back.
  void replace();

 private:
  void sync_contents() const;
  void replace_in_two_steps();
  void remove_replaced() const;

  fs::path path_;
  fs::path temporary_;
  Remove remove_;
  int descriptor_ = -1;  // of temporary_, to lock it
  bool committed_ = false;
};

void sync_folder(const fs::path& folder);     // fsync of the directory entry list
void create_folders(const fs::path& folder);  // each synced into its parent; Error environment if that fails

}  // namespace inkling
