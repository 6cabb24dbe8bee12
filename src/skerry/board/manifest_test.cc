#include "skerry/board/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

using nlohmann::json;

Manifest Delta() { return SampleManifest(RunNamed("grpo-1"), Version(7), Sha256::Of("parent")); }
Manifest Base() { return SampleManifest(RunNamed("grpo-1"), Version(0), std::nullopt); }

// The sample with an anchor of its own and everything optional.
Manifest Full() {
  Manifest manifest = Delta();
  manifest.anchors.insert(manifest.anchors.begin(),
                          {.version = Version(7), .bytes = 1700, .object = manifest.edges[0].parts[0].object});
  manifest.edges.push_back(manifest.edges[0]);
  manifest.edges[1].kind = "skip";
  manifest.edges[1].from = Version(0);
  manifest.edges[1].parts.push_back(manifest.edges[1].parts[0]);
  manifest.edges[1].parts[0].tensors = {{.first = 0, .count = 3}, {.first = 5, .count = 1}};
  manifest.edges[1].parts[1].tensors = {{.first = 3, .count = 2}};
  return manifest;
}

json Document(const Manifest& manifest) { return json::parse(AsText(SerializeManifest(manifest).value())); }
Result<Manifest> Parse(const json& document) { return ParseManifest(AsBytes(document.dump())); }

TEST(Manifest, ComesBackAsItWasWritten) {
  for (const Manifest& manifest : {Base(), Delta(), Full()}) {
    const Bytes bytes = SerializeManifest(manifest).value();
    const Manifest again = ParseManifest(bytes).value();
    EXPECT_EQ(again, manifest);
    EXPECT_EQ(SerializeManifest(again).value(), bytes);
  }
}

TEST(Manifest, IsCompactAndSorted) {
  const std::string text = ToString(SerializeManifest(Delta()).value());
  EXPECT_EQ(text.substr(0, 13), R"({"anchors":[{)");
  EXPECT_EQ(text.find_first_of(" \n\t"), std::string::npos);
  EXPECT_EQ(json::parse(text).dump(), text);
}

TEST(Manifest, IsTheWorkedExampleOfTheProtocolDocument) {
  const Digest base = Sha256::Of(SerializeManifest(Base()).value());
  const Manifest example = SampleManifest(RunNamed("grpo-1"), Version(1), base);
  EXPECT_EQ(Sha256::Of(SerializeManifest(example).value()).Hex(),
            "70dd180ef9f4a8e81387f815ad400c9cec440ba5f422d9d5001d04169e3c9dea");
}

TEST(Manifest, WorksWithoutAStep) {
  Manifest manifest = Delta();
  manifest.step.reset();
  EXPECT_EQ(Parse(Document(manifest)).value(), manifest);
  json document = Document(manifest);
  document["step"] = nullptr;
  EXPECT_EQ(Parse(document).value(), manifest);
}

TEST(Manifest, IgnoresUnknownFieldsButNotUnknownFeatures) {
  json document = Document(Delta());
  document["colour"] = {{"deep", 1.5}};
  document["stats"]["joules"] = -3;
  EXPECT_EQ(Parse(document).value(), Delta());
  document["features"] = {"sealed", "fp3"};
  EXPECT_EQ(CodeOf(Parse(document)), "unsupported");
  EXPECT_NE(MessageOf(Parse(document)).find("sealed, fp3"), std::string::npos) << MessageOf(Parse(document));
}

TEST(Manifest, OfANewerFormatIsUnsupported) {
  json document = Document(Delta());
  document["format"] = 2;
  EXPECT_EQ(MessageOf(Parse(document)), "manifest has format 2; this program knows formats up to 1");
  EXPECT_EQ(CodeOf(Parse(document)), "unsupported");
}

TEST(Manifest, RefusesEveryMissingFieldByItsName) {
  const json document = Document(Full());
  for (const auto& [name, value] : document.items()) {
    if (name == "step" || name == "parent") continue;
    json without = document;
    without.erase(name);
    const Result<Manifest> parsed = Parse(without);
    EXPECT_EQ(CodeOf(parsed), "corrupt") << name;
    EXPECT_NE(MessageOf(parsed).find("manifest." + name + " is missing"), std::string::npos) << MessageOf(parsed);
  }
}

struct Damage {
  const char* pointer;
  json value;
  const char* message;
};

