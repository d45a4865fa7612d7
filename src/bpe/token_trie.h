// The tokens that a text begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// A tree of bytes. The nodes that two bytes lead to are found at once, the edges behind them in one hash table.
class TokenTrie {
 public:
  static constexpr Token no_token = ~Token{0};
  static constexpr std::size_t most_bytes = (std::size_t{1} << 24) - 1;  // of all tokens: nodes have numbers of 24 bits

  // The tree of the tokens whose bytes are not empty; of two with the same bytes the first counts.
  explicit TokenTrie(const std::vector<std::string>& bytes_of_token);

  Token find(std::string_view bytes) const;           // the token of exactly these bytes, or no_token
  Token longest_prefix(std::string_view text) const;  // the longest token that `text` begins with, or no_token
  // The longest token, shorter than itself, that this one begins with, or no_token.
  Token shorter(Token token) const { return shorter_[token]; }

 private:
  struct Node {
    std::uint32_t number;  // 0: there is none
    Token token;           // that ends here, or no_token
  };
  struct Edge {
    std::uint32_t from_and_byte;  // node << 8 | byte
    Node to;
  };

  void insert(std::string_view bytes, Token token);
  Node follow(std::string_view text, Token* longest) const;

  static std::size_t pair_of(std::string_view text) {
    return std::size_t{static_cast<unsigned char>(text[0])} << 8 | static_cast<unsigned char>(text[1]);
  }
  static std::uint32_t edge_key(std::uint32_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }
  // Where the edge is, or where it would go.
  std::size_t place(std::uint32_t from_and_byte) const {
    std::size_t at = (from_and_byte * 0x9e3779b1U >> 3) & mask_;
    while (edges_[at].to.number != 0 && edges_[at].from_and_byte != from_and_byte) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Token> bytes_;  // the tokens of a single byte
  std::vector<Node> pairs_;   // by the first two bytes
  std::vector<Edge> edges_;
  std::size_t mask_;
  std::uint32_t node_count_ = 0;
  std::vector<Token> shorter_;
};

}  // namespace inkling
