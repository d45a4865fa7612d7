#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "formats/event_file.h"
#include "train/board.h"

namespace inkling {

bool is_unused(const fs::path& run) {
  if (is_there(run) && !is_folder(run)) return false;
  for (const std::string& name : names_in(run)) {
    const fs::path path = run / name;
    const bool trace = name == ".lock" || name == "config.yaml" || name == recipe_name;
    const bool empty =
        (name == "checkpoints" && names_in(path).empty()) || (name == "log.jsonl" && InputFile(path).size() == 0);
    const bool no_step = is_event_file(path) && events_up_to(InputFile(path), 0) == InputFile(path).size();
    if (!trace && !empty && !no_step) return false;
  }
  return true;
}

namespace {

// "process 4711 on HOST since 2025-03-01 12:00:00 UTC", for whoever finds the folder locked.
std::string describe_this_process() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char since[32] = "";
  std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return str("process ", ::getpid(), " on ", host, " since ", since);
}

// What the holder wrote, as far as it can be shown in a line: " (process …)", or nothing.
std::string describe_holder(int lock) {
  char text[512];
  const ssize_t length = ::pread(lock, text, sizeof text, 0);
  std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  line.resize(std::min(line.find('\n'), line.size()));
  const bool shown =
      !line.empty() && std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return shown ? str(" (", line, ")") : "";
}

// Returns errno, 0 for success.
int take_lock(int lock) {
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool dry_run) : path_(path) {
  if (dry_run) return;
  create_folders(path / "checkpoints");
  const fs::path lock = path / ".lock";
  lock_ = ::open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NONBLOCK, 0644);
  if (lock_ < 0) throw_write_error("open", lock, errno);
  try {
    hold(lock);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

void RunFolder::hold(const fs::path& lock) {
  const int code = take_lock(lock_);
  if (code == EWOULDBLOCK) {
    throw Error::input(str("another process is training in ", path_.string(), describe_holder(lock_),
                           "; stop it first, or choose another folder"));
  }
  if (has_no_locks(code)) {
    log_warning(str("the file system of ", path_.string(), " has no locks (", errno_text(code),
                    "), so nothing keeps a second process from training there; see to it that none does"));
    return;
  }
  if (code != 0) throw_write_error("lock", lock, code);
  holds_ = true;
  // Only the message above needs this line. If the disk is too full for it, whatever is written next reports that.
  const std::string line = describe_this_process() + "\n";
  [[maybe_unused]] const int emptied = ::ftruncate(lock_, 0);
  [[maybe_unused]] const ssize_t written = ::pwrite(lock_, line.data(), line.size(), 0);
}

RunFolder::~RunFolder() {
  if (lock_ < 0) return;
  [[maybe_unused]] const int emptied = holds_ ? ::ftruncate(lock_, 0) : 0;
  ::close(lock_);
}

// The name of a file without its ending, or that of a folder, which a text may be.
fs::path name_of_run(const fs::path& path) {
  const fs::path whole = without_slash(fs::absolute(path).lexically_normal());
  const fs::path name = is_folder(whole) ? whole.filename() : whole.stem();
  const bool is_pattern = name.string().find_first_of("*?[") != std::string::npos && !is_there(path);
  if (name.empty() || name == "/" || is_pattern) {
    throw Error::input(str(path.string(), " gives a run no name: name its folder with --out"));
  }
  return name;
}

fs::path choose_run_folder(const TrainOptions& options) {
  fs::path wanted = options.out.empty() ? fs::path("runs") / name_of_run(options.config_path) : options.out;
  if (is_there(wanted) && !is_folder(wanted)) {
    throw Error::input(str(wanted.string(), " is a file; name a folder for the run"));
  }
  if (!options.fresh || is_unused(wanted)) return wanted;
  for (int number = 2;; ++number) {
    fs::path next = str(wanted.string(), "-", number);
    if (is_unused(next)) return next;
  }
}

}  // namespace inkling
