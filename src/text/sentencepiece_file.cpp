#include "text/sentencepiece_file.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "text/bpe_vocabulary.h"

namespace inkling {

namespace {

constexpr std::string_view unknown_text =
    "\xef\xbf\xbd";  // U+FFFD: no text encodes to "unknown", but it can be sampled

// The field numbers of ModelProto.
constexpr std::uint64_t pieces_field = 1, trainer_field = 2, normalizer_field = 3;

// A field of a message. `number` is its value where it is a number, `bytes` where it is a text, a message or of fixed
// length; `whole` is all of it, as the file has it.
struct Field {
  enum Kind : std::uint64_t { of_number = 0, of_8_bytes = 1, of_bytes = 2, of_4_bytes = 5 };

  std::uint64_t id, kind, number;
  std::string_view bytes, whole;
};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error::input(str(where, " ", what));
}

// A protocol buffer's number of seven bits a byte.
std::uint64_t take_number(std::string_view& rest, const std::string& where) {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) refuse(where, "ends within a number");
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return number;
  }
  refuse(where, "holds a number of more than 64 bits");
}

std::string_view take_bytes(std::string_view& rest, std::uint64_t count, const std::string& where) {
  if (count > rest.size()) refuse(where, str("ends ", count - rest.size(), " bytes too early"));
  const std::string_view bytes = rest.substr(0, static_cast<std::size_t>(count));
  rest.remove_prefix(bytes.size());
  return bytes;
}

// `where` names the message in errors.
void for_each_field(std::string_view message, const std::string& where,
                    const std::function<void(const Field&)>& visit) {
  while (!message.empty()) {
    const std::string_view begin = message;
    const std::uint64_t key = take_number(message, where);
    Field field{key >> 3, key & 7, 0, {}, {}};
    switch (field.kind) {
      case Field::of_number:
        field.number = take_number(message, where);
        break;
      case Field::of_bytes:
        field.bytes = take_bytes(message, take_number(message, where), where);
        break;
      case Field::of_8_bytes:
      case Field::of_4_bytes:
        field.bytes = take_bytes(message, field.kind == Field::of_8_bytes ? 8 : 4, where);
        break;
      default:
        refuse(where, str("holds a field of a kind that no model has, ", field.kind));
    }
    field.whole = begin.substr(0, begin.size() - message.size());
    visit(field);
  }
}

// A number as take_number() reads it.
std::string print_number(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

std::uint64_t number_of_type(PieceType type) {
  switch (type) {
    case PieceType::text:
      return 1;
    case PieceType::unknown:
      return 2;
    case PieceType::control:
      return 3;
    case PieceType::user_defined:
      return 4;
    case PieceType::byte:
      return 6;
  }
  throw Error::internal("an unknown type of piece");
}

// `number` is that of ModelProto.SentencePiece.Type.
PieceType type_of_piece(std::uint64_t number, const std::string& where) {
  switch (number) {
    case 1:
      return PieceType::text;
    case 2:
      return PieceType::unknown;
    case 3:
      return PieceType::control;
    case 4:
      return PieceType::user_defined;
    case 5:
      refuse(where + ".type", "is 5 (UNUSED), which other programs take for a piece of text");
    case 6:
      return PieceType::byte;
    default:
      refuse(where + ".type", str("is ", number, ", and must be a number from 1 to 6"));
  }
}

Piece read_piece(std::string_view message, const std::string& where) {
  Piece piece{PieceType::text, {}, {}, 0};
  for_each_field(message, where, [&](const Field& field) {
    if (field.id == 1 && field.kind == Field::of_bytes) piece.name = field.bytes;
    if (field.id == 2 && field.kind == Field::of_4_bytes) std::memcpy(&piece.score, field.bytes.data(), 4);
    if (field.id == 3 && field.kind == Field::of_number) piece.type = type_of_piece(field.number, where);
  });
  if (piece.name.empty()) refuse(where + ".piece", "is empty");
  if (piece.name.size() > longest_token) {
    refuse(where + ".piece", str("has ", piece.name.size(), " bytes, and inkling takes ", longest_token));
  }
  // The library reads names up to the first NUL.
  if (find_invalid_utf8(piece.name) || piece.name.find('\0') != std::string::npos) {
    refuse(where + ".piece", str("is ", quote(piece.name), ", and must be UTF-8 without NUL"));
  }
  if (!std::isfinite(piece.score)) refuse(where + ".score", "is not a number");
  if (piece.type == PieceType::text || piece.type == PieceType::user_defined) piece.bytes = with_spaces(piece.name);
  if (piece.type == PieceType::unknown) piece.bytes = unknown_text;
  if (piece.type == PieceType::byte) {
    const auto byte = byte_of_piece(piece.name);
    if (!byte) refuse(where + ".piece", str("is ", quote(piece.name), ", and a byte is written as \"<0x0A>\""));
    piece.bytes = *byte;
  }
  return piece;
}

void require(bool holds, const char* field, const char* is, const char* must_be) {
  if (!holds) throw Error::input(str(field, " is ", is, ", and must be ", must_be));
}

void read_trainer_spec(std::string_view message, SentencepieceFile& file) {
  for_each_field(message, "trainer_spec", [&](const Field& field) {
    if (field.kind != Field::of_number) return;
    if (field.id == 3) {
      require(field.number == 1 || field.number == 2, "trainer_spec.model_type", str(field.number).c_str(),
              "1 (UNIGRAM) or 2 (BPE)");
      file.is_bpe = field.number == 2;
    }
    if (field.id == 24) {
      require(field.number == 0, "trainer_spec.treat_whitespace_as_suffix", "true",
              "false: inkling knows a space in front of a text alone");
    }
  });
}

void read_normalizer_spec(std::string_view message, SentencepieceFile& file, bool& removes_spaces) {
  for_each_field(message, "normalizer_spec", [&](const Field& field) {
    if (field.id == 2 && field.kind == Field::of_bytes) {
      require(field.bytes.empty(), "normalizer_spec.precompiled_charsmap", "given (nmt_nfkc, say)",
              "empty: inkling encodes the text as it is");
    }
    if (field.kind != Field::of_number) return;
    if (field.id == 3) file.add_dummy_prefix = field.number != 0;
    if (field.id == 4) removes_spaces = field.number != 0;
    if (field.id == 5) {
      require(field.number != 0, "normalizer_spec.escape_whitespaces", "false",
              "true: pieces write the space as U+2581");
    }
  });
}

}  // namespace

