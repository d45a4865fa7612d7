// Why encode_word() may go from left to right: a sequence of tokens is what the merges make of a word exactly if each
// token is what they make of its own bytes, and no two neighbours would have merged across their border before they
// themselves were made (van Antwerpen and Neubeck, "So many tokens, so little time", 2024). So the longest token that
// fits behind the tokens so far is taken, then a shorter one where no rest fits behind it; a place from which nothing
// fits is tried once.

#include "text/bpe_encoder.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr Token no_token = TokenTrie::no_token;

void check_merges(const BpeVocabulary& vocabulary) {
  const auto bytes = [&](Token token) -> std::string_view {
    return token < vocabulary.tokens.size() ? std::string_view(vocabulary.tokens[token]) : std::string_view();
  };
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const Merge& merge = vocabulary.merges[rank];
    const std::string_view left = bytes(merge.left), right = bytes(merge.right), result = bytes(merge.result);
    const bool fits = !left.empty() && !right.empty() && result.size() == left.size() + right.size() &&
                      result.starts_with(left) && result.ends_with(right);
    if (!fits) throw Error::input(str("merge ", rank + 1, " does not make the token it names"));
  }
}

// Of the one that `text` begins with, which is not empty.
std::size_t first_length(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && continues_character(text[length])) ++length;
  return length;
}

bool is_character(std::string_view bytes) { return !bytes.empty() && first_length(bytes) == bytes.size(); }

// The places in a word from which no tokens reach its end.
class DeadPlaces {
 public:
  explicit DeadPlaces(std::size_t length) {
    if (length >= 64) later_.resize(length + 1 - 64);
  }
  bool has(std::size_t place) const { return place < 64 ? first_ >> place & 1 : later_[place - 64]; }
  void add(std::size_t place) {
    place < 64 ? void(first_ |= std::uint64_t{1} << place) : void(later_[place - 64] = true);
  }

 private:
  std::uint64_t first_ = 0;
  std::vector<bool> later_;
};

}  // namespace

BpeEncoder::BpeEncoder(const BpeVocabulary& vocabulary)
    : pattern_(vocabulary.pattern),
      of_characters_(vocabulary.characters.has_value()),
      pairs_(vocabulary.merges.size()),
      origins_(vocabulary.tokens.size()) {
  std::size_t total_bytes = 0;
  for (const std::string& bytes : vocabulary.tokens) total_bytes += bytes.size();
  if (total_bytes > TokenTrie::most_bytes) {
    throw Error::input(str("its tokens have ", format_bytes(total_bytes), " together, and inkling takes ",
                           format_bytes(TokenTrie::most_bytes)));
  }
  for (const std::string& bytes : vocabulary.tokens) lengths_.push_back(static_cast<std::uint32_t>(bytes.size()));
  find_byte_tokens(vocabulary);
  check_merges(vocabulary);
  find_origins(vocabulary);
  if (vocabulary.words_are_tokens) words_.emplace(vocabulary.tokens);
}

void BpeEncoder::find_byte_tokens(const BpeVocabulary& vocabulary) {
  byte_tokens_.fill(no_token);
  if (const auto& rules = vocabulary.characters) {
    cuts_lines_ = rules->cuts_lines;
    cuts_spaces_ = rules->cuts_spaces;
    spells_bytes_ = rules->byte_tokens.has_value();
    if (spells_bytes_) byte_tokens_ = *rules->byte_tokens;
    return;
  }
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    const std::string& bytes = vocabulary.tokens[token];
    if (bytes.size() != 1) continue;
    Token& byte_token = byte_tokens_[static_cast<unsigned char>(bytes[0])];
    if (byte_token == no_token) byte_token = static_cast<Token>(token);
  }
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    if (byte_tokens_[byte] == no_token) throw Error::input(str("no token stands for the byte ", byte));
  }
}

void BpeEncoder::find_origins(const BpeVocabulary& vocabulary) {
  std::vector<bool> made(vocabulary.tokens.size(), false), waits(vocabulary.tokens.size(), false);
  for (std::size_t token = 0; token < made.size(); ++token) {
    const std::string& bytes = vocabulary.tokens[token];
    made[token] = of_characters_ ? is_character(bytes) : bytes.size() == 1;
  }
  if (of_characters_ && spells_bytes_) {
    for (const Token token : byte_tokens_) made[token] = false;  // no character, though it stands for the bytes of one
  }
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto [left, right, result] = vocabulary.merges[i];
    const auto rank = static_cast<std::uint32_t>(i);
    pairs_.insert(left, right, rank, result);
    if (made[result]) continue;
    if (!made[left] || !made[right]) {
      waits[result] = true;
    } else if (stay_apart(left, right, rank)) {
      origins_[result] = {left, right, rank};
      made[result] = true;
    }
  }
  // A token all of whose merges come before their parts can be there is made later than its place in the list says.
  for (const auto& [left, right, result] : vocabulary.merges) {
    if (waits[result] && !made[result]) in_order_ = false;
  }
  std::vector<std::string> reachable = vocabulary.tokens;
  for (std::size_t token = 0; token < made.size(); ++token) {
    if (!made[token]) reachable[token].clear();
  }
  reachable_.emplace(reachable);
}

