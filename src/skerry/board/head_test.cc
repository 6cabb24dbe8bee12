#include "skerry/board/head.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

using nlohmann::json;

Head Sample() {
  const Manifest manifest = SampleManifest(RunNamed("grpo-1"), Version(7), Sha256::Of("parent"));
  const Digest sha256 = Sha256::Of("manifest");
  return SampleHead(manifest, {.key = StagedManifestKey(manifest.run, manifest.version, sha256), .sha256 = sha256}, 9);
}
Result<Head> Parse(const json& document) { return ParseHead(AsBytes(document.dump())); }

TEST(Head, ComesBackAsItWasWritten) {
  const Bytes bytes = SerializeHead(Sample()).value();
  const Head again = ParseHead(bytes).value();
  EXPECT_EQ(SerializeHead(again).value(), bytes);
  EXPECT_EQ(again.version, Version(7));
  EXPECT_EQ(again.sequence, 9u);
  EXPECT_EQ(again.manifest.sha256, Sha256::Of("manifest"));
  EXPECT_EQ(again.publisher, "publisher-a");
}

Head SampleOfViews() {
  Head head = Sample();
  for (const char* name : {"fp8-block", "nf4"}) {
    const Digest manifest = Sha256::Of(name);
    const RunId view = head.run.View(name).value();
    head.views.push_back({.view = name,
                          .manifest = {.key = StagedManifestKey(view, head.version, manifest), .sha256 = manifest},
                          .model = Sha256::Of("model")});
  }
  return head;
}

TEST(Head, IsAtTheSameVersionInEachView) {
  const Head sample = SampleOfViews();
  const Head head = ParseHead(SerializeHead(sample).value()).value();
  EXPECT_EQ(head, sample);
  const Head view = head.OfView("nf4").value();
  EXPECT_EQ(view.run, RunNamed("grpo-1/nf4"));
  EXPECT_EQ(view.version, head.version);
  EXPECT_EQ(view.nonce, head.nonce);
  EXPECT_EQ(view.manifest.sha256, Sha256::Of("nf4"));
  EXPECT_TRUE(view.views.empty());
  EXPECT_EQ(head.OfView("").value(), head);
  EXPECT_EQ(CodeOf(head.OfView("mxfp4")), "not_found");
  EXPECT_EQ(MessageOf(head.OfView("mxfp4")), "run grpo-1 has no view 'mxfp4'; its views: fp8-block, nf4");
}

TEST(Head, RefusesViewsThatAreNoneOrTwiceThere) {
  const json document = json::parse(AsText(SerializeHead(SampleOfViews()).value()));
  for (const json& name : {json(""), json("a/b"), json(7), json("nf4"), json("zz"), json(nullptr)}) {
    json wrong = document;
    wrong["views"][0]["view"] = name;
    EXPECT_EQ(CodeOf(Parse(wrong)), "corrupt") << name;
  }
  json of_view = document;
  of_view["run"] = "grpo-1/fp8-block";
  EXPECT_EQ(CodeOf(Parse(of_view)), "corrupt");
  json many = document;
  for (size_t i = 0; i < kMaxViews; ++i) many["views"].push_back(document["views"][0]);
  EXPECT_EQ(CodeOf(Parse(many)), "corrupt");
}

TEST(Head, ThatIsEmptyOrZeroedOrGarbledIsCorruptAndNeverVersionZero) {
  const Bytes good = SerializeHead(Sample()).value();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(CodeOf(ParseHead(ByteSpan(good).first(size))), "corrupt") << "cut after " << size;
  }
  EXPECT_EQ(CodeOf(ParseHead(Bytes(good.size(), std::byte{0}))), "corrupt");
  Bytes tail_lost = good;
  std::fill(tail_lost.begin() + 20, tail_lost.end(), std::byte{0});
  EXPECT_EQ(CodeOf(ParseHead(tail_lost)), "corrupt");
  EXPECT_EQ(CodeOf(ParseHead(AsBytes("{}"))), "corrupt");
  EXPECT_EQ(CodeOf(ParseHead(AsBytes("latest: 7"))), "corrupt");
  EXPECT_EQ(CodeOf(ParseHead(Bytes(kMaxHeadBytes + 1, std::byte{' '}))), "corrupt");
}

TEST(Head, RefusesEveryMissingOrWrongFieldByItsName) {
  const json document = json::parse(AsText(SerializeHead(Sample()).value()));
  for (const auto& [name, value] : document.items()) {
    json without = document, wrong = document;
    without.erase(name);
    wrong[name] = json::array({1});
    EXPECT_EQ(CodeOf(Parse(without)), "corrupt") << name;
    EXPECT_EQ(MessageOf(Parse(wrong)).substr(0, 5 + name.size()), "head." + name) << MessageOf(Parse(wrong));
  }
  for (const char* name : {"epoch", "sequence"}) {
    json zero = document;
    zero[name] = 0;
    EXPECT_EQ(CodeOf(Parse(zero)), "corrupt") << name;
  }
}

TEST(Head, OfANewerFormatIsUnsupported) {
  json document = json::parse(AsText(SerializeHead(Sample()).value()));
  document["format"] = 2;
  EXPECT_EQ(CodeOf(Parse(document)), "unsupported");
}

TEST(Head, ThatNobodyCouldReadIsNotWritten) {
  Head head = Sample();
  head.nonce = "";
  EXPECT_EQ(CodeOf(SerializeHead(head)), "invalid");
  head = Sample();
  head.run = RunId();
  EXPECT_EQ(CodeOf(SerializeHead(head)), "invalid");
  head = Sample();
  head.manifest.key = "../elsewhere";
  EXPECT_EQ(CodeOf(SerializeHead(head)), "invalid");
}

}  // namespace
}  // namespace skerry