TEST(Manifest, RefusesEveryWrongValueByItsName) {
  const std::string long_text(5000, 'x');
  const std::vector<Damage> damages = {
      {"/version", -1, "manifest.version is -1"},
      {"/version", 7.0, "manifest.version is 7.0"},
      {"/version", "7", "manifest.version is \"7\""},
      {"/version", 1'000'000'000, "manifest.version is 1000000000"},
      {"/run", "../other", "manifest.run is"},
      {"/run", "", "manifest.run is"},
      {"/step", -5, "manifest.step is -5"},
      {"/step", UINT64_MAX, "manifest.step is"},
      {"/time", long_text, "manifest.time is"},
      {"/layout", "abc", "manifest.layout is"},
      {"/model", 3, "manifest.model is 3"},
      {"/tensor_digests/size", -2, "manifest.tensor_digests.size is -2"},
      {"/tensor_digests/key", "../../etc/passwd", "manifest.tensor_digests.key: "},
      {"/side_files", json::object(), "manifest.side_files is"},
      {"/side_files/0", 7, "manifest.side_files[0] is not an object"},
      {"/side_files/0/path", "../config.json", "manifest.side_files[0].path: "},
      {"/side_files/0/path", "/etc/passwd", "manifest.side_files[0].path: "},
      {"/edges/0/from", 7, "manifest.edges[0].from is 7, but must be before version 7"},
      {"/edges/0/kind", "", "manifest.edges[0].kind is"},
      {"/edges/0/objects", json::array(), "manifest.edges[0].objects is empty"},
      {"/edges/0/objects/0/uri", "file:///x", "manifest.edges[0].objects[0] must have either a key or a uri"},
      {"/edges/0/objects/0/key", nullptr, "manifest.edges[0].objects[0] must have either a key or a uri"},
      {"/edges/1/objects/0/tensors/1/first", 3, "manifest.edges[1].objects[0].tensors[1] is empty, or not after"},
      {"/edges/1/objects/0/tensors/0/count", 0, "manifest.edges[1].objects[0].tensors[0] is empty, or not after"},
      {"/edges/1/objects/0/tensors/0/count", 1e3, "manifest.edges[1].objects[0].tensors[0].count is"},
      {"/edges/1/objects/1/tensors/0/first", 2, "manifest.edges[1].objects: two parts have tensor 2"},
      {"/edges/1/objects/1/tensors", nullptr, "manifest.edges[1].objects has 2 parts, but"},
      {"/anchors/0/version", 8, "manifest.anchors[0].version is 8"},
      {"/anchors/1/version", 7, "manifest.anchors[1].version is 7"},
      {"/anchors/0/object", 1, "manifest.anchors[0].object is 1"},
      {"/fork",
       {{"run", "r"}, {"version", 1}, {"manifest", std::string(64, 'a')}},
       "manifest.fork is there at version 7"},
      {"/parent", nullptr, "manifest.parent is missing at version 7"},
      {"/stats/changed", 1e30, "manifest.stats.changed is"},
      {"/features", "none", "manifest.features is"},
      {"/features", {1}, "manifest.features[0] is not"},
      {"/views", {{{"view", "a/b"}, {"manifest", std::string(64, 'a')}}}, "manifest.views[0].view is 'a/b'"},
      {"/views", {{{"view", "nf4"}}}, "manifest.views[0].manifest is missing"},
  };
  for (const Damage& damage : damages) {
    json document = Document(Full());
    document[json::json_pointer(damage.pointer)] = damage.value;
    const Result<Manifest> parsed = Parse(document);
    EXPECT_EQ(CodeOf(parsed), "corrupt") << damage.pointer;
    EXPECT_EQ(MessageOf(parsed).substr(0, std::string(damage.message).size()), damage.message);
  }
}

TEST(Manifest, RefusesRepeatedKeysAndPaths) {
  std::string text = ToString(SerializeManifest(Delta()).value());
  text.insert(1, R"("version":7,)");
  EXPECT_EQ(MessageOf(ParseManifest(AsBytes(text))), "manifest: the key 'version' is there twice in one object");
  Manifest manifest = Delta();
  manifest.side_files.push_back(manifest.side_files[0]);
  EXPECT_EQ(CodeOf(SerializeManifest(manifest)), "invalid");
}

TEST(Manifest, BoundsItsLists) {
  json document = Document(Delta());
  for (size_t i = 0; i < kMaxManifestEdges; ++i) document["edges"].push_back(document["edges"][0]);
  EXPECT_NE(MessageOf(Parse(document)).find("manifest.edges"), std::string::npos);
  const std::string big(kMaxManifestBytes + 1, ' ');
  EXPECT_NE(MessageOf(ParseManifest(AsBytes(big))).find("more than the limit"), std::string::npos);
}

TEST(Manifest, ThatNobodyCouldReadIsNotWritten) {
  const std::vector<std::function<void(Manifest&)>> mistakes = {
      [](Manifest& m) { m.run = RunId(); },
      [](Manifest& m) { m.version = Version(Version::kMax + 1); },
      [](Manifest& m) { m.parent.reset(); },
      [](Manifest& m) { m.edges.clear(); },
      [](Manifest& m) { m.edges[0].parts.clear(); },
      [](Manifest& m) { m.anchors[0].version = m.version.Next(); },
      [](Manifest& m) { m.step = -1; },
      [](Manifest& m) { m.side_files[0].path = "\xff"; },
      [](Manifest& m) { m.tensor_digests = {}; },
      [](Manifest& m) { m.features = {"new"}; },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    Manifest manifest = Delta();
    mistakes[i](manifest);
    EXPECT_EQ(CodeOf(SerializeManifest(manifest)), "invalid") << i;
  }
}

TEST(Manifest, SurvivesRandomDamage) {
  const Bytes good = SerializeManifest(Full()).value();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes bad = good;
    for (unsigned hits = 1 + random() % 3; hits > 0; --hits) {
      bad[random() % bad.size()] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    const Result<Manifest> parsed = ParseManifest(bad);
    refused += parsed ? 0 : 1;
    if (parsed) {
      EXPECT_TRUE(SerializeManifest(*parsed).has_value());
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace skerry
