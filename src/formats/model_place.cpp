#include "formats/model_place.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/foreign_file.h"
#include "formats/json.h"

namespace inkling {

namespace {

namespace fs = std::filesystem;

bool is_broken_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored) && !fs::exists(path, ignored);
}

std::string target_of(const fs::path& link) {
  std::error_code ignored;
  return fs::read_symlink(link, ignored).string();
}

// The name on the hub that a person may have meant by a path that is not there; empty if it cannot be one.
std::string hub_name(const fs::path& place) {
  std::string text = without_slash(place).string();
  if (const std::size_t scheme = text.find("://"); scheme != std::string::npos) {
    // fs::path leaves an address as it is: SCHEME://HOST/OWNER/NAME and more
    const std::size_t owner = text.find('/', scheme + 3);
    text = owner == std::string::npos ? "" : text.substr(owner + 1);
    const std::size_t name = text.find('/');
    text = text.substr(0, name == std::string::npos ? name : text.find('/', name + 1));
  } else if (text == "gpt2" || text.starts_with("gpt2-")) {  // the sizes of GPT-2 once had no owner
    return str("openai-community/", text);
  } else if (text == "distilgpt2") {
    return str("distilbert/", text);
  } else if (is_there(folder_of(text))) {
    return "";
  }
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() || text.starts_with('.')) return "";
  const std::string both = text.substr(0, slash) + text.substr(slash + 1);
  return both.find_first_not_of(letters) == std::string::npos ? text : "";
}

// Where huggingface_hub keeps what it fetches.
fs::path hub_cache() {
  const auto variable = [](const char* name) {
    const std::string value = std::getenv(name) == nullptr ? "" : std::getenv(name);
    const char* const home = std::getenv("HOME");
    return fs::path(home != nullptr && value.starts_with("~/") ? home + value.substr(1) : value);
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const fs::path cache = variable(name); !cache.empty()) return cache;
  }
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  const fs::path caches = variable("XDG_CACHE_HOME");
  return (caches.empty() ? variable("HOME") / ".cache" : caches) / "huggingface/hub";
}

// The folder of a model in that cache, by its name; empty if it is not there.
fs::path place_in_cache(const fs::path& place) {
  for (std::string name : {without_slash(place).string(), hub_name(place)}) {
    if (name.empty() || name.front() == '/' || name.front() == '.' || name.find("--") != std::string::npos) continue;
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash)) {
      name.replace(slash, 1, "--");
    }
    if (const fs::path folder = hub_cache() / str("models--", name); is_folder(folder)) return folder;
  }
  return {};
}

// The adapter's base, if its file says it.
std::string base_of(const fs::path& folder) {
  try {
    const auto base = JsonFields(folder / "adapter_config.json", "").optional_text("base_model_name_or_path");
    return base ? str(" for ", *base) : "";
  } catch (const Error&) {
    return "";  // it is only a hint
  }
}

// What says of a file what it is.
struct Form {
  bool (*is)(std::string_view name);
  void (*refuse)(const fs::path& file);
};

void refuse_adapter(const fs::path& file) {
  const fs::path folder = folder_of(file);
  throw Error::input(str(folder.string(), " holds an adapter (LoRA)", base_of(folder),
                         ", which is only what is added to a model's weights; merge the two in Python (package peft): "
                         "AutoPeftModelForCausalLM.from_pretrained(\"",
                         folder.string(),
                         "\").merge_and_unload().save_pretrained(NEW_FOLDER), and save the tokenizer there too"));
}

void refuse_gguf(const fs::path& file) {
  throw Error::input(str(file.string(),
                         " is a GGUF file, the format of llama.cpp, which inkling does not read; take the folder it "
                         "was made from (config.json and model.safetensors), or make one in Python: "
                         "AutoModelForCausalLM.from_pretrained(\"",
                         folder_of(file).string(), "\", gguf_file=\"", file.filename().string(),
                         "\").save_pretrained(NEW_FOLDER), and the same with AutoTokenizer"));
}

