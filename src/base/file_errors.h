// How failed system calls become messages. For the files of base/ that make such calls.
#pragma once

#include <filesystem>
#include <string>

namespace inkling {

// "cannot VERB PATH: reason; remedy" as an Error environment (writing) or input (reading). `code` is errno.
[[noreturn]] void throw_write_error(const std::string& verb, const std::filesystem::path& path, int code);
[[noreturn]] void throw_read_error(const std::filesystem::path& path, int code);

// A hidden name beside `path` that no other writer uses: temporary_name("runs/a.bin", 0) is runs/.a.bin.tmp-PID-0.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt);

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace inkling
