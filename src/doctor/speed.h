// Measures what this machine can do, and says what `auto` makes of it.
#pragma once

#include <string>

#include "doctor/facts.h"
#include "runtime/device.h"

namespace inkling::doctor {

// What `runtime` can do at most, measured in about half a second. Counts of threads in between are left out.
Speed measure_speed(const Runtime& runtime, const Facts& facts);

// The peak for a number of threads: what was measured for the nearest one, in proportion.
double product_flops(const Speed& speed, int threads);

// What `auto` means for each setting under runtime:, and why; it was decided by resolve_runtime() alone.
Choices explain_choices(const Runtime& runtime, const Facts& facts);

}  // namespace inkling::doctor