void refuse_other_framework(const fs::path& file) {
  throw Error::input(str(file.string(),
                         " holds weights of TensorFlow, Flax or another program, which inkling does not read; take the "
                         "model's model.safetensors, or open the folder with transformers 4 "
                         "(from_pretrained(FOLDER, from_tf=True) or from_flax=True) and save it again: "
                         "save_pretrained(NEW_FOLDER)"));
}

void refuse_lone_shard(const fs::path& file) {
  throw Error::input(str(file.string(),
                         " is a part of a model, and model.safetensors.index.json, which says where each ",
                         "tensor lies, is not beside it; fetch that file too"));
}

void refuse_other_name(const fs::path& file) {
  throw Error::input(str(folder_of(file).string(), " holds ", file.filename().string(),
                         " and not model.safetensors, which inkling reads; if these are the model's weights with the "
                         "names that transformers has, rename the file"));
}

bool is_left_by_training(std::string_view name) {
  return name.starts_with("optimizer") || name.starts_with("scheduler") || name.starts_with("rng_state") ||
         name.starts_with("training_args") || name.starts_with("scaler");
}

// In the order in which a folder is asked: a folder of an adapter also holds what its training left.
constexpr Form forms[] = {
    {[](std::string_view name) { return name.starts_with("adapter_"); }, refuse_adapter},
    {[](std::string_view name) {
       return name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".bin.index.json"));
     },
     [](const fs::path& file) { refuse_pickle(file); }},
    {[](std::string_view name) { return name.ends_with(".gguf"); }, refuse_gguf},
    {[](std::string_view name) {
       return name.ends_with(".h5") || name.ends_with(".msgpack") || name.ends_with(".onnx") ||
              name.ends_with(".tflite") || name.ends_with(".ot") || name.ends_with(".ckpt.index");
     },
     refuse_other_framework},
    {[](std::string_view name) { return is_named_pickle(name) && !is_left_by_training(name); },
     [](const fs::path& file) { refuse_pickle(file); }},
    {[](std::string_view name) {
       return name.ends_with(".safetensors") && name.find("-of-") != std::string_view::npos;
     },
     refuse_lone_shard},
    {[](std::string_view name) {
       return name.ends_with(".safetensors") && name != "model.safetensors" && name != "ema.safetensors" &&
              name != "optimizer.safetensors";
     },
     refuse_other_name},
};

void refuse_file(const fs::path& file) {
  const std::string name = file.filename().string();
  const bool is_part = name.ends_with(".safetensors") || name == "config.json" || name.starts_with("tokenizer");
  if (is_part && !name.starts_with("adapter_")) {
    throw Error::input(str(
        file.string(), " is one of the files of a model; give the folder that holds them: ", folder_of(file).string()));
  }
  for (const Form& form : forms) {
    if (form.is(name)) form.refuse(file);
  }
  refuse_if_pickle(file);
  throw Error::input(
      str(file.string(), " is a file and neither a run's folder nor a checkpoint's or a model's; give one of these"));
}

// " of 548,105,171 bytes", as the pointer "version …\noid sha256:4d7a…\nsize 548105171\n" says of its file.
std::string size_behind(std::string_view pointer) {
  constexpr std::string_view size_field = "\nsize ";
  const std::size_t at = pointer.find(size_field);
  if (at == std::string_view::npos) return "";
  const std::string_view digits = pointer.substr(at + size_field.size());
  const auto size = whole_number(digits.substr(0, digits.find('\n')));
  return size ? str(" of ", format_count(static_cast<std::uint64_t>(*size)), " bytes") : "";
}

// What servers send in place of a file, saved by a program that does not look at their status.
bool is_refusal(std::string_view text) {
  constexpr std::string_view answers[] = {"Access to model ",     "Entry not found",
                                          "Repository not found", "Invalid username or password",
                                          "404: Not Found",       "Not Found"};
  return std::any_of(std::begin(answers), std::end(answers),
                     [&](std::string_view answer) { return text.starts_with(answer); });
}

}  // namespace

