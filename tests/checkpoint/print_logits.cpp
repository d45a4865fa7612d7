// print_logits FOLDER TOKEN...: the model's logits for one row of tokens, a line per token, for
// scripts/check-huggingface to compare.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "model/model.h"

namespace {

void print_logits(const std::string& folder, const std::vector<std::string>& words) {
  using namespace inkling;
  const GptShape shape = read_shape(folder);
  const auto arena = make_arena(shape, {}, Use::inference);
  load_weights(folder, shape, *arena);
  std::vector<std::int64_t> tokens;
  for (const std::string& word : words) {
    tokens.push_back(std::stoll(word));
    if (tokens.back() < 0 || tokens.back() >= shape.vocab_size) throw std::out_of_range(word + " is no token");
  }
  const std::int64_t count = static_cast<std::int64_t>(tokens.size());
  const at::Tensor row = at::from_blob(tokens.data(), {1, count}, at::kLong);
  const at::Tensor logits = make_model(shape, *arena, {})->logits(row).contiguous();
  const float* value = logits.const_data_ptr<float>();
  for (std::int64_t index = 0; index < count * shape.vocab_size; ++index) {
    std::printf("%.9g%c", static_cast<double>(value[index]), (index + 1) % shape.vocab_size == 0 ? '\n' : ' ');
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("print_logits FOLDER TOKEN...\n", stderr);
    return 2;
  }
  try {
    print_logits(argv[1], {argv + 2, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
