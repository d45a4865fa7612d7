// The files that BPE tokenizers are kept in, elsewhere and here.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "text/bpe_vocabulary.h"

namespace inkling {

// Reads a tokenizer from
//   a folder that holds tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe;
//   any of these files, its fellow beside it;
//   tiktoken's file of ranks, a line "BASE64 RANK" for each token, which names no pattern: `pattern` has to.
// The pattern of vocab.json and merges.txt is GPT-2's unless `pattern` says otherwise. tokenizer.json names its own,
// and another `pattern` is an Error. Throws Error input naming the file and the field or line where one is missing,
// damaged or not what inkling computes (docs/guide.md lists what it does).
BpeVocabulary read_bpe(const std::filesystem::path& path, std::optional<Pattern> pattern = {});

// Opens a tokenizer.json, and reads the tokenizer that has been opened so.
JsonFields open_tokenizer_json(const std::filesystem::path& path);
BpeVocabulary read_bpe(const JsonFields& json, std::optional<Pattern> pattern = {});

// The files that read_bpe(path) reads. Throws Error input if a folder holds none.
std::vector<std::filesystem::path> bpe_files(const std::filesystem::path& path);

// Reads what the tokenizer.json of Hugging Face says apart from its lists of tokens and merges: everything of
// `vocabulary` but tokens, merges, added and the numbers of characters->byte_tokens. Throws Error input naming the
// field for everything that would give other tokens than inkling's, such as a model that is neither a BPE nor, if it
// may be one, sentencepiece's unigram.
void read_hugging_face_rules(const JsonFields& json, BpeVocabulary& vocabulary, bool may_be_unigram = false);

// Reads an added token of tokenizer.json or added_tokens_decoder, whose rules have been read. Throws Error input naming
// the flag by which one that is not special would change the text around it.
// missing_special: what it counts as without the field `special`.
AddedToken read_added_token(const JsonFields& json, Token token, const BpeVocabulary& vocabulary, bool missing_special);

// The pattern of a regular expression as tokenizer.json writes it, however it is spelled; none for any other.
std::optional<Pattern> pattern_of_expression(std::string_view expression);

// The text of tokenizer.json, which read_bpe() and AutoTokenizer read.
std::string print_bpe_json(const BpeVocabulary& vocabulary);

// The parts of such a file, for every kind of tokenizer. What is null is not done.
struct HuggingFaceTokenizer {
  nlohmann::ordered_json added = nlohmann::ordered_json::array();  // of hugging_face_added()
  nlohmann::ordered_json normalizer = {}, pre_tokenizer = {}, post_processor = {}, decoder = {}, model = {};
};
struct HuggingFaceBpe {
  nlohmann::ordered_json vocab, merges;
  nlohmann::ordered_json unknown = {};  // the token for characters that have none
  bool byte_fallback = false, ignore_merges = false;
};

std::string print_hugging_face(const HuggingFaceTokenizer& tokenizer);
void add_character_steps(const CharacterRules& rules, HuggingFaceTokenizer& tokenizer);
nlohmann::ordered_json hugging_face_added(const AddedToken& added);
nlohmann::ordered_json hugging_face_template(const AddedToken& first);  // puts it in front of every text
nlohmann::ordered_json hugging_face_bpe(const HuggingFaceBpe& model);

// Adds a field to an object that has none of this name. (The library's own insertion would look at all fields first.)
void add_new_field(nlohmann::ordered_json& object, const std::string& name, const nlohmann::ordered_json& value);

}  // namespace inkling
