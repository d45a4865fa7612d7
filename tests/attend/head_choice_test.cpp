// A head as people name it.
#include "attend/attended_text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace inkling {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_head(text, 2, 8);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.message();
  }
  ADD_FAILURE() << text << " was read";
  return {};
}

TEST(HeadChoice, IsALayerAndAHeadCountedFromZero) {
  EXPECT_EQ(read_head("0.0", 1, 1), (HeadChoice{0, 0}));
  EXPECT_EQ(read_head("1.7", 2, 8), (HeadChoice{1, 7}));
  EXPECT_EQ(read_head("11.10", 12, 12), (HeadChoice{11, 10}));
  EXPECT_EQ(head_text({11, 10}), "11.10");
}

TEST(HeadChoice, WhatIsNoHeadIsRefusedWithTheHeadsThereAre) {
  for (const char* text :
       {"", ".", "1", "1.", ".1", "-1.0", "0.-1", "+1.0", "1 .0", "1,2", "1.2.0", "L1.H2", "0x1.0"}) {
    EXPECT_NE(refusal(text).find(
                  "is no head of the model, which is written as a layer and a head, both counted from 0: 0.0 to 1.7"),
              std::string::npos)
        << refusal(text);
  }
  for (const char* text : {"2.0", "0.8", "99999999999999999.0"}) {
    EXPECT_NE(refusal(text).find("the model, which has 2 layers of 8 heads, both counted from 0: 0.0 to 1.7"),
              std::string::npos)
        << refusal(text);
  }
}

}  // namespace
}  // namespace inkling