std::string with_spaces(std::string piece) {
  for (auto at = piece.find(space_sign); at != std::string::npos; at = piece.find(space_sign, at + 1)) {
    piece.replace(at, space_sign.size(), " ");
  }
  return piece;
}

std::optional<char> byte_of_piece(const std::string& name) {
  unsigned value = 0;
  const auto is_lower = [](char letter) { return letter >= 'a' && letter <= 'f'; };
  const bool is_one =
      name.size() == 6 && name.starts_with("<0x") && name.ends_with(">") && !is_lower(name[3]) && !is_lower(name[4]);
  if (!is_one || std::from_chars(name.data() + 3, name.data() + 5, value, 16).ptr != name.data() + 5) return {};
  return static_cast<char>(value);
}

SentencepieceFile read_sentencepiece_file(std::string_view serialized) {
  SentencepieceFile file;
  bool removes_spaces = true;
  for_each_field(serialized, "the model", [&](const Field& field) {
    if (field.kind != Field::of_bytes) return;
    if (field.id == pieces_field) {
      if (file.pieces.size() > largest_token) throw Error::input(str("pieces has more than ", largest_token + 1));
      file.pieces.push_back(read_piece(field.bytes, str("pieces[", file.pieces.size(), "]")));
    }
    if (field.id == trainer_field) read_trainer_spec(field.bytes, file);
    if (field.id == normalizer_field) read_normalizer_spec(field.bytes, file, removes_spaces);
  });
  if (file.pieces.empty()) throw Error::input("pieces is missing");
  require(!removes_spaces, "normalizer_spec.remove_extra_whitespaces", "true", "false: inkling keeps every space");
  return file;
}

std::string write_sentencepiece_file(const std::vector<Piece>& pieces, bool spells_bytes) {
  const auto number_field = [](std::uint64_t id, std::uint64_t number) {
    return print_number(id << 3 | Field::of_number) + print_number(number);
  };
  const auto bytes_field = [](std::uint64_t id, std::string_view bytes) {
    return str(print_number(id << 3 | Field::of_bytes), print_number(bytes.size()), bytes);
  };
  std::string model;
  for (const Piece& piece : pieces) {
    std::string score(sizeof piece.score, 0);
    std::memcpy(score.data(), &piece.score, sizeof piece.score);
    model += bytes_field(pieces_field, bytes_field(1, piece.name) + print_number(2 << 3 | Field::of_4_bytes) + score +
                                           number_field(3, number_of_type(piece.type)));
  }
  model += bytes_field(trainer_field, number_field(3, 1) + number_field(35, spells_bytes ? 1 : 0));
  // The rule's name; then no dummy prefix, every space kept, and spaces written as their sign.
  return model + bytes_field(normalizer_field,
                             bytes_field(1, "identity") + number_field(3, 0) + number_field(4, 0) + number_field(5, 1));
}

std::string sentencepiece_to_encode_by(std::string_view serialized) {
  std::string model;
  for_each_field(serialized, "the model", [&](const Field& field) {
    if (field.id <= normalizer_field) model += field.whole;
  });
  // A second normalizer_spec: a field that comes twice counts as it comes last. Its field 3 is add_dummy_prefix.
  return model + std::string("\x1a\x02\x18\x00", 4);
}

std::string with_rounded_scores(std::string serialized) {
  const std::string_view model = serialized;
  for_each_field(model, "the model", [&](const Field& piece) {
    if (piece.id != pieces_field || piece.kind != Field::of_bytes) return;
    for_each_field(piece.bytes, "pieces", [&](const Field& field) {
      float score = 0;
      if (field.id != 2 || field.kind != Field::of_4_bytes) return;
      std::memcpy(&score, field.bytes.data(), sizeof score);
      score = std::round(score * 256) / 256;
      std::memcpy(serialized.data() + (field.bytes.data() - model.data()), &score, sizeof score);
    });
  });
  return serialized;
}

}  // namespace inkling
