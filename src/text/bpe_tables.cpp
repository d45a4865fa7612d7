#include "text/bpe_tables.h"

#include <numeric>

namespace inkling {

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
