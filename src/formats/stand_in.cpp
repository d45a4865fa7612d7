#include "formats/stand_in.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/pickle.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

// "version https://…/spec/v1\noid sha256:4d7a…\nsize 548105171\n", in any order behind the first line.
std::optional<std::string> lfs_pointer(std::string_view text) {
  if (!text.starts_with("version https://") || text.find("\noid sha256:") == std::string_view::npos)
    return std::nullopt;
  constexpr std::string_view size_field = "\nsize ";
  const std::size_t at = text.find(size_field);
  if (at == std::string_view::npos) return "";
  const std::string_view digits = text.substr(at + size_field.size());
  const auto size = whole_number(digits.substr(0, digits.find('\n')));
  return size ? str(" of ", format_count(static_cast<std::uint64_t>(*size)), " bytes") : "";
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_web_page(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const std::string begin = lower_case(text.substr(0, 16));
  return begin.starts_with("<!doctype") || begin.starts_with("<html") || begin.starts_with("<?xml") ||
         begin.starts_with("<head");
}

// What servers send in place of a file, saved by a program that does not look at their status.
bool is_refusal(std::string_view text) {
  constexpr std::string_view answers[] = {"Access to model ",     "Entry not found",
                                          "Repository not found", "Invalid username or password",
                                          "404: Not Found",       "Not Found"};
  return std::any_of(std::begin(answers), std::end(answers),
                     [&](std::string_view answer) { return text.starts_with(answer); });
}

}  // namespace

void refuse_stand_in(const fs::path& path, std::string_view beginning) {
  const std::string_view text = beginning.substr(0, 1024);
  const std::string whole = str("the whole model: hf download OWNER/NAME --local-dir ", folder_of(path).string());
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error::input(str(path.string(), " is ", what, "; ", remedy));
  };
  if (const auto size = lfs_pointer(text)) {
    refuse(str("a Git LFS pointer, which stands for a file", *size, " that was not fetched"),
           str("fetch it: git -C ", folder_of(path).string(), " lfs pull, or ", whole));
  }
  if (is_web_page(text)) {
    refuse("a web page that was saved under this name",
           str("download the file itself (its address has resolve where the page's has blob), or ", whole));
  }
  if (is_refusal(text)) {
    refuse(str("not the file but what a server answered, ", quote(text.substr(0, text.find('\n')).substr(0, 80))),
           str("download it anew, logged in if the model asks for it (hf auth login), or ", whole));
  }
  if (text.starts_with("GGUF")) {
    refuse("a GGUF file, the format of llama.cpp, which inkling does not read",
           "take the model.safetensors that it was made from");
  }
  if (text.starts_with("\x89HDF\r\n\x1a\n")) {
    refuse("an HDF5 file, weights of TensorFlow, which inkling does not read", "take the model's model.safetensors");
  }
  if (text.starts_with("PK\x03\x04")) refuse_pickle(path);
}

}  // namespace inkling
