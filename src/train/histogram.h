// How the numbers of a tensor are spread.
#pragma once

#include <optional>
#include <span>

#include "formats/event_file.h"

namespace inkling {

// Returns the histogram of the numbers that are finite, in buckets of the same width from the smallest to the largest;
// none where there is no such number.
std::optional<Histogram> histogram_of(std::span<const float> numbers);

}  // namespace inkling
