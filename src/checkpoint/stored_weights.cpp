#include "checkpoint/stored_weights.h"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/model_place.h"

namespace inkling {

namespace {

// GPT-2's causal masks and the angles of rotary positions.
bool is_old_buffer(std::string_view name) {
  constexpr std::string_view buffers[] = {"attn.bias", "attn.masked_bias", "rotary_emb.inv_freq",
                                          "rotary_emb.cos_cached", "rotary_emb.sin_cached"};
  return std::ranges::any_of(buffers,
                             [&](std::string_view buffer) { return str(".", name).ends_with(str(".", buffer)); });
}

std::vector<SafetensorsFile> open_average(const fs::path& folder) {
  if (!holds_average(folder)) {
    throw Error::input(str(folder.string(),
                           ": holds no ema.safetensors, because the run kept no average of its weights when it was "
                           "saved; take the weights as trained, choose another checkpoint, such as the newest, or "
                           "train with training.ema: 0.999 or the like"));
  }
  std::vector<SafetensorsFile> files;
  files.emplace_back(folder / "ema.safetensors");
  return files;
}

// Opens model.safetensors, or the files that an index names.
std::vector<SafetensorsFile> open_weights(const fs::path& folder) {
  std::vector<SafetensorsFile> files;
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_there(folder / "model.safetensors")) {
    files.emplace_back(folder / "model.safetensors");
  } else if (is_there(index)) {
    const JsonFields fields(index, model_remedy);
    std::set<std::string> names;
    for (const auto& [tensor, name] : fields.named_texts("weight_map")) names.insert(name);
    for (const std::string& name : names) {
      if (fs::path(name).filename() != name || !name.ends_with(".safetensors")) {
        fields.refuse(str("weight_map names ", quote(name), ", and must name .safetensors files beside it"));
      }
      if (!is_there(folder / name)) {
        throw Error::input(str((folder / name).string(), ": the index beside it names this file, and it is not there; ",
                               "fetch it too, or the whole model: hf download OWNER/NAME --local-dir ",
                               folder.string()));
      }
      files.emplace_back(folder / name);
    }
    if (files.empty()) fields.refuse("weight_map names no file");
  } else {
    refuse_other_forms(folder);
    throw Error::input(str(folder.string(), ": holds no model.safetensors; fetch it from where config.json came from, ",
                           "or give another model's or checkpoint's folder"));
  }
  return files;
}

void check(const Stored& stored, std::span<const std::int64_t> shape) {
  check_tensor(*stored.file, *stored.entry, shape);
}

void put(Stored& place, const Stored& found) {
  if (place.entry != nullptr) {
    throw Error::input(str(found.path(), ": holds the tensor ", quote(found.entry->name), ", which ", place.path(),
                           " holds too; fetch or save the model again"));
  }
  place = found;
}

// Whether two matrices of one shape are equal, in float32. It reads some rows at a time.
bool are_equal(const Stored& a, const Stored& b) {
  constexpr std::uint64_t elements_at_once = 1 << 20;
  const std::uint64_t rows = a.entry->shape[0],
                      at_once = std::max<std::uint64_t>(elements_at_once / a.entry->shape[1], 1);
  const auto part = [&](const Stored& of, std::uint64_t first, std::uint64_t count) {
    TensorEntry entry = *of.entry;
    const std::uint64_t row_bytes = entry.bytes() / rows;
    entry.begin += first * row_bytes;
    entry.end = entry.begin + count * row_bytes;
    entry.shape[0] = count;
    return read_tensor(*of.file, entry).to(at::kFloat);
  };
  for (std::uint64_t first = 0; first < rows; first += at_once) {
    const std::uint64_t count = std::min(at_once, rows - first);
    if (!at::equal(part(a, first, count), part(b, first, count))) return false;
  }
  return true;
}

bool is_head(const FileTensor& tensor) { return tensor.name == head_name; }

[[noreturn]] void refuse_missing_head(const fs::path& file) {
  throw Error::input(str(file.string(), ": has no tensor ", quote(head_name),
                         ", and config.json does not say \"tie_word_embeddings\": true, so the model needs an output "
                         "head of its own; check that the file and its config.json belong together"));
}

}  // namespace

StoredWeights::StoredWeights(const fs::path& folder, const ModelDescription& model, SavedWeights which)
    : files_(which == SavedWeights::ema ? open_average(folder) : open_weights(folder)),
      shape_(model.shape),
      family_(model.family),
      prefix_(prefix_of(model.family)),
      tensors_(file_tensors(model.shape, model.family)) {
  const auto is_first = [&](const TensorEntry& entry) { return entry.name == tensors_.front().name; };
  for (const SafetensorsFile& file : files_) {
    prefixed_ = prefixed_ || std::ranges::any_of(file.header().tensors, is_first);
  }
  is_tied_ = std::ranges::none_of(tensors_, is_head);
  sort_entries();
  check_names();
  for (const FileTensor& tensor : tensors_) check(stored(tensor), tensor.shape);
  if (head_.entry != nullptr) check_head();
}

// Names of a file without the prefix are completed.
void StoredWeights::sort_entries() {
  for (const SafetensorsFile& file : files_) {
    for (const TensorEntry& entry : file.header().tensors) {
      const bool has_prefix = entry.name.starts_with(prefix_);
      if (entry.name == head_name) {
        put(is_tied_ ? head_ : stored_[entry.name], {&file, &entry});
      } else if (is_old_buffer(entry.name)) {
        passed_over_.push_back(entry.name);
      } else if (has_prefix != prefixed_) {
        refuse_unknown(file.path(), std::vector{entry.name});
      } else {
        put(stored_[prefixed_ ? entry.name : str(prefix_, entry.name)], {&file, &entry});
      }
    }
  }
}

void StoredWeights::check_names() const {
  std::vector<std::string> missing, unknown;
  std::map<std::string, Stored> left = stored_;
  for (const FileTensor& tensor : tensors_) {
    const bool is_whole = prefixed_ || is_head(tensor);
    if (left.erase(tensor.name) == 0) missing.push_back(tensor.name.substr(is_whole ? 0 : prefix_.size()));
  }
  if (missing == std::vector{std::string(head_name)}) refuse_missing_head(files_.front().path());
  if (!missing.empty()) refuse_missing(files_.front().path(), missing);
  for (const auto& [name, stored] : left) unknown.push_back(stored.entry->name);
  if (!unknown.empty()) refuse_unknown(left.begin()->second.file->path(), unknown);
}

// A head that is stored beside a tied token table is a copy of it, or the one that the model has.
void StoredWeights::check_head() {
  const FileTensor& table = tensors_.front();
  check(head_, table.shape);
  if (are_equal(head_, stored(table))) return;
  has_other_head_ = true;
  shape_.tie_embeddings = false;
  tensors_ = file_tensors(shape_, family_);
  stored_[std::string(head_name)] = head_;
}

}  // namespace inkling
