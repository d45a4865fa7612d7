// A run small enough to save in a millisecond, and files taken apart so that tests can spoil them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "formats/safetensors.h"
#include "model/arena.h"
#include "model/parameters.h"
#include "optim/optimizer.h"

namespace inkling {

inline constexpr GptShape tiny_shape{.n_layer = 2, .n_head = 2, .n_embd = 8, .block_size = 6, .vocab_size = 11};

struct TinyRun {
  explicit TinyRun(const GptShape& model_shape = tiny_shape, OptimizerName name = OptimizerName::adamw);

  void randomize(std::uint64_t seed);  // weights and moments: every parameter, biases too; three updates made
  void save(const std::filesystem::path& folder, const Tokenizer* tokenizer = nullptr) const;
  void save_step(const std::filesystem::path& run, std::int64_t step);  // with state.step = step

  GptShape shape;
  Config config;
  ParameterArena arena;
  Optimizer optimizer;
  TrainingState state;
};

// Makes state.json fit the other files, whatever was done to them, as if save_checkpoint() had written it last.
void write_state_again(const std::filesystem::path& folder, const TrainingState& state);

// Gives a state.json that was edited the hash of its text in its last line.
void seal_again(const std::filesystem::path& state_json);

// Turns a checkpoint into one of version 1, whose state.json has the names of files, but no sizes and no hashes.
void make_version_1(const std::filesystem::path& folder);

// Changes one byte of a file by exclusive or.
void flip(const std::filesystem::path& path, std::uint64_t position, unsigned char bits);

// Whether two tensors hold the same bits.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

struct StoredTensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

struct StoredTensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

  explicit StoredTensors(const std::filesystem::path& path);
  void write(const std::filesystem::path& path) const;
  void rename(const std::string& from, const std::string& to);
};

// Spoils a file without waiting for the disk.
void overwrite(const std::filesystem::path& path, const std::string& contents);

// Replaces the first `from` in a file by `to`; fails the test if there is none.
void edit(const std::filesystem::path& path, const std::string& from, const std::string& to);

// Fails the test unless `action` throws an Error input that mentions every one of these.
void expect_refused(const std::function<void()>& action, const std::vector<std::string>& mentions);

}  // namespace inkling
