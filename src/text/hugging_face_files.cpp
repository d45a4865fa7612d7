#include "text/hugging_face_files.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "text/bpe_files.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

// sentencepiece merges the neighbours whose piece has the highest score. A piece of n characters can be merged in n - 1
// ways, so their list can take the square of the model's bytes: it is null where it would take more than
// largest_small_file, which is the longest JSON that inkling reads.
Json merges_by_score(const std::vector<Piece>& pieces) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type == PieceType::text) numbers.emplace(pieces[i].name, i);
  }
  constexpr std::size_t signs = 8;  // around and between the two in the file: "   \"a b\",\n"
  struct Ranked {
    float score;
    std::size_t left, right;
  };
  std::vector<Ranked> merges;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != PieceType::text) continue;
    const std::string_view name = pieces[i].name;
    for (std::size_t cut = 1; cut < name.size(); ++cut) {
      if (continues_character(name[cut])) continue;
      const auto left = numbers.find(name.substr(0, cut));
      if (left == numbers.end()) continue;
      const auto right = numbers.find(name.substr(cut));
      if (right == numbers.end()) continue;
      bytes += name.size() + signs;
      if (bytes > largest_small_file) return nullptr;
      merges.push_back({pieces[i].score, left->second, right->second});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  Json list = Json::array();
  for (const Ranked& merge : merges) list.push_back(str(pieces[merge.left].name, " ", pieces[merge.right].name));
  return list;
}

// The best score of a piece of text, but no less than 0, as the library computes it.
float best_score(const std::vector<Piece>& pieces) {
  float best = std::numeric_limits<float>::min();
  for (const Piece& piece : pieces) {
    if (piece.type == PieceType::text) best = std::max(best, piece.score);
  }
  return best;
}

// What unigram's way through a text gets for a piece: the library makes user-defined ones cheap.
float score_of(const Piece& piece, float best) {
  return piece.type == PieceType::user_defined ? static_cast<float>(piece.name.size()) * best - 0.1F : piece.score;
}

// An expression that matches user-defined pieces, the longest first; empty if there are none. bpe takes them out of the
// text before anything merges. tokenizers does it where a Split stands in front and a whole word that is a token
// becomes that token at once, whatever the merges (ignore_merges): the same for all pieces that merges make.
std::string user_defined_expression(const std::vector<Piece>& pieces) {
  std::vector<std::string> names;
  for (const Piece& piece : pieces) {
    if (piece.type != PieceType::user_defined) continue;
    std::string& name = names.emplace_back();
    for (const char c : piece.name) {
      const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80;
      if (!is_plain && c != '\n') name += '\\';
      name += c;
    }
  }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return join(names, "|");
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
  add_character_steps({}, tokenizer);
  tokenizer.model = hugging_face_bpe({.vocab = vocab, .merges = Json::array()});
  return print_hugging_face(tokenizer);
}

std::optional<std::string> print_sentencepiece_tokenizer(const SentencepieceModel& model,
                                                         const SentencepieceRules* foreign) {
  const std::vector<Piece>& pieces = model.pieces();
  const Json merges = model.file().is_bpe ? merges_by_score(pieces) : Json::array();
  if (merges.is_null()) return std::nullopt;
  HuggingFaceTokenizer tokenizer;
  Json vocab = Json::object(), scores = Json::array(), unknown;
  std::size_t unknown_token = 0;
  const float best = best_score(pieces);
  for (std::size_t token = 0; token < pieces.size(); ++token) {
    const Piece& piece = pieces[token];
    if (piece.type == PieceType::control) {
      tokenizer.added.push_back(hugging_face_added({static_cast<Token>(token), piece.name}));
    }
    if (piece.type == PieceType::unknown) unknown = piece.name, unknown_token = token;
    add_new_field(vocab, piece.name, token);
    scores.push_back(Json::array({piece.name, score_of(piece, best)}));
  }
  const std::string user_defined = user_defined_expression(pieces);
  const Json unigram = {
      {"type", "Unigram"}, {"unk_id", unknown_token}, {"vocab", scores}, {"byte_fallback", model.spells_bytes()}};
  CharacterRules rules{.space_signs = true, .cuts_lines = foreign == nullptr};  // line by line, as our own are used
  if (foreign != nullptr && foreign->prefix_space) rules.prefix = PrefixSpace::all;
  if (model.spells_bytes()) rules.byte_tokens.emplace();
  add_character_steps(rules, tokenizer);
  tokenizer.model = model.file().is_bpe ? hugging_face_bpe({.vocab = vocab,
                                                            .merges = merges,
                                                            .unknown = unknown,
                                                            .byte_fallback = model.spells_bytes(),
                                                            .ignore_merges = !user_defined.empty()})
                                        : unigram;
  if (foreign == nullptr) return print_hugging_face(tokenizer);
  if (model.file().is_bpe && !user_defined.empty()) {
    tokenizer.pre_tokenizer = {
        {"type", "Split"}, {"pattern", {{"Regex", user_defined}}}, {"behavior", "Isolated"}, {"invert", false}};
  }
  for (const AddedToken& added : foreign->added) tokenizer.added.push_back(hugging_face_added(added));
  for (const AddedToken& special : special_tokens(model, foreign->added)) {
    if (special.token == foreign->first_token) tokenizer.post_processor = hugging_face_template(special);
  }
  return print_hugging_face(tokenizer);
}

void write_hugging_face_files(const std::filesystem::path& folder, const std::optional<std::string>& tokenizer_json,
                              const DocumentTokens& tokens) {
  if (!tokenizer_json) {
    log_warning(
        str("tokenizer.model: its pieces can be merged in so many ways that their list for AutoTokenizer would ",
            "take more than ", format_bytes(largest_small_file), ", so tokenizer.json is not written; inkling ",
            "does not need it"));
    return;
  }
  write_file(folder / "tokenizer.json", *tokenizer_json);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (tokens.first) config["bos_token"] = *tokens.first;
  if (tokens.separator) config["eos_token"] = *tokens.separator;
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace inkling
