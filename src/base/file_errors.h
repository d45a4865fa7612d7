// How failed system calls become messages.
#pragma once

#include <filesystem>
#include <string>

namespace inkling {

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
