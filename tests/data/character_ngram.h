// A character model that sees only the last few characters: it shows how far one gets on the fables without attention.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace inkling {

// Interpolated Witten-Bell estimates of all orders up to `order` (Witten and Bell 1991): an n-gram and the shorter one
// below it share the probability in proportion to how often a context occurred and how many different characters
// followed it. Texts are ASCII, and each begins and ends with the separator, character 0.
class CharacterNgram {
 public:
  explicit CharacterNgram(int order) : contexts_(static_cast<std::size_t>(order)) {}

  void train(std::string_view text) {
    for_each_character(text, [&](std::uint64_t history, unsigned char c) {
      for (std::size_t length = 0; length < contexts_.size(); ++length) {
        Followers& followers = contexts_[length][last(history, length)];
        followers.total += 1;
        followers.kinds += followers.counts[c] == 0;
        followers.counts[c] += 1;
      }
    });
  }

  // The -log probability of the text and the separator after it, in nats.
  double nats(std::string_view text) const {
    double sum = 0;
    for_each_character(text, [&](std::uint64_t history, unsigned char c) {
      double probability = 1.0 / 128;
      for (std::size_t length = 0; length < contexts_.size(); ++length) {
        const auto found = contexts_[length].find(last(history, length));
        if (found == contexts_[length].end()) break;
        const Followers& followers = found->second;
        probability = (followers.counts[c] + followers.kinds * probability) / (followers.total + followers.kinds);
      }
      sum -= std::log(probability);
    });
    return sum;
  }

 private:
  struct Followers {
    std::array<std::uint32_t, 128> counts{};
    double total = 0, kinds = 0;
  };

  template <typename Visit>
  static void for_each_character(std::string_view text, const Visit& visit) {
    std::uint64_t history = 0;  // the last characters, the newest in the lowest byte
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
      visit(history, c);
      history = history << 8 | c;
    }
  }

  static std::uint64_t last(std::uint64_t history, std::size_t length) {
    return history & ((std::uint64_t{1} << (8 * length)) - 1);
  }

  std::vector<std::unordered_map<std::uint64_t, Followers>> contexts_;  // by the length of the context
};

}  // namespace inkling