// Whether nothing merges across the border of the two before the merge number `before`: undoes their own merges, the
// latest first. Of equal merges the one further left is done first.
bool BpeEncoder::stay_apart(Token left, Token right, std::int64_t before) const {
  while (true) {
    const PairTable::Entry* const pair = pairs_.find(left, right);
    if (pair != nullptr && pair->rank < before) return false;
    const Origin& left_origin = origins_[left];
    const Origin& right_origin = origins_[right];
    if (left_origin.rank < 0 && right_origin.rank < 0) return true;
    if (left_origin.rank > right_origin.rank) {
      before = left_origin.rank;
      left = left_origin.right;
    } else {
      before = right_origin.rank + 1;
      right = right_origin.left;
    }
  }
}

void BpeEncoder::encode_word(std::string_view word, std::vector<Token>& tokens) const {
  constexpr std::int64_t always = std::int64_t{1} << 40;
  const std::size_t first = tokens.size();
  DeadPlaces dead(word.size());
  std::size_t at = 0;
  Token next = reachable_->longest_prefix(word);
  Token fitting_left = no_token, fitting_right = no_token;  // the last two that fitted: long words repeat themselves
  while (at < word.size()) {
    const auto fits = [&] {
      if (dead.has(at + lengths_[next])) return false;
      if (tokens.size() == first || (tokens.back() == fitting_left && next == fitting_right)) return true;
      if (!stay_apart(tokens.back(), next, always)) return false;
      fitting_left = tokens.back();
      fitting_right = next;
      return true;
    };
    while (next != no_token && !fits()) next = reachable_->shorter(next);
    if (next != no_token) {
      tokens.push_back(next);
      at += lengths_[next];
      next = reachable_->longest_prefix(word.substr(at));
    } else {
      dead.add(at);
      next = tokens.back();
      tokens.pop_back();
      at -= lengths_[next];
    }
  }
}

void BpeEncoder::merge_word(std::string_view word, std::vector<Token>& tokens) const {
  struct Symbol {
    Token token;
    std::size_t before, behind;  // the neighbours' places
  };
  constexpr std::size_t none = ~std::size_t{0};
  std::vector<Symbol> symbols;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = of_characters_ ? first_length(word.substr(at)) : 1;
    symbols.push_back({reachable_->find(word.substr(at, length)), symbols.size() - 1, symbols.size() + 1});
    at += length;
  }
  if (!symbols.empty()) symbols.back().behind = none;
  using Candidate = std::tuple<std::uint32_t, std::size_t, Token, Token>;  // rank, place of the left one, the two
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t left) {
    if (left == none || symbols[left].behind == none) return;
    const Token first = symbols[left].token, second = symbols[symbols[left].behind].token;
    if (const auto* pair = pairs_.find(first, second)) queue.emplace(pair->rank, left, first, second);
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, left, first, second] = queue.top();
    queue.pop();
    const std::size_t right = symbols[left].behind;
    // One of the two has been merged since.
    if (symbols[left].token != first || right == none || symbols[right].token != second) continue;
    symbols[left].token = pairs_.find(first, second)->result;
    symbols[left].behind = symbols[right].behind;
    symbols[right].token = no_token;
    if (symbols[left].behind != none) symbols[symbols[left].behind].before = left;
    consider(symbols[left].before);
    consider(left);
  }
  for (std::size_t i = 0; i < symbols.size(); i = symbols[i].behind) tokens.push_back(symbols[i].token);
}

void BpeEncoder::encode(std::string_view text, std::vector<Token>& tokens) const {
  of_characters_ ? encode_characters(text, tokens) : encode_words(text, tokens);
}

void BpeEncoder::encode_characters(std::string_view text, std::vector<Token>& tokens) const {
  while (!text.empty()) {
    std::size_t end = 0;  // of the word: a run of characters that have tokens
    for (bool is_cut = false; end < text.size() && !is_cut;) {
      const std::size_t length = first_length(text.substr(end));
      if ((cuts_spaces_ && end > 0 && text[end] == ' ') || !is_known(text.substr(end, length))) break;
      is_cut = cuts_lines_ && text[end] == '\n';
      end += length;
    }
    const std::string_view word = text.substr(0, end);
    in_order_ ? encode_word(word, tokens) : merge_word(word, tokens);
    if (end == 0) {
      end = first_length(text);
      for (std::size_t i = 0; i < end && spells_bytes_; ++i) {
        tokens.push_back(byte_tokens_[static_cast<unsigned char>(text[i])]);
      }
    }
    text.remove_prefix(end);
  }
}

