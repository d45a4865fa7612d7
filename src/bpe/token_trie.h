// The tokens that a text begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// A tree of bytes, whose edges lie in one hash table.
class TokenTrie {
 public:
  static constexpr Token no_token = ~Token{0};

  explicit TokenTrie(std::size_t most_bytes = 0);  // of all tokens together

  void insert(std::string_view bytes, Token token);  // `bytes` is not empty; of two tokens the first stays

  Token find(std::string_view bytes) const;           // the token of exactly these bytes, or no_token
  Token longest_prefix(std::string_view text) const;  // the longest token that `text` begins with, or no_token
  // The longest token, shorter than itself, that this token begins with, or no_token.
  Token shorter(Token token) const { return token < shorter_.size() ? shorter_[token] : no_token; }
  // To be called once, behind the last insert(): makes shorter() known.
  void link(const std::vector<std::string>& bytes_of_token);

 private:
  struct Edge {
    std::uint32_t from_and_byte;  // node << 8 | byte
    std::uint32_t to;             // 0: this place is empty
  };

  // Where the edge is, or where it would go.
  std::size_t place(std::uint32_t from_and_byte) const {
    std::size_t at = (from_and_byte * 0x9e3779b1U >> 3) & mask_;
    while (edges_[at].to != 0 && edges_[at].from_and_byte != from_and_byte) at = (at + 1) & mask_;
    return at;
  }
  static std::uint32_t key(std::uint32_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }

  std::vector<Edge> edges_;
  std::vector<Token> tokens_;  // by node; node 0 is the root
  std::vector<Token> shorter_;
  std::size_t mask_;
};

}  // namespace inkling
