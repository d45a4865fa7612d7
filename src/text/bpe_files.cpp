#include "text/bpe_files.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/foreign_file.h"
#include "formats/json.h"
#include "formats/model_place.h"
#include "text/bpe_vocabulary.h"
#include "text/sentencepiece_file.h"

namespace inkling {

namespace {

constexpr std::string_view remedy =
    "if the file is as it was published, inkling does not compute this tokenizer, so take another; if not, fetch it "
    "again";

[[noreturn]] void refuse_line(const fs::path& path, std::size_t line, const std::string& why) {
  throw Error::input(str(path.string(), ":", line, ": ", why, "; ", remedy));
}

// Calls visit(line, number) for each line that is not empty, without its end.
void for_each_line(std::string_view text, const std::function<void(std::string_view, std::size_t)>& visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) visit(line, number);
  }
}

// Collects the parts of a vocabulary and finds its tokens by their bytes.
class Collector {
 public:
  // The bytes that a name stands for; none if it is not written in GPT-2's signs for bytes, where these are merged.
  std::optional<std::string> bytes_of(std::string_view name) const {
    if (!vocabulary.characters) return signs_to_bytes(name);
    if (!vocabulary.characters->space_signs) return std::string(name);
    return with_spaces(std::string(name));
  }

  // The sign by which a file writes these bytes, for messages.
  std::string name_of(const std::string& bytes) const { return vocabulary.characters ? bytes : bytes_to_signs(bytes); }

  void add_token(std::uint64_t token, std::string bytes) {
    if (bytes.size() > longest_token) {
      throw Error::input(str("token ", token, " has ", bytes.size(), " bytes, and inkling takes ", longest_token));
    }
    const bool is_new = by_bytes_.emplace(bytes, static_cast<Token>(token)).second;
    if (!is_new) throw Error::input(str("token ", token, " has the bytes of another token"));
    place(token, std::move(bytes));
  }

  // Adds a token that spells a byte of characters without a token, and that nothing merges with.
  void add_byte_token(std::uint64_t token, char byte) {
    place(token, std::string(1, byte));
    vocabulary.characters->byte_tokens->at(static_cast<unsigned char>(byte)) = static_cast<Token>(token);
  }

  std::optional<Token> find(const std::string& bytes) const {
    const auto found = by_bytes_.find(bytes);
    return found == by_bytes_.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns why the two do not merge; empty if they do.
  std::string add_merge(const std::string& left, const std::string& right) {
    const auto first = find(left), second = find(right), result = find(left + right);
    if (!first || !second || !result) {
      return str("merges ", quote(name_of(left)), " and ", quote(name_of(right)), ", but ",
                 quote(name_of(!first    ? left
                               : !second ? right
                                         : left + right)),
                 " is no token of text in the vocabulary");
    }
    vocabulary.merges.push_back({*first, *second, *result});
    return {};
  }

  // Reads "Ġ t" as the two it merges, in bytes.
  std::optional<std::pair<std::string, std::string>> read_merge(std::string_view line) const {
    const std::size_t space = line.find(' ');
    return space == std::string_view::npos ? std::nullopt : read_pair(line.substr(0, space), line.substr(space + 1));
  }

  std::optional<std::pair<std::string, std::string>> read_pair(std::string_view left, std::string_view right) const {
    auto first = bytes_of(left), second = bytes_of(right);
    if (!first || !second || first->empty() || second->empty()) return std::nullopt;
    return std::pair(std::move(*first), std::move(*second));
  }

  BpeVocabulary vocabulary;

 private:
  void place(std::uint64_t token, std::string bytes) {
    if (token >= vocabulary.tokens.size()) vocabulary.tokens.resize(token + 1);
    if (bytes.empty()) throw Error::input(str("token ", token, " is empty"));
    if (!vocabulary.tokens[token].empty()) throw Error::input(str("two tokens have the number ", token));
    vocabulary.tokens[token] = std::move(bytes);
  }

  std::unordered_map<std::string, Token> by_bytes_;
};

void read_merges(const fs::path& path, Collector& collector) {
  const std::string text = read_small_file(path);
  refuse_stand_in(path, text);
  if (const auto offset = find_invalid_utf8(text)) {
    const auto line =
        static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*offset), '\n'));
    refuse_line(path, line + 1, "this is not UTF-8");
  }
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    const auto pair = collector.read_merge(line);
    if (!pair) refuse_line(path, number, "a merge is two tokens with a space between them");
    const std::string why = collector.add_merge(pair->first, pair->second);
    if (!why.empty()) refuse_line(path, number, why);
  });
}

