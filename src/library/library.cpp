// libinkling.so: finds LibTorch, loads it and libinkling_core.so, which uses it, and passes calls on.
#include <dlfcn.h>

#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "library/inkling.h"
#include "library/open_model.h"
#include "library/torch_folder.h"

namespace inkling {
namespace {

// Calls what may throw an Error, in terms of the standard's exceptions.
template <typename Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input) throw std::invalid_argument(error.message());
    throw std::runtime_error(error.message());
  } catch (const std::runtime_error&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // LibTorch's, with a stack trace behind the first line
    const std::string_view what = error.what();
    throw std::runtime_error(std::string(what.substr(0, what.find('\n'))));
  }
}

void* load_library(const std::filesystem::path& file, int flags) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | flags);
  if (library != nullptr) return library;
  const char* const reason = dlerror();
  throw Error::environment(str(file.string(), " cannot be loaded: ", reason == nullptr ? "no reason given" : reason));
}

// LibTorch names the folders of what it needs relative to its own, so that its path is enough to load it.
decltype(&inkling_open_model) load_core() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&load), &self);
  const std::filesystem::path beside = std::filesystem::absolute(self.dli_fname).parent_path();
  load_library(require_torch("inkling", INKLING_TORCH_VERSION) / "lib/libtorch_cpu.so", RTLD_GLOBAL);
  void* const core = load_library(beside / "inkling/libinkling_core.so", RTLD_LOCAL);
  return reinterpret_cast<decltype(&inkling_open_model)>(dlsym(core, "inkling_open_model"));
}

}  // namespace

TextModel::TextModel(std::unique_ptr<OpenModel> model) : model_(std::move(model)) {}
TextModel::TextModel(TextModel&&) noexcept = default;
TextModel& TextModel::operator=(TextModel&&) noexcept = default;
TextModel::~TextModel() = default;

std::string TextModel::sample(const std::string& prompt, const SampleOptions& options) const {
  return samples(prompt, 1, options).front();
}

std::vector<std::string> TextModel::samples(const std::string& prompt, std::uint64_t count,
                                            const SampleOptions& options) const {
  return translated([&] { return model_->samples(prompt, count, options); });
}

TextModel load(const std::filesystem::path& run_or_checkpoint, const LoadOptions& options) {
  return translated([&] {
    static const auto open_model = load_core();
    return TextModel(std::unique_ptr<OpenModel>(open_model(run_or_checkpoint, options)));
  });
}

}  // namespace inkling