void BpeEncoder::encode_words(std::string_view text, std::vector<Token>& tokens) const {
  std::unique_ptr<WordCache> cache;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_caches_.empty()) {
      cache = std::move(idle_caches_.back());
      idle_caches_.pop_back();
    }
  }
  if (!cache) cache = std::make_unique<WordCache>();

  const auto encode_anew = [&](std::string_view word) {
    const Token whole = words_ ? words_->find(word) : no_token;
    if (whole != no_token) {
      tokens.push_back(whole);
    } else if (in_order_) {
      encode_word(word, tokens);
    } else {
      merge_word(word, tokens);
    }
  };
  PatternScanner scanner(pattern_, text);
  const char* word = text.data();
  const char* const text_end = text.data() + text.size();
  for (auto ends = scanner.next(); !ends.empty(); ends = scanner.next()) {
    for (const char* const end : ends) {
      const auto length = static_cast<std::size_t>(end - word);
      if (length > WordCache::longest_word) {
        encode_anew({word, length});
      } else {
        const auto key = WordCache::key(word, length, static_cast<std::size_t>(text_end - word));
        const std::span<const Token> known = cache->find(key);
        if (!known.empty()) {
          for (const Token token : known) tokens.push_back(token);
        } else {
          const std::size_t before = tokens.size();
          encode_anew({word, length});
          cache->insert(key, std::span(tokens).subspan(before));
        }
      }
      word = end;
    }
  }
  const std::lock_guard lock(mutex_);
  idle_caches_.push_back(std::move(cache));
}

TokenTrie::TokenTrie(const std::vector<std::string>& bytes_of_token)
    : bytes_(256, no_token), pairs_(1 << 16, Node{0, no_token}) {
  const auto more = [](std::size_t sum, const std::string& bytes) { return sum + bytes.size(); };
  const std::size_t most_edges = std::accumulate(bytes_of_token.begin(), bytes_of_token.end(), std::size_t{0}, more);
  std::size_t size = 16;
  while (size < most_edges * 3 / 2) size *= 2;
  edges_.resize(size, Edge{0, {0, no_token}});
  mask_ = size - 1;
  for (std::size_t token = 0; token < bytes_of_token.size(); ++token) {
    if (!bytes_of_token[token].empty()) insert(bytes_of_token[token], static_cast<Token>(token));
  }
  shorter_.assign(bytes_of_token.size(), no_token);
  for (std::size_t token = 0; token < bytes_of_token.size(); ++token) {
    const std::string_view bytes = bytes_of_token[token];
    if (bytes.size() > 1) shorter_[token] = longest_prefix(bytes.substr(0, bytes.size() - 1));
  }
}

void TokenTrie::insert(std::string_view bytes, Token token) {
  Token* end = &bytes_[static_cast<unsigned char>(bytes[0])];
  if (bytes.size() > 1) {
    Node* node = &pairs_[pair_of(bytes)];
    if (node->number == 0) node->number = ++node_count_;
    for (const char byte : bytes.substr(2)) {
      Edge& edge = edges_[place(edge_key(node->number, byte))];
      if (edge.to.number == 0) edge = {edge_key(node->number, byte), {++node_count_, no_token}};
      node = &edge.to;
    }
    end = &node->token;
  }
  if (*end == no_token) *end = token;
}

// Follows `text`, which is not empty, to its end or as far as the tree goes (the node's number is 0 then), and notes
// the longest token on the way.
TokenTrie::Node TokenTrie::follow(std::string_view text, Token* longest) const {
  *longest = bytes_[static_cast<unsigned char>(text[0])];
  if (text.size() == 1) return {0, *longest};
  Node node = pairs_[pair_of(text)];
  for (std::size_t i = 2; node.number != 0; ++i) {
    if (node.token != no_token) *longest = node.token;
    if (i == text.size()) break;
    node = edges_[place(edge_key(node.number, text[i]))].to;
  }
  return node;
}

Token TokenTrie::find(std::string_view bytes) const {
  Token longest = no_token;
  const Node node = follow(bytes, &longest);
  return bytes.size() == 1 || node.number != 0 ? node.token : no_token;
}

Token TokenTrie::longest_prefix(std::string_view text) const {
  Token longest = no_token;
  if (!text.empty()) follow(text, &longest);
  return longest;
}

}  // namespace inkling
