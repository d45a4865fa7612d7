#include "model/broken_answer.h"

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

void refuse_broken_answer(std::string_view to) {
  throw Error(ErrorKind::diverged, str("the model's answer", to.empty() ? "" : " to ", to,
                                       " is not a number: its training diverged or its weights are damaged; "
                                       "try an earlier checkpoint"));
}

}  // namespace inkling
