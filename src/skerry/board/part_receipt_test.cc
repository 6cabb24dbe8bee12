#include "skerry/board/part_receipt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

using nlohmann::json;

PartReceipt Sample() {
  return {.run = RunNamed("r"),
          .version = Version(7),
          .base = Sha256::Of("base"),
          .index = 2,
          .of = 4,
          .part = {.object = {.key = "runs/r/versions/000000007/delta-002-0123456789abcdef.skerry",
                              .uri = {},
                              .size = 9,
                              .sha256 = Sha256::Of("patch")},
                   .tensors = {{.first = 3, .count = 2}}},
          .base_digests = {{.a = 1, .b = UINT64_MAX}, {.a = 2, .b = 3}},
          .target_digests = {{.a = 4, .b = 5}, {.a = 6, .b = 7}},
          .changed = 8,
          .tensors_changed = 1,
          .side_files_changed = 0};
}

TEST(PartReceipt, ComesBackAsItWasWritten) {
  const Bytes bytes = SerializePartReceipt(Sample()).value();
  EXPECT_EQ(ParsePartReceipt(bytes).value(), Sample());
  EXPECT_EQ(SerializePartReceipt(ParsePartReceipt(bytes).value()).value(), bytes);
}

TEST(PartReceipt, RefusesWhatDoesNotAddUp) {
  const json good = json::parse(AsText(SerializePartReceipt(Sample()).value()));
  const auto with = [&](const char* name, json value) {
    json document = good;
    document[name] = std::move(value);
    return MessageOf(ParsePartReceipt(AsBytes(document.dump())));
  };
  EXPECT_EQ(with("index", 2), "");
  EXPECT_EQ(with("index", 4), "receipt is of part 4 of 4");
  EXPECT_EQ(with("objects", json::array()), "receipt.objects is empty");
  EXPECT_EQ(with("base_digests", "00"), "receipt.base_digests is not 32 hexadecimal digits a tensor");
  EXPECT_EQ(with("base_digests", std::string(32, '0')), "receipt has 1 digests of the base and 2 of the target");
  for (const auto& [name, value] : good.items()) {
    json without = good;
    without.erase(name);
    EXPECT_EQ(CodeOf(ParsePartReceipt(AsBytes(without.dump()))), "corrupt") << name;
  }
}

}  // namespace
}  // namespace skerry
