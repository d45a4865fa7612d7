#include "formats/pickle.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"

namespace inkling {

namespace {

std::array<char, 4> front_of(const InputFile& file) {
  std::array<char, 4> front{};
  file.read_some(0, std::as_writable_bytes(std::span(front)));
  return front;
}

std::string remedy_for(const fs::path& path) {
  if (path.extension() == ".pkl" || path.extension() == ".pickle") {
    return str("if it is nanoGPT's vocabulary, scripts/from-nanogpt ", shell_word(path.string()),
               " FOLDER writes it as FOLDER/inkling_tokenizer.json, and runs nothing");
  }
  if (path.filename().string().starts_with("pytorch_model")) {
    return "if you trust it, open it in Python with transformers and save it again: "
           "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER, safe_serialization=True)";
  }
  if (path.filename().string().starts_with("consolidated")) {
    return "if it is a model as its makers have it, take the folder that transformers opens, with config.json and "
           "model.safetensors";
  }
  return str(
      "if it is a checkpoint of nanoGPT, scripts/from-nanogpt ", shell_word(path.string()),
      " META.pkl FOLDER writes it as FOLDER/config.json and model.safetensors (META.pkl is the vocabulary beside "
      "its train.bin; gpt2 in its place is GPT-2's), and runs nothing");
}

}  // namespace

bool is_named_pickle(const fs::path& path) {
  const std::string ending = ending_of(path);
  return ending == ".pkl" || ending == ".pickle" || ending == ".pt" || ending == ".pth" || ending == ".ckpt";
}

bool is_saved_by_torch(const InputFile& file) {
  const auto front = front_of(file);
  return std::string_view(front.data(), front.size()) == "PK\x03\x04";
}

bool is_pickle(const InputFile& file) {
  const auto front = front_of(file);
  return is_saved_by_torch(file) || (front[0] == '\x80' && front[1] >= 2 && front[1] <= 5);  // the protocol's version
}

void refuse_pickle(const fs::path& path) {
  throw Error::input(str(path.string(),
                         " is a Python pickle, which can run any program when it is opened, so it is not read; ",
                         remedy_for(path)));
}

void refuse_if_pickle(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  if (is_named_pickle(path) || is_pickle(InputFile(path))) refuse_pickle(path);
}

}  // namespace inkling
