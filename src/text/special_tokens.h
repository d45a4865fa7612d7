// What the files beside a tokenizer made elsewhere say of its special tokens, and of what else would change the tokens
// of a text: tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json. Every function throws
// Error input naming file and field where one is damaged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "config/tokenizer_settings.h"
#include "formats/json.h"
#include "text/bpe_vocabulary.h"
#include "text/sentencepiece_file.h"

namespace inkling {

// `special` lists the tokens that stand for no text in these functions; `otherwise` is a name that counts where no file
// has one.

// The token that eos_token names, or the first of eos_token_id in config.json that is special; none if there is none.
std::optional<Token> read_separator(const std::filesystem::path& folder, std::span<const AddedToken> special,
                                    const std::string& otherwise);

// What stands in front of a prompt: `bos`, the token that bos_token names, if add_bos_token says so. Throws Error input
// for add_eos_token, since a text that has ended cannot go on.
struct FirstToken {
  std::optional<bool> wanted;  // none: no file says
  std::optional<Token> bos;
};
FirstToken read_first_token(const std::filesystem::path& folder, std::span<const AddedToken> special,
                            const std::string& otherwise);

// The tokens of added_tokens_decoder and added_tokens.json that come behind the pieces of tokenizer.model, ascending.
// Throws Error input for one that would change the tokens of a text: one that is not special, or a piece under another
// name.
std::vector<AddedToken> read_added_tokens(const std::filesystem::path& folder, std::span<const Piece> pieces);

// Reads a BPE as read_bpe() does, with the tokens that tokenizer_config.json and added_tokens.json beside it add; one
// that has a role (bos_token, additional_special_tokens …) is special. Throws Error input naming the field by which
// transformers would give a text other tokens: an add_prefix_space that is not the vocabulary's, a special token that
// is a token of text, and, where vocab.json and merges.txt are read, which name no expression, a tokenizer_class or,
// without `pattern`, a model_type whose expression need not be GPT-2's.
// json: the tokenizer.json of `path`, where it has been opened already.
BpeVocabulary read_configured_bpe(const std::filesystem::path& path, std::optional<Pattern> pattern = {},
                                  const JsonFields* json = nullptr);

// Throws Error input naming the field of tokenizer_config.json by which a text would get other tokens than the model of
// the folder gives it: a special token that is a piece of text, or pieces drawn at random.
void refuse_other_tokens(const std::filesystem::path& folder, std::span<const Piece> pieces);

// What tokenizer_config.json says of the space in front of a document, if anything.
std::optional<bool> read_prefix_space(const std::filesystem::path& folder);

// The names of special tokens, as <|endoftext|>, where they stand in a text as ordinary characters.

// What other programs write at the end of a document, whatever the tokenizer at hand calls its own.
inline constexpr const char* common_separators[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Finds names in texts, at the pace of a search for one byte where they all begin with the same one: those of special
// tokens, or of added tokens that texts become.
class SpecialNames {
 public:
  explicit SpecialNames(const std::vector<std::string>& names);  // those of less than two bytes are left out
  SpecialNames(SpecialNames&&) = default;

  struct Found {
    std::size_t offset;
    std::string_view name;  // lives as long as this
  };
  // The first name that begins at or behind `from`; of several that begin there, the longest.
  std::optional<Found> find(std::string_view text, std::size_t from = 0) const;

  // The longest name that `text` begins with; empty if there is none.
  std::string_view name_at(std::string_view text) const;

  std::size_t longest() const { return longest_; }  // in bytes; 0 if there are none

 private:
  std::unordered_set<std::string> names_;
  // The lengths of the names that begin with these two bytes, the longest first.
  std::unordered_map<std::string, std::set<std::size_t, std::greater<>>> lengths_;
  std::array<bool, 256> begins_{};  // whether a name does with a byte
  std::string first_bytes_;
  std::size_t longest_ = 0;
};

}  // namespace inkling
