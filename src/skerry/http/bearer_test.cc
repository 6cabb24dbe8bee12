#include "skerry/http/bearer.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

std::optional<std::string> TokenOf(std::string value) { return BearerTokenOf({{"authorization", std::move(value)}}); }

TEST(Bearer, TokenIsWhatFollowsTheScheme) {
  EXPECT_EQ(TokenOf("Bearer abc123"), "abc123");
  EXPECT_EQ(TokenOf("bEARER  a.b-c=="), "a.b-c==");
}

TEST(Bearer, NothingElseIsAToken) {
  EXPECT_EQ(BearerTokenOf({}), std::nullopt);
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer   ", "Basic YTpi", "Bearerabc", "abc"}) {
    EXPECT_EQ(TokenOf(value), std::nullopt) << value;
  }
  EXPECT_EQ(BearerTokenOf({{"Authorization", "Bearer a"}, {"authorization", "Bearer a"}}), std::nullopt);
}

TEST(Bearer, SecretsAreEqualOnlyInAllBytes) {
  EXPECT_TRUE(SameSecret("secret", "secret"));
  for (const char* given : {"", "s", "secre", "secrets", "Secret", "secreT", "secretsecret"}) {
    EXPECT_FALSE(SameSecret(given, "secret")) << given;
  }
  EXPECT_FALSE(SameSecret(std::string_view("secret\0", 7), "secret"));
}

TEST(Bearer, AnUnsetSecretLetsNobodyIn) {
  EXPECT_FALSE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("x", ""));
}

}  // namespace
}  // namespace skerry
