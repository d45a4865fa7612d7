#include "text/hugging_face_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "bpe/hugging_face_json.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

// sentencepiece merges the neighbours whose piece has the highest score.
Json merges_by_score(const std::vector<Piece>& pieces) {
  std::unordered_map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type == PieceType::text) numbers.emplace(pieces[i].name, i);
  }
  std::vector<std::tuple<float, std::size_t, std::string>> merges;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != PieceType::text) continue;
    const std::string& name = pieces[i].name;
    for (std::size_t cut = 1; cut < name.size(); ++cut) {
      const std::string left = name.substr(0, cut), right = name.substr(cut);
      if (numbers.contains(left) && numbers.contains(right)) {
        merges.emplace_back(-pieces[i].score, merges.size(), str(left, " ", right));
      }
    }
  }
  std::sort(merges.begin(), merges.end());
  Json list = Json::array();
  for (const auto& [score, number, merge] : merges) list.push_back(merge);
  return list;
}

}  // namespace

std::string print_byte_tokenizer(std::optional<Token> separator) {
  BpeVocabulary bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.tokens.emplace_back(1, static_cast<char>(byte));
  if (separator) bytes.added.push_back({*separator, separator_name});
  return print_bpe_json(bytes);
}

std::string print_char_tokenizer(std::span<const char32_t> code_points, std::optional<Token> separator) {
  HuggingFaceTokenizer tokenizer;
  Json vocab = Json::object();
  for (std::size_t token = 0; token < code_points.size(); ++token) {
    std::string character;
    append_utf8(character, code_points[token]);
    add_new_field(vocab, character, token);
  }
  if (separator) tokenizer.added.push_back(hugging_face_added({*separator, separator_name}));
  tokenizer.decoder = {{"type", "Fuse"}};
  tokenizer.model = hugging_face_bpe({.vocab = vocab, .merges = Json::array()});
  return print_hugging_face(tokenizer);
}

std::string print_sentencepiece_tokenizer(const SentencepieceModel& model) {
  const std::vector<Piece> pieces = model.pieces();
  HuggingFaceTokenizer tokenizer;
  Json vocab = Json::object(), scores = Json::array(), unknown;
  std::size_t unknown_token = 0;
  for (std::size_t token = 0; token < pieces.size(); ++token) {
    const Piece& piece = pieces[token];
    if (piece.type == PieceType::separator) {
      tokenizer.added.push_back(hugging_face_added({static_cast<Token>(token), piece.name}));
    }
    if (piece.type == PieceType::unknown) unknown = piece.name, unknown_token = token;
    add_new_field(vocab, piece.name, token);
    scores.push_back(Json::array({piece.name, piece.score}));
  }
  const Json unigram = {{"type", "Unigram"}, {"unk_id", unknown_token}, {"vocab", scores}, {"byte_fallback", true}};
  const Json lines = {
      {"type", "Split"}, {"pattern", {{"String", "\n"}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  const Json spaces = {
      {"type", "Metaspace"}, {"replacement", space_sign}, {"prepend_scheme", "never"}, {"split", false}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", space_sign}}}, {"content", " "}};
  tokenizer.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", Json::array({lines, spaces})}};
  tokenizer.decoder = {{"type", "Sequence"},
                       {"decoders", Json::array({back, Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}})}};
  tokenizer.model =
      model.settings().is_bpe
          ? hugging_face_bpe(
                {.vocab = vocab, .merges = merges_by_score(pieces), .unknown = unknown, .byte_fallback = true})
          : unigram;
  return print_hugging_face(tokenizer);
}

void write_hugging_face_files(const std::filesystem::path& folder, const std::string& tokenizer_json,
                              const std::optional<std::string>& separator) {
  write_file(folder / "tokenizer.json", tokenizer_json);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (separator) config["bos_token"] = config["eos_token"] = *separator;
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace inkling
