#include "base/ordered_work.h"

#include <sched.h>

#include <algorithm>

namespace inkling {

std::size_t usable_processors() {
  cpu_set_t processors;
  if (::sched_getaffinity(0, sizeof processors, &processors) == 0) {
    return static_cast<std::size_t>(std::max(CPU_COUNT(&processors), 1));
  }
  return std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
}

}  // namespace inkling
