#include "formats/stand_in.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/foreign_file.h"
#include "formats/pickle.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

// " of 548,105,171 bytes", as the pointer "version …\noid sha256:4d7a…\nsize 548105171\n" says of its file.
std::string size_behind(std::string_view pointer) {
  constexpr std::string_view size_field = "\nsize ";
  const std::size_t at = pointer.find(size_field);
  if (at == std::string_view::npos) return "";
  const std::string_view digits = pointer.substr(at + size_field.size());
  const auto size = whole_number(digits.substr(0, digits.find('\n')));
  return size ? str(" of ", format_count(static_cast<std::uint64_t>(*size)), " bytes") : "";
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
  const std::string folder = shell_word(folder_of(path).string());
  const std::string whole = str("the whole model: hf download OWNER/NAME --local-dir ", folder);
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error::input(str(path.string(), " is ", what, "; ", remedy));
  };
  if (is_pointer_of_git_lfs(text)) {
    refuse(str("a Git LFS pointer, which stands for a file", size_behind(text), " that was not fetched"),
           str("fetch it: git -C ", folder, " lfs pull, or ", whole));
  }
  if (is_web_page(text) || text.starts_with("<?xml")) {
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
