// Places where a model's folder is looked for: a folder of the Hugging Face hub's cache, a name on the hub, a folder
// that holds a model in a form that inkling does not read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace inkling {

// Returns the folder that `place` means: of models--OWNER--NAME in the hub's cache the snapshot that refs/main names,
// or the newest; of a model's name on the hub (OWNER/NAME, gpt2) that is no folder here, the same in the cache
// ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub), if it is there; of every other place the place itself.
// Throws Error input if the cache's folder has no snapshot of the model.
std::filesystem::path model_folder(const std::filesystem::path& place);

// What can be said of a place that is not there: that it is a link to nothing, a name on the hub and the command that
// fetches it, or a folder beside it that was meant; "check that …" where nothing is known.
std::string hint_for_missing(const std::filesystem::path& place);

// Throws Error input if one of the model's files in the folder is a link to nothing.
void refuse_broken_links(const std::filesystem::path& folder);

// Throws Error input if the file, or a file in the folder, is a model in a form that inkling does not read (an adapter,
// a pickle, GGUF, TensorFlow's, Flax's), or is one of the files of a folder that should have been named instead.
void refuse_other_forms(const std::filesystem::path& place);

// Files that lie under the name of another: what was saved in place of a model's file, by its first bytes.

// Throws Error input, naming what the file is and how to get the right one, if `beginning` (its first bytes, 1,024 are
// enough) is that of a Git LFS pointer, a web page, a server's answer, a GGUF or HDF5 file, or a pickle of torch.
void refuse_stand_in(const std::filesystem::path& path, std::string_view beginning);

}  // namespace inkling
