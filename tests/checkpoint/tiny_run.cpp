#include "tests/checkpoint/tiny_run.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "backend/cpu_backend.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/strings.h"
#include "checkpoint/state_file.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// Only where parameters lie: the gaps of the arena are zero and are not saved.
void fill(const at::Tensor& flat, const ParameterArena& arena, std::uint64_t seed) {
  for (const Parameter& parameter : arena.parameters()) {
    for (std::int64_t index = parameter.offset; index < parameter.offset + parameter.count; ++index) {
      flat.mutable_data_ptr<float>()[index] =
          static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(index)));
    }
  }
}

}  // namespace

TinyRun::TinyRun(const GptShape& model_shape, OptimizerName name)
    : shape(model_shape),
      arena(gpt_parameters(model_shape), at::kCPU, at::kFloat, Gradients::as_weights),
      optimizer(arena, {.name = name}, cpu_backend()) {
  config.optimizer.name = name;
  config.data.source = {"tiny.txt"};
  config.model.dropout = 0.125;
  state.step = 3;
  state.best_val_loss = 2.5;
  state.best_step = 1;
  state.data_hash = "0123abcd";
  state.seconds = 1.5;
  state.resolved.threads = 2;
  randomize(1);
}

void TinyRun::randomize(std::uint64_t seed) {
  fill(arena.values(), arena, 3 * seed);
  for (std::uint64_t step = 0; step < 3; ++step) {
    fill(arena.gradients(), arena, 3 * seed + step);
    optimizer.set_learning_rate(1e-3);
    optimizer.update();
  }
  optimizer.set_steps(3);  // as state.step, however often this was called
}

void TinyRun::save(const std::filesystem::path& folder, const Tokenizer* tokenizer) const {
  save_checkpoint(folder, config, shape, arena, optimizer, state, tokenizer);
}

void TinyRun::save_step(const std::filesystem::path& run, std::int64_t step) {
  state.step = step;
  optimizer.set_steps(step);
  save(checkpoint_folder(run, step));
}

void write_state_again(const std::filesystem::path& folder, const TrainingState& state) {
  std::filesystem::remove(folder / "state.json");
  write_state(folder, state);
}

void seal_again(const std::filesystem::path& state_json) {
  const std::string text = read_file(state_json);
  const std::string before = text.substr(0, text.rfind("  \"xxh3_128\""));
  overwrite(state_json, before + "  \"xxh3_128\": \"" + hash_text(before) + "\"\n}\n");
}

void make_version_1(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "state.json";
  std::vector<std::string> names;
  for (const SavedFile& file : read_state(folder).files) names.push_back('"' + file.name + '"');
  edit(path, "\"version\": 2", "\"version\": 1");
  const std::string text = read_file(path);
  overwrite(path, text.substr(0, text.find("\"files\"")) + "\"files\": [" + join(names, ",") + "]\n}\n");
}

void flip(const std::filesystem::path& path, std::uint64_t position, unsigned char bits) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(position));
  file.put(static_cast<char>(byte ^ bits)).flush();
  ASSERT_TRUE(file) << path;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

StoredTensors::StoredTensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  metadata = file.header().metadata;
  for (const TensorEntry& entry : file.header().tensors) {
    StoredTensor stored = {entry.dtype, entry.shape, std::vector<std::byte>(entry.bytes())};
    file.read(entry, stored.bytes);
    tensors[entry.name] = std::move(stored);
  }
}

void StoredTensors::write(const std::filesystem::path& path) const {
  std::vector<TensorToWrite> list;
  for (const auto& [name, stored] : tensors) list.push_back({name, stored.dtype, stored.shape, stored.bytes});
  write_safetensors(path, std::move(list), metadata);
}

void StoredTensors::rename(const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  ASSERT_FALSE(node.empty()) << from;
  node.key() = to;
  tensors.insert(std::move(node));
}

void overwrite(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary);
  file << contents << std::flush;
  ASSERT_TRUE(file) << path;
}

void edit(const std::filesystem::path& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const std::size_t place = text.find(from);
  ASSERT_NE(place, std::string::npos) << from << " is not in " << text;
  overwrite(path, text.replace(place, from.size(), to));
}

void expect_refused(const std::function<void()>& action, const std::vector<std::string>& mentions) {
  const std::optional<Error> error = error_of(action);
  ASSERT_TRUE(error) << "nothing was thrown where " << mentions.front() << " should be refused";
  EXPECT_EQ(error->kind(), ErrorKind::input) << error->message();
  for (const std::string& mention : mentions) {
    EXPECT_NE(error->message().find(mention), std::string::npos) << mention << " is not in: " << error->message();
  }
}

}  // namespace inkling