// What no merge makes and is no byte cannot come from text: <|endoftext|>.
void set_added_apart(BpeVocabulary& vocabulary) {
  std::vector<bool> made(vocabulary.tokens.size(), false);
  for (const Merge& merge : vocabulary.merges) made[merge.result] = true;
  for (std::size_t token = 0; token < made.size(); ++token) {
    std::string& bytes = vocabulary.tokens[token];
    if (made[token] || bytes.size() <= 1) continue;
    vocabulary.added.push_back({static_cast<Token>(token), std::exchange(bytes, {})});
  }
}

// Adds the tokens of `vocab`, which maps their names to numbers. Those that `added` has are left to it.
void add_named_tokens(const JsonFields& vocab, Collector& collector, const std::map<std::string, Token>& added) {
  auto& characters = collector.vocabulary.characters;
  std::set<char> spelled;
  for (const auto& [name, token] : vocab.counts(largest_token)) {
    if (const auto found = added.find(name); found != added.end()) {
      if (found->second == token) continue;
      vocab.refuse(
          str("the token ", quote(name), " has the number ", token, ", and ", found->second, " in added_tokens"));
    }
    const auto byte = characters && characters->byte_tokens ? byte_of_piece(name) : std::nullopt;
    const auto bytes = collector.bytes_of(name);
    if (!bytes) {
      vocab.refuse(str("the token ", quote(name),
                       " is not written in GPT-2's signs for bytes, and its pre_tokenizer is ", "ByteLevel"));
    }
    try {
      byte ? collector.add_byte_token(token, *byte) : collector.add_token(token, *bytes);
    } catch (const Error& error) {
      vocab.refuse(error.message());
    }
    if (byte) spelled.insert(*byte);
  }
  if (characters && characters->byte_tokens && spelled.size() < characters->byte_tokens->size()) {
    vocab.refuse(str("byte_fallback is true, and only ", spelled.size(), " of the tokens <0x00> to <0xFF> are there"));
  }
}

BpeVocabulary read_vocabulary_and_merges(const fs::path& path, const fs::path& merges) {
  Collector collector;
  add_named_tokens(JsonFields(path, std::string(remedy)), collector, {});
  read_merges(merges, collector);
  set_added_apart(collector.vocabulary);
  return std::move(collector.vocabulary);
}

std::string read_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char character : text) {
    const std::size_t digit = digits.find(character);
    if (digit == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return bytes;
}

// Two neighbours whose bytes together are a token merge to it, the smallest number first. Throws Error input where the
// list of these merges, which can take the square of the tokens' bytes, is too long for a tokenizer.json.
void merge_all_splits(Collector& collector) {
  constexpr std::size_t signs = 8;  // around and between the two in that file: "   \"a b\",\n"
  std::size_t listed = 0;
  for (std::size_t token = 0; token < collector.vocabulary.tokens.size(); ++token) {
    const std::string bytes = collector.vocabulary.tokens[token];
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const std::string left = bytes.substr(0, cut), right = bytes.substr(cut);
      if (!collector.find(left) || !collector.find(right)) continue;
      listed += bytes.size() + signs;
      if (listed > largest_small_file) {
        throw Error::input(str("its tokens can be merged in so many ways that tokenizer.json would take more than ",
                               format_bytes(largest_small_file), ", and inkling reads no more; take shorter tokens"));
      }
      collector.add_merge(left, right);
    }
  }
}

// "IQ== 0" as a token's bytes and its number; no bytes if it is nothing of the kind.
std::pair<std::string, std::uint64_t> read_rank(std::string_view line) {
  const std::size_t space = std::min(line.find(' '), line.size() - 1);
  const std::int64_t rank = whole_number(line.substr(space + 1)).value_or(-1);
  if (rank < 0 || static_cast<std::uint64_t>(rank) > largest_token) return {};
  return {read_base64(line.substr(0, space)), static_cast<std::uint64_t>(rank)};
}

BpeVocabulary read_ranks(const fs::path& path, std::optional<Pattern> pattern) {
  Collector collector;
  const std::string text = read_small_file(path);
  refuse_stand_in(path, text);
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    auto [bytes, rank] = read_rank(line);
    if (bytes.empty())
      refuse_line(path, number, "a line of a file of ranks is a token in Base64, a space and its number");
    try {
      collector.add_token(rank, std::move(bytes));
    } catch (const Error& error) {
      refuse_line(path, number, error.message());
    }
  });
  if (!pattern) {
    throw Error::input(str(path.string(), ": a file of ranks does not say by which pattern its tokenizer cuts words; ",
                           "write data.tokenizer.pattern: gpt2, cl100k or llama3"));
  }
  try {
    merge_all_splits(collector);
  } catch (const Error& error) {
    throw Error::input(str(path.string(), ": ", error.message()));
  }
  collector.vocabulary.pattern = *pattern;
  collector.vocabulary.words_are_tokens = true;
  return std::move(collector.vocabulary);
}

