#include "skerry/base/text.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

TEST(Utf8, TakesWellFormedTextOnly) {
  for (const char* text : {"", "abc", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x90\xA7", "\xEF\xBF\xBF",
                           "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text :
       {"\x80", "\xC3", "\xC3(", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "a\xF0\x9F\x90", "\xA4\xC3"}) {
    EXPECT_FALSE(IsUtf8(text));
  }
}

TEST(Printable, LeavesTextAloneAndDisarmsTheRest) {
  EXPECT_EQ(Printable("tensor 'a' \xC3\xA4"), "tensor 'a' \xC3\xA4");
  const std::string disarmed = Printable(std::string("a\x1B[2J\n\0\xFF\x7F", 9));
  for (const char c : disarmed) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << disarmed;
  EXPECT_NE(disarmed.find("\\x1b"), std::string::npos) << disarmed;
}

}  // namespace
}  // namespace skerry
