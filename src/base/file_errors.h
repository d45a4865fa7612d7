// How failed system calls become messages. For the files of base/ that make such calls.
#pragma once

#include <filesystem>
#include <string>

namespace inkling {

// "cannot VERB PATH: reason; remedy" as an Error environment (writing) or input (reading). `code` is errno.
[[noreturn]] void throw_write_error(const std::string& verb, const std::filesystem::path& path, int code);
[[noreturn]] void throw_read_error(const std::filesystem::path& path, int code);

}  // namespace inkling
