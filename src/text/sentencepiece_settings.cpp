#include "text/sentencepiece_settings.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

namespace inkling {

namespace {

// The field numbers of the messages ModelProto, SentencePiece, TrainerSpec and NormalizerSpec.
constexpr std::uint64_t pieces = 1, piece_score = 2;
constexpr std::uint64_t trainer_spec = 2, normalizer_spec = 3;
constexpr std::uint64_t model_type = 3, model_type_bpe = 2;
constexpr std::uint64_t precompiled_charsmap = 2, add_dummy_prefix = 3, remove_extra_whitespaces = 4;

// A protocol buffer's number of seven bits a byte; reading behind the end gives zeros.
std::uint64_t take_number(std::string_view& rest) {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) break;
  }
  return number;
}

std::string_view take_bytes(std::string_view& rest, std::uint64_t count) {
  const std::string_view bytes = rest.substr(0, count < rest.size() ? static_cast<std::size_t>(count) : rest.size());
  rest.remove_prefix(bytes.size());
  return bytes;
}

// Calls visit(field, number, bytes) for the fields of a message: `number` of those that are numbers, `bytes` of
// those that are texts, messages or of fixed length.
void for_each_field(std::string_view message,
                    const std::function<void(std::uint64_t, std::uint64_t, std::string_view)>& visit) {
  while (!message.empty()) {
    const std::uint64_t key = take_number(message), kind = key & 7;
    if (kind == 0) {
      visit(key >> 3, take_number(message), {});
    } else if (kind == 2) {
      const std::uint64_t length = take_number(message);
      visit(key >> 3, 0, take_bytes(message, length));
    } else {
      visit(key >> 3, 0, take_bytes(message, kind == 1 ? 8 : 4));
    }
  }
}

}  // namespace

SentencepieceSettings read_sentencepiece_settings(std::string_view serialized) {
  SentencepieceSettings settings;
  for_each_field(serialized, [&](std::uint64_t section, std::uint64_t, std::string_view message) {
    for_each_field(section == trainer_spec || section == normalizer_spec ? message : "",
                   [&](std::uint64_t field, std::uint64_t number, std::string_view bytes) {
                     if (section == trainer_spec && field == model_type) settings.is_bpe = number == model_type_bpe;
                     if (section == trainer_spec) return;
                     if (field == precompiled_charsmap) settings.normalizes = !bytes.empty();
                     if (field == add_dummy_prefix) settings.add_dummy_prefix = number != 0;
                     if (field == remove_extra_whitespaces) settings.remove_extra_whitespaces = number != 0;
                   });
  });
  return settings;
}

std::string with_rounded_scores(std::string serialized) {
  const std::string_view model = serialized;
  for_each_field(model, [&](std::uint64_t section, std::uint64_t, std::string_view message) {
    if (section != pieces) return;
    for_each_field(message, [&](std::uint64_t field, std::uint64_t, std::string_view bytes) {
      float score = 0;
      if (field != piece_score || bytes.size() != sizeof score) return;
      std::memcpy(&score, bytes.data(), sizeof score);
      score = std::round(score * 256) / 256;
      std::memcpy(serialized.data() + (bytes.data() - model.data()), &score, sizeof score);
    });
  });
  return serialized;
}

}  // namespace inkling
