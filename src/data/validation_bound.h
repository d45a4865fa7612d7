// The best possible loss on the validation split of a grammar corpus, story by story.
//
// No model that sees a story from its beginning can expect a lower loss than the story's own -log probability under the
// grammar that made it. Bound and model score the same characters: those of the story and the separator after it, which
// says that the story ends there (the grammar's nats include that end). The separator before a story is not scored with
// it, because it is what lets a model know that a story begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/grammar.h"
#include "text/tokenizer.h"

namespace inkling {

struct StoryBound {
  std::uint64_t tokens = 0;      // the separator included: story k begins where the tokens of stories 0 to k - 1 end
  std::uint64_t characters = 0;  // code points of the story, plus one for the separator
  double nats = 0;               // -log probability of the story and its end
};

struct ValidationBound {
  std::vector<StoryBound> stories;  // in the order of the validation split, all of it

  double nats() const;
  std::uint64_t characters() const;
  std::uint64_t tokens() const;
};

// Expands the stories again: numbers `first` to `end` - 1 under `seed`.
ValidationBound compute_bound(const Grammar& grammar, const Tokenizer& tokenizer, std::uint64_t seed,
                              std::uint64_t first, std::uint64_t end);

// validation-bound.json: {"format": …, "nats": …, "characters": …, "tokens": …, "stories": [[tokens, characters, nats],
// …]}
void write_validation_bound(const std::filesystem::path& path, const ValidationBound& bound);

// Throws Error input if the file is missing or damaged.
ValidationBound read_validation_bound(const std::filesystem::path& path);

}  // namespace inkling
