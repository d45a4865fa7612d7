// What libinkling.so asks of libinkling_core.so, which it loads when LibTorch has been found.
#pragma once

#include "library/inkling.h"

namespace inkling {

struct OpenModel {
  virtual ~OpenModel() = default;
  virtual std::vector<std::string> samples(const std::string& prompt, std::uint64_t count,
                                           const SampleOptions& options) = 0;
};

// The core's only symbol, of this type. Throws Error.
extern "C" INKLING_EXPORT OpenModel* inkling_open_model(const std::filesystem::path& folder,
                                                        const LoadOptions& options);

}  // namespace inkling
