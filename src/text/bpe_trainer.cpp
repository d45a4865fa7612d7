#include "text/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "text/bpe_vocabulary.h"
#include "text/pattern.h"

namespace inkling {

namespace {

// A longer word is learned from in pieces: no token becomes so long, and lists of places stay short.
constexpr std::size_t longest_piece = 1024;

// Two neighbouring tokens, how often they come, and the words that have had them.
struct Pair {
  Token left, right;
  std::int64_t count = 0;
  std::vector<std::uint32_t> words = {};
};

// The pairs that have come so far, found by their tokens.
class Pairs {
 public:
  Pairs() : places_(std::size_t{1} << 16) {}

  // The number of the pair, which it gets here if it is new.
  std::uint32_t number(Token left, Token right) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = place(left, right) & mask;
    for (; places_[at] != 0; at = (at + 1) & mask) {
      const Pair& known = pairs[places_[at] - 1];
      if (known.left == left && known.right == right) return places_[at] - 1;
    }
    pairs.push_back({left, right});
    places_[at] = static_cast<std::uint32_t>(pairs.size());
    if (2 * pairs.size() > places_.size()) grow();
    return static_cast<std::uint32_t>(pairs.size() - 1);
  }

  std::vector<Pair> pairs;

 private:
  static std::size_t place(Token left, Token right) {
    return (std::uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15ULL >> 24;
  }

  void grow() {
    places_.assign(2 * places_.size(), 0);
    const std::size_t mask = places_.size() - 1;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      std::size_t at = place(pairs[i].left, pairs[i].right) & mask;
      while (places_[at] != 0) at = (at + 1) & mask;
      places_[at] = static_cast<std::uint32_t>(i + 1);
    }
  }

  std::vector<std::uint32_t> places_;  // a pair's number + 1, or 0
};

// The words as tokens, which become fewer with every merge.
class Learner {
 public:
  explicit Learner(const WordCounts& words) {
    std::array<Token, 256> token_of{};
    const std::string bytes = bytes_by_sign();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      token_of[static_cast<unsigned char>(bytes[i])] = static_cast<Token>(i);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words_.push_back({tokens_.size(), words.word(i).size(), static_cast<std::int64_t>(words.count(i))});
      for (const char byte : words.word(i)) tokens_.push_back(token_of[static_cast<unsigned char>(byte)]);
      for (std::size_t at = tokens_.size() - words.word(i).size() + 1; at < tokens_.size(); ++at) {
        add(tokens_[at - 1], tokens_[at], static_cast<std::uint32_t>(i), words_.back().count);
      }
    }
    for (std::uint32_t i = 0; i < pairs_.pairs.size(); ++i) offer(i);
  }

  // Makes `token` of the pair that comes most often and returns the pair; false if none comes twice.
  bool merge_next(Token token, Merge& merge) {
    while (!queue_.empty()) {
      const auto [count, left, right, number] = queue_.top();
      queue_.pop();
      if (pairs_.pairs[number].count != count) {  // it has become rarer since it was offered
        offer(number);
        continue;
      }
      merge = {pairs_.pairs[number].left, pairs_.pairs[number].right, token};
      const std::size_t first_new = pairs_.pairs.size();
      const std::vector<std::uint32_t> words = std::move(pairs_.pairs[number].words);
      for (const std::uint32_t word : words) merge_in(word, merge);
      pairs_.pairs[number] = {merge.left, merge.right};
      for (auto i = static_cast<std::uint32_t>(first_new); i < pairs_.pairs.size(); ++i) offer(i);
      return true;
    }
    return false;
  }

 private:
  struct Word {
    std::size_t begin, length;  // in tokens_
    std::int64_t count;
  };

