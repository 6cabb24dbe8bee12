#include "skerry/board/json_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

using nlohmann::json;

std::string WhyNot(std::string_view text) { return MessageOf(ParseJsonObject(AsBytes(text), 1 << 20, "x.json")); }

TEST(ParseJsonObject, ReadsWhatNlohmannReads) {
  const std::string text = R"({"a":[1,-2,3.5,true,null,"t"],"b":{"c":{"d":18446744073709551615}},"e":[[],{}]})";
  EXPECT_EQ(ParseJsonObject(AsBytes(text), 1000, "x").value(), json::parse(text));
}

TEST(ParseJsonObject, RefusesARepeatedKeyAtAnyDepth) {
  EXPECT_EQ(WhyNot(R"({"a":1,"b":2,"a":1})"), "x.json: the key 'a' is there twice in one object");
  EXPECT_EQ(WhyNot(R"({"l":[{"k":1,"k":2}]})"), "x.json: the key 'k' is there twice in one object");
  EXPECT_EQ(WhyNot(R"({"a":{"a":1},"b":{"a":1}})"), "") << "in different objects it may be";
  EXPECT_NE(WhyNot(R"({"a":1,"\u0061":2})"), "") << "however it is spelt";
}

TEST(ParseJsonObject, RefusesWhatIsNotOneWholeObject) {
  for (const std::string_view text : {"[]", "1", "\"x\"", "null"}) {
    EXPECT_EQ(WhyNot(text), "x.json: it is not a JSON object") << text;
  }
  for (const std::string_view text : {"{", "{} {}", "{}x", "{\"a\":}", "{a:1}", "{\"a\":01}", "{\"a\":NaN}", "{,}"}) {
    EXPECT_NE(WhyNot(text).find("malformed JSON"), std::string::npos) << text;
  }
  EXPECT_EQ(WhyNot(""), "x.json: it is empty");
  EXPECT_NE(WhyNot(std::string_view("\0\0\0\0", 4)), "");
  EXPECT_NE(WhyNot("{\"a\":\"\xff\"}"), "");
}

TEST(ParseJsonObject, BoundsSizeAndDepth) {
  const Result<json> long_one = ParseJsonObject(AsBytes("{\"a\":1}"), 6, "x");
  EXPECT_EQ(MessageOf(long_one), "x: it has 7 bytes, more than the limit of 6");
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(WhyNot(nested(16)), "");
  EXPECT_EQ(WhyNot(nested(17)), "x.json: it is nested more than 16 deep");
  EXPECT_EQ(WhyNot("{\"a\":" + std::string(500'000, '[')), "x.json: it is nested more than 16 deep");
}

class JsonFieldsTest : public testing::Test {
 protected:
  JsonFields Fields(const json& value) {
    document_ = json::parse(value.dump());  // numbers as a parser makes them
    error_.reset();
    return JsonFields(document_, "x", error_);
  }
  json document_;
  std::optional<Error> error_;
};

TEST_F(JsonFieldsTest, TakeWholeNumbersOnlyAndNameTheField) {
  EXPECT_EQ(Fields({{"n", 5}}).Unsigned("n", 5), 5u);
  EXPECT_EQ(Fields({{"n", UINT64_MAX}}).Unsigned("n"), UINT64_MAX);
  for (const json& bad : {json(6), json(-1), json(1.0), json("1"), json(nullptr), json(true), json::array()}) {
    EXPECT_EQ(Fields({{"n", bad}}).Unsigned("n", 5), 0u);
    ASSERT_TRUE(error_.has_value()) << bad;
    EXPECT_EQ(error_->message.substr(0, 7), "x.n is ") << error_->message;
    EXPECT_EQ(error_->code, Code::kCorrupt);
  }
  Fields(json::object()).Unsigned("n", 5);
  EXPECT_EQ(error_->message, "x.n is missing, but must be a whole number between 0 and 5");
}

TEST_F(JsonFieldsTest, TakeDigestsInOneSpellingOnly) {
  const std::string hex = Sha256::Of("abc").Hex();
  EXPECT_EQ(Fields({{"d", hex}}).Sha256("d"), Sha256::Of("abc"));
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  for (const std::string& bad : {upper, hex.substr(2), hex + "00", std::string(64, 'g'), std::string()}) {
    Fields({{"d", bad}}).Sha256("d");
    EXPECT_TRUE(error_.has_value()) << bad;
  }
}

TEST_F(JsonFieldsTest, KeepTheFirstErrorOfTheWholeDocument) {
  JsonFields fields = Fields({{"o", {{"a", 1}}}, {"l", {{{"b", -1}}, 7}}});
  EXPECT_EQ(fields.Object("o").Unsigned("a"), 1u);
  std::vector<JsonFields> list = fields.Objects("l", 2);
  ASSERT_EQ(list.size(), 2u);
  list[0].Unsigned("b");
  EXPECT_EQ(MessageOf(fields.status()), "x.l[1] is not an object");
  fields.Objects("l", 1);
  EXPECT_EQ(MessageOf(fields.status()), "x.l[1] is not an object");
}

TEST_F(JsonFieldsTest, SurviveMissingObjectsAndLists) {
  JsonFields fields = Fields(json::object());
  EXPECT_EQ(fields.Object("o").Object("p").Text("t", 10), "");
  EXPECT_TRUE(fields.Objects("l", 10).empty());
  EXPECT_EQ(MessageOf(fields.status()), "x.o is missing, but must be an object");
}

TEST_F(JsonFieldsTest, TellANewerFormatFromADamagedOne) {
  Fields({{"format", 2}}).CheckFormat(1);
  EXPECT_EQ(error_->code, Code::kUnsupported);
  Fields({{"format", 0}}).CheckFormat(1);
  EXPECT_EQ(error_->code, Code::kCorrupt);
  Fields({{"format", 1}}).CheckFormat(1);
  EXPECT_FALSE(error_.has_value());
}

TEST(DumpJson, SortsKeysAndRefusesBadUtf8) {
  EXPECT_EQ(AsText(DumpJson({{"b", 1}, {"a", {1, 2}}}, "x").value()), R"({"a":[1,2],"b":1})");
  EXPECT_EQ(CodeOf(DumpJson({{"a", "\xff"}}, "x")), "invalid");
}

}  // namespace
}  // namespace skerry
