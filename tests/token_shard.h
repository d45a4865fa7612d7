// Token files as inkling-prepare writes them, for tests that need tokens and no text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// Returns the path as settings name it.
inline std::string write_shard(const std::filesystem::path& path, const std::vector<Token>& tokens,
                               TokenWidth width = TokenWidth::u16) {
  TokenShardWriter writer(path, width);
  writer.append(tokens);
  writer.commit();
  return path.string();
}

}  // namespace inkling