  void add(Token left, Token right, std::uint32_t word, std::int64_t count) {
    Pair& pair = pairs_.pairs[pairs_.number(left, right)];
    pair.count += count;
    if (count > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
  }

  void offer(std::uint32_t number) {
    const Pair& pair = pairs_.pairs[number];
    if (pair.count >= 2) queue_.emplace(pair.count, ~pair.left, ~pair.right, number);
  }

  // Merges the pair in a word from left to right.
  void merge_in(std::uint32_t number, const Merge& merge) {
    Word& word = words_[number];
    Token* const tokens = tokens_.data() + word.begin;
    std::size_t kept = 0;
    for (std::size_t at = 0; at < word.length; ++at, ++kept) {
      if (tokens[at] != merge.left || at + 1 == word.length || tokens[at + 1] != merge.right) {
        tokens[kept] = tokens[at];
        continue;
      }
      if (kept > 0) {
        add(tokens[kept - 1], merge.left, number, -word.count);
        add(tokens[kept - 1], merge.result, number, word.count);
      }
      if (at + 2 < word.length) {
        add(merge.right, tokens[at + 2], number, -word.count);
        add(merge.result, tokens[at + 2], number, word.count);
      }
      tokens[kept] = merge.result;
      ++at;
    }
    word.length = kept;
  }

  std::vector<Token> tokens_;
  std::vector<Word> words_;
  Pairs pairs_;
  // By count, then by the smaller tokens, which ~ makes the larger ones; and the pair's number.
  std::priority_queue<std::tuple<std::int64_t, Token, Token, std::uint32_t>> queue_;
};

constexpr std::size_t first_places = 1 << 16;
// Every word costs something besides its bytes.
constexpr std::size_t bytes_beside_a_word = 8;

std::uint64_t hash_of(std::string_view word) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15ULL;
  std::uint64_t hash = word.size();
  while (word.size() >= 8) {
    std::uint64_t block = 0;
    std::memcpy(&block, word.data(), 8);
    hash = (hash ^ block) * factor;
    hash ^= hash >> 29;
    word.remove_prefix(8);
  }
  std::uint64_t block = 0;
  std::memcpy(&block, word.data(), word.size());
  hash = (hash ^ block) * factor;
  return hash ^ hash >> 32;
}

}  // namespace

BpeTrainer::BpeTrainer(Pattern pattern, std::size_t most_bytes) : pattern_(pattern), words_(most_bytes) {}

void BpeTrainer::add(std::string_view part) {
  PatternScanner scanner(pattern_, part);
  const char* begin = part.data();
  for (auto ends = scanner.next(); !ends.empty(); ends = scanner.next()) {
    for (const char* const end : ends) {
      std::string_view word(begin, static_cast<std::size_t>(end - begin));
      for (; word.size() > longest_piece; word.remove_prefix(longest_piece)) words_.add(word.substr(0, longest_piece));
      words_.add(word);
      begin = end;
    }
  }
}

BpeVocabulary BpeTrainer::finish(std::size_t most_tokens, const std::function<void(std::size_t)>& progress) const {
  BpeVocabulary vocabulary;
  vocabulary.pattern = pattern_;
  for (const char byte : bytes_by_sign()) vocabulary.tokens.emplace_back(1, byte);
  if (progress) progress(vocabulary.tokens.size());  // learning begins with a pass over all words
  Learner learner(words_);
  Merge merge{};
  while (vocabulary.tokens.size() < most_tokens &&
         learner.merge_next(static_cast<Token>(vocabulary.tokens.size()), merge)) {
    vocabulary.tokens.push_back(vocabulary.tokens[merge.left] + vocabulary.tokens[merge.right]);
    vocabulary.merges.push_back(merge);
    if (progress) progress(vocabulary.tokens.size());
  }
  return vocabulary;
}

WordCounts::WordCounts(std::size_t most_bytes) : most_bytes_(most_bytes), places_(first_places) {}

std::size_t WordCounts::place(std::uint64_t hash, std::string_view word) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash & mask;
  while (places_[at] != 0) {
    const Word& known = words_[places_[at] - 1];
    if (known.hash == hash && known.length == word.size() &&
        std::memcmp(text_.data() + known.begin, word.data(), word.size()) == 0) {
      break;
    }
    at = (at + 1) & mask;
  }
  return at;
}

void WordCounts::add(std::string_view word) {
  const std::uint64_t hash = hash_of(word);
  std::size_t at = place(hash, word);
  if (places_[at] != 0) {
    ++words_[places_[at] - 1].count;
    return;
  }
  while (text_.size() + bytes_beside_a_word * words_.size() + word.size() > most_bytes_ && !words_.empty()) {
    forget_rare();
    at = place(hash, word);
  }
  words_.push_back({hash, 1, static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(word.size())});
  text_ += word;
  places_[at] = static_cast<std::uint32_t>(words_.size());
  if (2 * words_.size() > places_.size()) rebuild(2 * places_.size());
}

void WordCounts::rebuild(std::size_t places) {
  places_.assign(places, 0);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t at = words_[i].hash & (places - 1);
    while (places_[at] != 0) at = (at + 1) & (places - 1);
    places_[at] = static_cast<std::uint32_t>(i + 1);
  }
}

void WordCounts::forget_rare() {
  ++forgotten_count_;
  std::size_t end = 0;
  std::string text;
  for (const Word& known : words_) {
    if (known.count <= forgotten_count_) continue;
    Word kept = known;
    kept.begin = static_cast<std::uint32_t>(text.size());
    text.append(text_, known.begin, known.length);
    words_[end++] = kept;
  }
  words_.resize(end);
  text_ = std::move(text);
  rebuild(places_.size());
}

}  // namespace inkling
