#include "data/ready_token_files.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "formats/token_file.h"

namespace inkling {

namespace {

constexpr std::uint64_t tokens_per_read = 1 << 18;

// Calls visit(first, tokens) for the tokens of a shard, piece by piece.
template <typename Visit>
void read_shard(const TokenShard& shard, Visit visit) {
  std::vector<Token> buffer;
  for (std::uint64_t first = 0; first < shard.count(); first += buffer.size()) {
    buffer.resize(std::min(tokens_per_read, shard.count() - first));
    shard.read(first, buffer);
    visit(first, std::span<const Token>(buffer));
    leave_if_stopped();
  }
}

void add_shard(SplitSummary& split, const TokenShard& shard, const std::string& hash) {
  split.tokens += shard.count();
  split.shards.push_back(fs::absolute(shard.path()).lexically_normal());
  split.hash = hash_text(split.hash + hash);
  split.ends_at = shard.path().string();
}

}  // namespace

Manifest check_token_files(const Corpus& corpus, std::uint64_t vocab_size) {
  std::uint64_t total = 0, done = 0;
  for (const PlannedFile& planned : corpus.files) total += planned.file.stamp.size;
  Progress progress("checking tokens", total, "B");
  Manifest manifest;
  manifest.vocab_size = vocab_size;
  manifest.train.layout = manifest.validation.layout = corpus.layout;
  for (const PlannedFile& planned : corpus.files) {
    const TokenShard shard(planned.file.path, corpus.layout);
    Hasher hasher;
    read_shard(shard, [&](std::uint64_t first, std::span<const Token> tokens) {
      shard.require_below(vocab_size, first, tokens);
      hasher.update(std::as_bytes(tokens));
      progress.update(done += tokens.size() * static_cast<std::uint64_t>(shard.width()));
    });
    manifest.sources.emplace_back(planned.file, hasher.hex());
    add_shard(planned.train_bytes > 0 ? manifest.train : manifest.validation, shard, hasher.hex());
  }
  return manifest;
}

std::string hash_tokens(const std::vector<fs::path>& shards, TokenLayout layout) {
  Hasher hasher;
  for (const fs::path& path : shards) {
    read_shard(TokenShard(path, layout),
               [&](std::uint64_t, std::span<const Token> tokens) { hasher.update(std::as_bytes(tokens)); });
  }
  return hasher.hex();
}

}  // namespace inkling