fs::path model_folder(const fs::path& place) {
  const fs::path cached = is_there(place) ? fs::path() : place_in_cache(place);
  const fs::path folder = cached.empty() ? place : cached;
  const fs::path snapshots = folder / "snapshots";
  if (!without_slash(folder).filename().string().starts_with("models--") || !is_folder(snapshots)) return place;
  std::vector<fs::path> found, with_model;
  for (const std::string& name : names_in(snapshots)) {
    if (!is_folder(snapshots / name)) continue;
    found.push_back(snapshots / name);
    if (is_there(found.back() / "config.json")) with_model.push_back(found.back());
  }
  if (!with_model.empty()) found = with_model;  // the others hold a few files that somebody asked for
  if (found.empty()) {
    throw Error::input(str(
        folder.string(), " is a folder of the hub's cache without a snapshot of the model; fetch it with hf download"));
  }
  if (const fs::path main = folder / "refs/main"; is_there(main) && !is_folder(main)) {
    std::string name = read_small_file(main);
    name.erase(name.find_last_not_of(" \r\n") + 1);
    if (std::find(found.begin(), found.end(), snapshots / name) != found.end()) return snapshots / name;
  }
  return *std::max_element(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return fs::last_write_time(a) < fs::last_write_time(b);
  });
}

std::string hint_for_missing(const fs::path& place) {
  const fs::path path = without_slash(place);
  if (is_broken_link(path)) return str("it is a link to ", target_of(path), ", which is not there");
  if (const std::string name = hub_name(path); !name.empty()) {
    const fs::path local = fs::path("models") / fs::path(name).filename();
    if (is_folder(local)) return str("did you mean ", local.string(), "?");
    return str("if it is the name of a model on the Hugging Face hub, fetch it first: hf download ", name);
  }
  if (const auto nearest = nearest_beside(path)) return str("did you mean ", nearest->string(), "?");
  return "check that its name is spelled right";
}

void refuse_broken_links(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    const fs::path file = folder / name;
    const bool is_read = name.ends_with(".json") || name.ends_with(".safetensors") || name == "tokenizer.model" ||
                         name == "merges.txt" || name == "vocab.bpe";
    if (!is_read || !is_broken_link(file)) continue;
    throw Error::input(str(file.string(), " is a link to ", target_of(file),
                           ", which is not there; the files of a hub's cache are links into its folder blobs, so move ",
                           "or copy the whole folder models--OWNER--NAME, or copy what the links lead to: cp -rL"));
  }
}

void refuse_other_forms(const fs::path& place) {
  if (!is_folder(place)) return refuse_file(place);
  const std::vector<std::string> names = names_in(place);
  for (const Form& form : forms) {
    for (const std::string& name : names) {
      if (form.is(name)) form.refuse(place / name);
    }
  }
}

void refuse_stand_in(const fs::path& path, std::string_view beginning) {
  const std::string_view text = beginning.substr(0, 1024);
  const std::string folder = shell_word(folder_of(path).string());
  const std::string whole = str("the whole model: hf download OWNER/NAME --local-dir ", folder);
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error::input(str(path.string(), " is ", what, "; ", remedy));
  };
  if (is_pointer_of_git_lfs(text)) {
    refuse(str("a Git LFS pointer, which stands for a file", size_behind(text), " that was not fetched"),
           str("fetch it: git -C ", folder, " lfs pull, or ", whole));
  }
  if (is_web_page(text) || text.starts_with("<?xml")) {
    refuse("a web page that was saved under this name",
           str("download the file itself (its address has resolve where the page's has blob), or ", whole));
  }
  if (is_refusal(text)) {
    refuse(str("not the file but what a server answered, ", quote(text.substr(0, text.find('\n')).substr(0, 80))),
           str("download it anew, logged in if the model asks for it (hf auth login), or ", whole));
  }
  if (text.starts_with("GGUF")) {
    refuse("a GGUF file, the format of llama.cpp, which inkling does not read",
           "take the model.safetensors that it was made from");
  }
  if (text.starts_with("\x89HDF\r\n\x1a\n")) {
    refuse("an HDF5 file, weights of TensorFlow, which inkling does not read", "take the model's model.safetensors");
  }
  if (text.starts_with("PK\x03\x04")) refuse_pickle(path);
}

}  // namespace inkling
