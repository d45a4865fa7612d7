#include "bpe/token_trie.h"

#include <string>

namespace inkling {

TokenTrie::TokenTrie(std::size_t most_bytes) : tokens_(1, no_token) {
  std::size_t size = 16;
  while (size < 2 * most_bytes) size *= 2;
  edges_.resize(size, Edge{0, 0});
  mask_ = size - 1;
}

void TokenTrie::insert(std::string_view bytes, Token token) {
  std::uint32_t node = 0;
  for (const char byte : bytes) {
    Edge& edge = edges_[place(key(node, byte))];
    if (edge.to == 0) {
      edge = {key(node, byte), static_cast<std::uint32_t>(tokens_.size())};
      tokens_.push_back(no_token);
    }
    node = edge.to;
  }
  if (tokens_[node] == no_token) tokens_[node] = token;
}

Token TokenTrie::find(std::string_view bytes) const {
  std::uint32_t node = 0;
  for (const char byte : bytes) {
    node = edges_[place(key(node, byte))].to;
    if (node == 0) return no_token;
  }
  return tokens_[node];
}

Token TokenTrie::longest_prefix(std::string_view text) const {
  Token longest = no_token;
  std::uint32_t node = 0;
  for (const char byte : text) {
    node = edges_[place(key(node, byte))].to;
    if (node == 0) break;
    if (tokens_[node] != no_token) longest = tokens_[node];
  }
  return longest;
}

void TokenTrie::link(const std::vector<std::string>& bytes_of_token) {
  shorter_.assign(bytes_of_token.size(), no_token);
  for (std::size_t token = 0; token < bytes_of_token.size(); ++token) {
    const std::string_view bytes = bytes_of_token[token];
    if (bytes.size() > 1) shorter_[token] = longest_prefix(bytes.substr(0, bytes.size() - 1));
  }
}

}  // namespace inkling
