#include "formats/eval_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr std::int32_t magic = 20240522, version = 1;
constexpr std::uint32_t start_of_example = 65535;
constexpr std::size_t header_bytes = 1024, most_examples = 65536;  // an example's number has 16 bits

class EvalFileReader {
 public:
  EvalFileReader(const std::filesystem::path& path, std::string_view bytes, std::uint64_t vocab_size)
      : path_(path), bytes_(bytes), vocab_size_(vocab_size) {}

  std::vector<TokenChoice> read() {
    if (bytes_.size() < header_bytes) {
      refuse(str("holds ", bytes_.size(), " bytes, less than a header of ", header_bytes));
    }
    if (header(0) != magic) refuse(str("begins with the number ", header(0), " instead of ", magic));
    if (header(1) != version) refuse(str("is of version ", header(1), ", and inkling reads version ", version));
    const std::int32_t count = header(2), longest = header(3);
    if (count < 1 || static_cast<std::size_t>(count) > most_examples) {
      refuse(str("promises ", count, " examples, and must hold 1 to ", most_examples));
    }
    at_ = header_bytes;
    std::vector<TokenChoice> examples;
    for (number_ = 0; number_ < static_cast<std::size_t>(count); ++number_) examples.push_back(read_example());
    if (at_ != bytes_.size()) {
      refuse(str("holds ", bytes_.size() - at_, " bytes behind the last of its ", count, " examples"));
    }
    if (longest_ != static_cast<std::size_t>(std::max(longest, 0))) {
      refuse(str("says that its longest example has ", longest, " bytes, and that has ", longest_));
    }
    return examples;
  }

 private:
  TokenChoice read_example() {
    const std::size_t begin = at_;
    expect("START_EXAMPLE", start_of_example);
    const std::size_t size = next("EXAMPLE_BYTES");
    expect("EXAMPLE_INDEX", static_cast<std::uint32_t>(number_));
    TokenChoice example;
    example.label = next("LABEL");
    const std::size_t endings = next("NUM_COMPLETIONS");
    if (endings < 2) refuse_field(str("NUM_COMPLETIONS is ", endings, " and must be at least 2"));
    if (example.label >= endings) {
      refuse_field(str("LABEL is ", example.label, ", and there are ", endings, " completions, counted from 0"));
    }
    example.context = tokens("the context");
    for (std::size_t i = 0; i < endings; ++i) example.endings.push_back(tokens(str("completion ", i)));
    if (at_ - begin != size) refuse_field(str("EXAMPLE_BYTES is ", size, ", and the example takes ", at_ - begin));
    longest_ = std::max(longest_, size);
    return example;
  }

  std::uint32_t next(const std::string& field) {
    if (bytes_.size() - at_ < sizeof(std::uint16_t)) refuse_field(str("the file ends before ", field));
    std::uint16_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  void expect(const char* field, std::uint32_t value) {
    const std::uint32_t found = next(field);
    if (found != value) refuse_field(str(field, " is ", found, " and must be ", value));
  }

  std::vector<Token> tokens(const std::string& of) {
    std::vector<Token> tokens(next(str("the length of ", of)));
    if (tokens.empty()) refuse_field(str(of, " has no token"));
    if (tokens.size() * sizeof(std::uint16_t) > bytes_.size() - at_) {
      refuse_field(str(of, " has ", tokens.size(), " tokens, and the file ends before the last of them"));
    }
    for (Token& token : tokens) {
      token = next("a token");
      if (token >= vocab_size_) {
        refuse_field(str("a token of ", of, " is ", token, ", and the model's vocabulary has ", vocab_size_,
                         " tokens, whose ids are below that"));
      }
    }
    return tokens;
  }

  std::int32_t header(std::size_t place) const {
    std::int32_t value = 0;
    std::memcpy(&value, bytes_.data() + place * sizeof value, sizeof value);
    return value;
  }

  [[noreturn]] void refuse(const std::string& message) const {
    throw Error::input(str(path_.string(), ": ", message, "; make or fetch it again, as a file of questions of llm.c"));
  }
  // What was read ends at at_.
  [[noreturn]] void refuse_field(const std::string& message) const {
    refuse(str("example ", number_, ", up to byte ", at_, ": ", message));
  }

  const std::filesystem::path& path_;
  std::string_view bytes_;
  std::uint64_t vocab_size_;
  std::size_t at_ = 0, number_ = 0, longest_ = 0;
};

}  // namespace

std::vector<TokenChoice> read_eval_file(const std::filesystem::path& path, std::string_view bytes,
                                        std::uint64_t vocab_size) {
  return EvalFileReader(path, bytes, vocab_size).read();
}

}  // namespace inkling
