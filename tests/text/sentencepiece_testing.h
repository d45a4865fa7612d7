// Sentencepiece models as folders made elsewhere hold them: pieces and settings are messages that can be put behind a
// model's own.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "tests/text/text_testing.h"

namespace inkling {

// A field of a protocol buffer: a number below 128, or a text or message below 128 bytes.
inline std::string proto_number(int field, int number) {
  std::string bytes;
  if (field >= 16) bytes += static_cast<char>((field << 3 & 0x7f) | 0x80);
  bytes += static_cast<char>(field >= 16 ? field >> 4 : field << 3);
  return bytes + static_cast<char>(number);
}
inline std::string proto_bytes(int field, const std::string& bytes) {
  return static_cast<char>(field << 3 | 2) + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

enum ProtoType : int { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5 };

inline std::string piece(const std::string& name, ProtoType type, float score = 0) {
  std::string bits(sizeof score, '\0');
  std::memcpy(bits.data(), &score, sizeof score);
  return proto_bytes(1, proto_bytes(1, name) + "\x15" + bits + proto_number(3, type));
}
inline std::string trainer_flag(int field, int value) { return proto_bytes(2, proto_number(field, value)); }
inline std::string normalizer_flag(int field, int value) { return proto_bytes(3, proto_number(field, value)); }
inline const std::string dummy_prefix = normalizer_flag(3, 1);

// The serialized model of one that inkling trains: 340 pieces, </s> among them.
inline std::string trained_model(PieceModel type) {
  static std::map<PieceModel, std::string> models;
  std::string& model = models[type];
  if (model.empty()) {
    const TemporaryFolder folder;
    train({.vocab_size = 340, .model_type = type}, sample_text(200), true)->save(folder.path());
    model = read_file(folder / "tokenizer.model");
  }
  return model;
}

// The same with <s>, and with a space in front of every text, as Llama 2 has it.
inline std::string model_like_llama(PieceModel type = PieceModel::bpe) {
  return trained_model(type) + piece("<s>", control) + dummy_prefix;
}

}  // namespace inkling