// Throws where the same two merge twice: the first of them counts here, and the last one in tokenizers.
void read_merge_list(const JsonFields& model, Collector& collector) {
  std::set<std::pair<Token, Token>> seen;
  std::size_t number = 0;
  for (const auto& merge : model.list("merges")) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const auto pair = merge.is_string() ? collector.read_merge(merge.get<std::string>())
                      : is_pair         ? collector.read_pair(merge[0].get<std::string>(), merge[1].get<std::string>())
                                        : std::nullopt;
    std::string why = pair ? collector.add_merge(pair->first, pair->second) : "is not two tokens";
    if (why.empty()) {
      const Merge& last = collector.vocabulary.merges.back();
      if (!seen.emplace(last.left, last.right).second) why = "comes twice";
    }
    if (!why.empty()) model.refuse(str("model.merges[", number, "] ", why));
    ++number;
  }
}

// The file that `path` means, and the one beside it that completes it, if it needs one.
std::pair<fs::path, fs::path> find_files(const fs::path& path) {
  constexpr std::pair<const char*, const char*> pairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
  if (fs::is_directory(path)) {
    if (fs::exists(path / "tokenizer.json")) return {path / "tokenizer.json", {}};
    for (const auto& [vocabulary, merges] : pairs) {
      if (fs::exists(path / vocabulary)) return {path / vocabulary, path / merges};
    }
    throw Error::input(str(path.string(),
                           ": holds neither tokenizer.json nor vocab.json with merges.txt nor encoder.json "
                           "with vocab.bpe; name the file itself"));
  }
  for (const auto& [vocabulary, merges] : pairs) {
    if (path.filename() == vocabulary || path.filename() == merges) {
      return {path.parent_path() / vocabulary, path.parent_path() / merges};
    }
  }
  return {path, {}};
}

}  // namespace

std::vector<fs::path> bpe_files(const fs::path& path) {
  const auto [file, merges] = find_files(path);
  return merges.empty() ? std::vector{file} : std::vector{file, merges};
}

JsonFields open_tokenizer_json(const fs::path& path) { return {path, std::string(remedy)}; }

BpeVocabulary read_bpe(const JsonFields& json, std::optional<Pattern> pattern) {
  Collector collector;
  BpeVocabulary& vocabulary = collector.vocabulary;
  read_hugging_face_rules(json, vocabulary);
  if (pattern && (*pattern != vocabulary.pattern || vocabulary.characters)) {
    json.refuse("its pre_tokenizer is not data.tokenizer.pattern; leave that setting out");
  }
  std::map<std::string, Token> added;
  std::set<Token> numbers;
  for (const JsonFields& one : json.has("added_tokens") ? json.sections("added_tokens") : std::vector<JsonFields>()) {
    const auto token = static_cast<Token>(one.count("id", largest_token));
    vocabulary.added.push_back(read_added_token(one, token, vocabulary, true));
    const bool is_new = added.emplace(vocabulary.added.back().name, token).second;
    if (!is_new) one.refuse_value("content", "a name that no other added token has");
    if (!numbers.insert(token).second) one.refuse_value("id", "a number that no other added token has");
  }
  const JsonFields model = json.section("model");
  add_named_tokens(model.section("vocab"), collector, added);
  for (const AddedToken& one : vocabulary.added) {
    if (one.token < vocabulary.tokens.size() && !vocabulary.tokens[one.token].empty()) {
      json.refuse(str("added_tokens gives ", quote(one.name), " the number of another token, ", one.token));
    }
    vocabulary.tokens.resize(std::max<std::size_t>(vocabulary.tokens.size(), std::size_t{one.token} + 1));
  }
  read_merge_list(model, collector);
  if (vocabulary.first_token && !vocabulary.find_added(vocabulary.first_token)) {
    json.refuse(
        str("its post_processor puts the token ", *vocabulary.first_token, " in front, which added_tokens lacks"));
  }
  return std::move(collector.vocabulary);
}

BpeVocabulary read_bpe(const fs::path& path, std::optional<Pattern> pattern) {
  refuse_if_pickle(path);
  const auto [file, merges] = find_files(path);
  if (!merges.empty()) {
    BpeVocabulary vocabulary = read_vocabulary_and_merges(file, merges);
    vocabulary.pattern = pattern.value_or(Pattern::gpt2);
    return vocabulary;
  }
  if (file.extension() == ".json") return read_bpe(open_tokenizer_json(file), pattern);
  return read_ranks(file, pattern);
}

}  // namespace inkling
