#include "checkpoint/check_checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/modeling_inkling.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"
#include "formats/safetensors.h"

namespace inkling {
namespace {

[[noreturn]] void refuse_file(const fs::path& path, const std::string& message) {
  throw Error::input(str(path.string(), ": ", message, "; choose another checkpoint"));
}

void check_is_there(const fs::path& path) {
  if (is_there(path)) return;
  throw Error::input(str(path.string(),
                         ": the file is missing, and belongs to the checkpoint; bring it back, choose another "
                         "checkpoint, or remove state.json to use the folder as a model from elsewhere"));
}

void check_file(const fs::path& path, const SavedFile& saved, Look look) {
  const InputFile file(path);
  if (file.size() != saved.size) {
    refuse_file(path, str("it has ", file.size(), " bytes, and had ", saved.size, " when it was saved",
                          file.size() < saved.size ? ": it was cut short" : ""));
  }
  if (look == Look::quick) return;
  if (const std::string hash = hash_file(path); hash != saved.hash) {
    refuse_file(path,
                str("its bytes are not those that were saved: their XXH3-128 is ", hash, ", and was ", saved.hash));
  }
}

// Version 1 says only that the file was there and was not empty.
void check_file_of_version_1(const fs::path& path) {
  const InputFile file(path);
  if (file.size() == 0) refuse_file(path, "the file is empty");
  if (path.extension() == ".safetensors") SafetensorsFile{path};
}

}  // namespace

TrainingState check_files(const fs::path& folder, Look look) {
  const StateFile saved = read_state(folder);
  for (const SavedFile& file : saved.files) {
    if (file.name == modeling_inkling_name) continue;  // for transformers alone, and may have to be changed for it
    check_is_there(folder / file.name);
    if (saved.version == 1)
      check_file_of_version_1(folder / file.name);
    else
      check_file(folder / file.name, file, look);
  }
  const std::int64_t updates = optimizer_steps(folder);
  if (updates != saved.state.step - saved.state.skipped_steps) {
    refuse_file(folder / "optimizer.safetensors",
                str("it has made ", updates, " updates, and state.json records ", saved.state.step, " steps, ",
                    saved.state.skipped_steps, " of them without an update: the two do not belong together"));
  }
  if (saved.version == 1 && look == Look::thorough) {
    log_warning(
        str((folder / "state.json").string(),
            ": it is of version 1, which knows no hashes, so damage inside a file of this checkpoint would not be "
            "noticed; the next one that the run saves has them"));
  }
  return saved.state;
}

void check_checkpoint(const fs::path& folder) {
  if (is_there(folder / "state.json")) check_files(folder, Look::thorough);
}

}  // namespace inkling
