// What Linux says: of itself below /proc and /sys, in short texts of which any may be missing, and of system calls that
// failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// Paths are those of the machine, with or without the slash in front: "proc/meminfo". Nothing here throws; what cannot
// be read is missing.
class SystemFiles {
 public:
  // `root` holds proc and sys; a test invents a machine in a folder.
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  // The whole text, of which at most 4 MiB are read.
  std::optional<std::string> text(const std::filesystem::path& path) const;
  // The first line without its end; "" if the file is missing.
  std::string line(const std::filesystem::path& path) const;
  std::vector<std::string> lines(const std::filesystem::path& path) const;
  // The number that the text begins with, or the one behind the first word `key`; none for the word "max" and the like.
  std::optional<std::uint64_t> number(const std::filesystem::path& path, std::string_view key = "") const;
  // What stands behind the first "key :" or "key=" that begins a line, without spaces and quotes around; "" if missing.
  std::string field(const std::filesystem::path& path, std::string_view key) const;
  std::vector<std::string> names(const std::filesystem::path& folder) const;  // sorted
  bool has(const std::filesystem::path& path) const;
  // What a link says, which may not exist; "" if it is no link.
  std::string link(const std::filesystem::path& path) const;
  std::filesystem::path place(const std::filesystem::path& path) const { return root_ / path.relative_path(); }

 private:
  std::filesystem::path root_;
};

// The folders of the control groups of this process that limit `resource` ("memory", "cpu"), innermost first, below
// sys. A container sees its own group at the root.
struct ControlGroup {
  std::filesystem::path folder;
  bool is_version2 = true;
};
std::vector<ControlGroup> control_groups(const SystemFiles& files, std::string_view resource);

// What errno says: "No space left on device".
std::string errno_text(int code);

// Whether this error of flock() means that the file system has no locks, rather than that one could not be taken.
bool has_no_locks(int code);

// Throws "cannot VERB PATH: reason; remedy" as an Error environment. `code` is errno.
[[noreturn]] void throw_write_error(const std::string& verb, const std::filesystem::path& path, int code);

// Throws "cannot read PATH: reason; remedy": as an Error input where the person named something that is missing or is
// not a file, and as an Error environment where it may be there but the machine does not let it be read (permissions, a
// faulty disk, too many open files). No caller may take the second for the first and go on without the file.
[[noreturn]] void throw_read_error(const std::filesystem::path& path, int code);

}  // namespace inkling
