#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/progress.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "data/dataset_parts.h"
#include "data/validation_bound.h"
#include "formats/token_file.h"
#include "text/tokenizer.h"

namespace inkling {

namespace {

// The temporary names of base/files.h begin like this.
std::string leftover_prefix(const fs::path& folder) { return str(".", folder.filename().string(), ".tmp-"); }

// Returns whether the lock is held, which it never is on a file system without locks. Throws Error environment for any
// other failure.
bool lock_waiting(int descriptor, const fs::path& folder) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) {
    log_info(str("waiting for another process that prepares ", folder.string()));
    int result = 0;
    do {
      result = ::flock(descriptor, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return true;
  }
  const int code = errno;
  if (!has_no_locks(code)) {
    throw Error::environment(str("cannot lock ", folder.string(), " while it is prepared: ", errno_text(code),
                                 "; check the disk, or choose another place with data.dir"));
  }
  log_warning(str("the file system of ", folder_of(folder).string(), " has no locks (", errno_text(code),
                  "): make sure that no other process prepares ", folder.string(), " at the same time"));
  return false;
}

// The process that held the lock before us removes the file when it is done: then the file that we have locked is no
// longer the one that others find.
bool is_still_there(int descriptor, const fs::path& path) {
  struct stat mine{}, there{};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

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

RecordedFile record(const fs::path& folder, const std::string& name) {
  RecordedFile file(examine_file(folder / name), hash_file(folder / name));
  file.path = name;
  return file;
}

// Version 1 has no list of what was written, but it has hashes of the tokens and of the tokenizer, and the bound itself
// says what it is. A file that agrees with these was written by inkling-prepare, whatever its name is.
std::vector<RecordedFile> written_by_version_1(const fs::path& folder, const Manifest& manifest) {
  std::vector<RecordedFile> written;
  if (manifest.tokenizer_hash.empty()) return written;  // ready token files: dataset.json is all
  const auto refuse = [&](std::string_view what) {
    throw Error::input(str(what, " in ", folder.string(), " not what ", manifest_name, " records"));
  };
  const auto tokenizer = load_tokenizer(folder);
  if (tokenizer->hash() != manifest.tokenizer_hash) refuse("the tokenizer is");
  written.push_back(record(folder, "tokenizer.json"));
  if (tokenizer->kind() == "sentencepiece") written.push_back(record(folder, "tokenizer.model"));
  for (const SplitSummary* split : {&manifest.train, &manifest.validation}) {
    if (hash_tokens(split->shards, split->layout) != split->hash) refuse("the token files are");
    for (const fs::path& shard : split->shards) {
      if (is_inside(shard, folder)) written.push_back(record(folder, shard.filename().string()));
    }
  }
  if (!manifest.has_bound) return written;
  const std::string bound(bound_name);
  if (read_validation_bound(folder / bound).tokens() != manifest.validation.tokens) refuse(str(bound, " is"));
  written.push_back(record(folder, bound));
  return written;
}

std::vector<RecordedFile> written_files(const fs::path& folder, const Manifest& manifest) {
  return manifest.written ? *manifest.written : written_by_version_1(folder, manifest);
}

// Returns what is wrong with a written file that looks like `now`; empty if nothing is.
std::string difference(const SourceFile& now, const RecordedFile& recorded, bool verify) {
  if (now.stamp.size != recorded.stamp.size) {
    return str("holds ", now.stamp.size, " bytes, and ", recorded.stamp.size, " were written");
  }
  if (!verify && recorded.stamp == now.stamp) return "";
  return hash_file(now.path) == recorded.hash ? "" : "has been changed since it was written";
}

bool is_regular(const fs::path& path) { return fs::is_regular_file(fs::symlink_status(path)); }

std::pair<dev_t, ino_t> identity(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Returns the first file besides dataset.json that must not be removed, and why; empty if inkling-prepare wrote them
// all.
std::string find_foreign(const fs::path& folder, const std::vector<RecordedFile>& written) {
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    if (name == manifest_name && is_regular(path)) continue;
    const auto same_name = [&](const RecordedFile& file) { return file.path == name; };
    const auto recorded = std::find_if(written.begin(), written.end(), same_name);
    if (recorded == written.end() || !is_regular(path)) return str("nothing says that inkling-prepare wrote ", name);
    const std::string wrong = difference(examine_file(path), *recorded, false);
    if (!wrong.empty()) return str(name, " ", wrong);
  }
  return "";
}

// Returns the first file in the folder that is one of these; empty if none is.
std::string find_source(const fs::path& folder, const std::vector<SourceFile>& sources) {
  std::set<std::pair<dev_t, ino_t>> source_files;
  for (const SourceFile& source : sources) source_files.insert(identity(source.path));
  for (const std::string& name : names_in(folder)) {
    if (source_files.contains(identity(folder / name))) return name;
  }
  return "";
}

// Returns why the folder must not be replaced; empty if it may be.
std::string why_not(const fs::path& folder) {
  try {
    if (!is_regular(folder / manifest_name)) return find_foreign(folder, {});
    return find_foreign(folder, written_files(folder, read_manifest(folder)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    return error.message();
  }
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder)
    : path_(folder_of(folder) / str(".", folder.filename().string(), ".lock")) {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw Error::environment(str("cannot write into ", folder_of(folder).string(), ": ", errno_text(errno),
                                   "; choose another place with data.dir"));
    }
    try {
      held_ = lock_waiting(descriptor_, folder);
    } catch (const Error&) {
      ::close(descriptor_);
      throw;
    }
    if (!held_ || is_still_there(descriptor_, path_)) return;
    ::close(descriptor_);
  }
}

FolderLock::~FolderLock() {
  if (held_) {
    ::unlink(path_.c_str());
    ::flock(descriptor_, LOCK_UN);  // closing alone would leave it to a child that a fork has given the descriptor
  }
  ::close(descriptor_);
}

void remove_leftovers(const fs::path& folder) {
  const std::string prefix = leftover_prefix(folder);
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(folder), ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) remove_written(leftover);
}

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

std::vector<RecordedFile> record_written(const fs::path& folder) {
  std::vector<RecordedFile> written;
  for (const std::string& name : names_in(folder)) {
    leave_if_stopped();
    written.push_back(record(folder, name));
  }
  return written;
}

bool check_written(const fs::path& folder, Manifest& manifest, bool verify) {
  bool changed = !manifest.written;
  if (!manifest.written) {
    // All of the folder is read for that, so this is not done where the list could not be recorded and the next start
    // would do it again.
    if (!verify && ::access(folder.c_str(), W_OK) != 0) return false;
    manifest.written = written_by_version_1(folder, manifest);
  }
  for (RecordedFile& recorded : *manifest.written) {
    const SourceFile now = examine_file(folder / recorded.path);
    const std::string wrong = difference(now, recorded, verify);
    if (!wrong.empty()) throw Error::input(str(now.path.string(), " ", wrong));
    changed = changed || recorded.stamp != now.stamp;
    recorded.stamp = now.stamp;
  }
  return changed;
}

void refuse_foreign_files(const fs::path& folder, const std::vector<SourceFile>& sources) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) {
    throw Error::input(str("data.dir: ", folder.string(), " is a file: name a folder that may be made or replaced"));
  }
  if (const std::string source = find_source(folder, sources); !source.empty()) {
    throw Error::input(str("data.dir: ", folder.string(), " holds ", source,
                           ", a source of the data set that would be made there: name another folder"));
  }
  const std::string why = why_not(folder);
  if (why.empty()) return;
  throw Error::input(str("data.dir: ", folder.string(), " would be replaced by a new data set, but ", why,
                         ": name another folder, or, if nothing in this one is yours, remove it and run again"));
}

void remove_written(const fs::path& folder) {
  const auto warn = [&](const std::string& why) {
    log_warning(
        str("an older data set stays in ", folder.string(), ": ", why, "; take what you need out of it and remove it"));
  };
  try {
    if (!fs::exists(fs::symlink_status(folder / manifest_name))) return remove_everything(folder);
    Manifest manifest = read_manifest(folder);
    if (!manifest.written) {  // if this process is killed below, a list of what it has not removed yet is left
      manifest.written = written_by_version_1(folder, manifest);
      write_manifest(folder, manifest);
    }
    if (const std::string foreign = find_foreign(folder, *manifest.written); !foreign.empty()) {
      throw Error::input(foreign);
    }
    for (const RecordedFile& file : *manifest.written) fs::remove(folder / file.path);
    fs::remove(folder / manifest_name);  // last: it says what may be removed
    fs::remove(folder);
  } catch (const Error& error) {
    warn(error.message());
  } catch (const fs::filesystem_error& error) {
    warn(error.code().message());
  }
}

}  // namespace inkling
