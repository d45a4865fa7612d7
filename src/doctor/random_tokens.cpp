#include "doctor/random_tokens.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/temporary_names.h"

namespace inkling {
namespace {

// Removed with all it holds at the end of the scope.
struct PassingFolder {
  std::filesystem::path path;

  PassingFolder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "inkling-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      throw Error::environment(str("cannot make a folder for temporary files (",
                                   error ? error.message() : errno_text(errno), "); name one with TMPDIR"));
    }
    path = name;
  }
  ~PassingFolder() { remove_everything(path); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
};

}  // namespace

std::uint64_t expected_vocabulary(const DataConfig& data) {
  if (data.vocab_size > 0) return data.vocab_size;
  if (data.tokenizer.from == "gpt2") return 50257;
  switch (data.tokenizer.kind) {
    case TokenizerKind::byte:
      return 256;
    case TokenizerKind::sentencepiece:
    case TokenizerKind::bpe:
      return data.tokenizer.vocab_size;
    case TokenizerKind::character:
      break;
  }
  return 65;
}

TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count) {
  const PassingFolder folder;
  const std::filesystem::path path = folder.path / "tokens.bin";
  TokenShardWriter writer(path, token_width_for(vocab_size));
  std::vector<Token> tokens(count);
  for (std::uint64_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(random_below(1, i, vocab_size));
  writer.append(tokens);
  writer.commit();
  return TokenSequence({path}, vocab_size);
}

}  // namespace inkling
