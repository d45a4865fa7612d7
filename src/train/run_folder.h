// Where a run lives: its folder, which one process alone holds.
#pragma once

#include <filesystem>
#include <string>

namespace inkling {

struct TrainOptions {
  std::filesystem::path config_path;  // or that of the text which a recipe was made for
  std::filesystem::path out;          // empty: runs/<the config file's or the text's name>
  bool fresh = false;                 // start over in a new folder; the old one stays as it is
  bool accept_changes = false;        // resume although settings changed that alter the result
  std::filesystem::path profile;      // empty, or the file for a record of some steps (runtime/timing.h)
  bool dry_run = false;               // check everything, write nothing
  std::string recipe = {};  // the file that the run is begun by, kept in its folder as recipe_name; empty: none
};

// A recipe's file in the folder of its run.
inline constexpr const char* recipe_name = "recipe.yaml";

// A run folder that this process alone holds while the object lives; the file .lock names the holder. A dry run holds
// none.
class RunFolder {
 public:
  // Throws Error input if another process trains in it, saying which, and Error environment if it cannot be made. Warns
  // where the file system has no locks, so that nothing keeps a second process out.
  RunFolder(const std::filesystem::path& path, bool dry_run);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void hold(const std::filesystem::path& lock);

  std::filesystem::path path_;
  int lock_ = -1;
  bool holds_ = false;
};

// Whether the folder does not exist, or holds only what a run leaves that ended before its first step.
bool is_unused(const std::filesystem::path& run);

// Returns the folder a run would use: `out` or runs/<name>; for a fresh one the first of it, <name>-2, <name>-3, … that
// does not exist or holds no step of a run. Throws Error input if it is a file, and where config_path has no name.
std::filesystem::path choose_run_folder(const TrainOptions& options);

}  // namespace inkling
