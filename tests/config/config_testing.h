// What the tests of this floor share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"

namespace inkling {

// The message that this input is refused with; "accepted" if it is not.
inline std::string message_of(const std::string& yaml, const std::vector<std::string>& flags = {}) {
  try {
    parse_config(yaml, "run.yaml", flags);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.message();
  }
  return "accepted";
}

}  // namespace inkling
