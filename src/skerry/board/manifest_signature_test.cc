#include "skerry/board/manifest_signature.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

using nlohmann::json;

const PrivateKey kAlice = SampleKey(1), kBob = SampleKey(2);

Manifest Sample() { return SampleManifest(RunNamed("grpo-1"), Version(7), Sha256::Of("parent")); }
Bytes BytesOf(const Manifest& manifest) { return SerializeManifest(manifest).value(); }
Bytes Text(const json& document) { return ToBytes(AsBytes(document.dump())); }
json Document(ByteSpan bytes) { return json::parse(AsText(bytes)); }

// What a reader of the bytes that trusts these keys says.
Status Check(ByteSpan bytes, const std::vector<PublicKey>& trusted = {kAlice.public_key()}) {
  SKERRY_ASSIGN(const Manifest manifest, ParseManifest(bytes));
  return CheckSignature(manifest, bytes, trusted);
}

// By the words of docs/board-protocol.md.
json Signed(json document, const PrivateKey& key) {
  document.erase("signature");
  const Signature value = key.Sign(AsBytes("skerry manifest 1\n" + document.dump()));
  document["signature"] = {{"key", key.public_key().Text()}, {"value", value.Hex()}};
  return document;
}

TEST(ManifestSignature, IsOverTheTextWithoutItself) {
  const Manifest manifest = SignManifest(Sample(), kAlice).value();
  EXPECT_EQ(BytesOf(manifest), Text(Signed(Document(BytesOf(Sample())), kAlice)));
  EXPECT_EQ(ParseManifest(BytesOf(manifest)).value(), manifest);
  EXPECT_EQ(CodeOf(Check(BytesOf(manifest))), "ok");
  EXPECT_EQ(CodeOf(Check(BytesOf(manifest), {kBob.public_key(), kAlice.public_key()})), "ok");
}

TEST(ManifestSignature, IsTheWorkedExampleOfTheProtocolDocument) {
  const Digest base = Sha256::Of(BytesOf(SampleManifest(RunNamed("grpo-1"), Version(0), std::nullopt)));
  const Manifest example = SignManifest(SampleManifest(RunNamed("grpo-1"), Version(1), base), kAlice).value();
  EXPECT_EQ(example.signature->key.Text(), "ed25519:8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c");
  EXPECT_EQ(example.signature->value.Hex(),
            "794ff0abb7b3de7307116080b2604301895960d2f3f1c82e0b2d3d4aa613c55dfc390f97015a3cf087ab46b8699ba993b9a52af408"
            "cdba4276cd7b5ecddc3c02");
  EXPECT_EQ(Sha256::Of(BytesOf(example)).Hex(), "85f3fa372af655b19b6d5e19e58baaa624164c4cb3d001b331d20a2a5b0177c6");
}

TEST(ManifestSignature, TakesThePlaceOfAnother) {
  const Manifest again = SignManifest(SignManifest(Sample(), kBob).value(), kAlice).value();
  EXPECT_EQ(again, SignManifest(Sample(), kAlice).value());
}

TEST(ManifestSignature, RefusesEveryChangedByte) {
  const Bytes good = BytesOf(SignManifest(Sample(), kAlice).value());
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{1} << i % 7;
    EXPECT_FALSE(Check(bad)) << "byte " << i << ": " << AsText(bad).substr(i < 20 ? 0 : i - 20, 40);
  }
}

TEST(ManifestSignature, RefusesEveryFieldThatIsGoneOrNew) {
  const json good = Document(BytesOf(SignManifest(Sample(), kAlice).value()));
  for (const auto& [name, value] : good.items()) {
    json bad = good;
    bad.erase(name);
    EXPECT_FALSE(Check(Text(bad))) << name;
  }
  for (const char* place : {"/zebra", "/stats/zebra", "/edges/0/zebra", "/tensor_digests/zebra", "/signature/zebra"}) {
    json bad = good;
    bad[json::json_pointer(place)] = 1;
    EXPECT_EQ(CodeOf(Check(Text(bad))), "corrupt") << place;
  }
}

TEST(ManifestSignature, CoversFieldsThatThisProgramDoesNotKnow) {
  json document = Document(BytesOf(Sample()));
  document["zebra"] = {{"stripes", 7}, {"of", "\u00e9\t\u4e2d"}};
  document = Signed(document, kAlice);
  EXPECT_EQ(MessageOf(Check(Text(document))), "");
  json changed = document;
  changed["zebra"]["stripes"] = 8;
  EXPECT_EQ(CodeOf(Check(Text(changed))), "corrupt");
  changed.erase("zebra");
  EXPECT_EQ(CodeOf(Check(Text(changed))), "corrupt");
}

TEST(ManifestSignature, CountsOnlyInTheCanonicalForm) {
  const json document = Document(BytesOf(SignManifest(Sample(), kAlice).value()));
  std::string escaped = document.dump();
  escaped.replace(escaped.find("config.json"), 1, "\\u0063");
  nlohmann::ordered_json unsorted = document;
  unsorted.erase("version");
  unsorted["version"] = 7;
  unsorted["a"] = 0;
  for (const std::string& text : {document.dump() + "\n", document.dump(1), escaped, unsorted.dump()}) {
    ASSERT_TRUE(ParseManifest(AsBytes(text)));
    const Status checked = Check(AsBytes(text));
    EXPECT_EQ(CodeOf(checked), "corrupt");
    EXPECT_NE(MessageOf(checked).find("run grpo-1 version 7: "), std::string::npos);
    EXPECT_NE(MessageOf(checked).find("canonical form"), std::string::npos) << MessageOf(checked);
  }
}

TEST(ManifestSignature, OfNobodyOrOfSomebodyElseIsRefusedByName) {
  const std::string alice = kAlice.public_key().Text(), bob = kBob.public_key().Text();
  const Status nobody = Check(BytesOf(Sample()));
  EXPECT_EQ(CodeOf(nobody), "mismatch");
  EXPECT_EQ(MessageOf(nobody), "run grpo-1 version 7: not signed (trusted: " + alice + ")");
  const Status other = Check(BytesOf(SignManifest(Sample(), kBob).value()));
  EXPECT_EQ(CodeOf(other), "mismatch");
  EXPECT_EQ(MessageOf(other),
            "run grpo-1 version 7: signed by " + bob + ", which is not trusted (trusted: " + alice + ")");
}

TEST(ManifestSignature, OfAnotherManifestOrUnderAnotherNameDoesNotMatch) {
  const Signature of_another =
      SignManifest(SampleManifest(RunNamed("grpo-1"), Version(6), Sha256::Of("parent")), kAlice)
          .value()
          .signature->value;
  Manifest manifest = Sample();
  manifest.signature = {.key = kAlice.public_key(), .value = of_another};
  const Status replayed = Check(BytesOf(manifest));
  EXPECT_EQ(CodeOf(replayed), "corrupt");
  EXPECT_EQ(MessageOf(replayed),
            "run grpo-1 version 7: the signature by " + kAlice.public_key().Text() + " does not match the manifest");
  manifest = SignManifest(Sample(), kBob).value();
  manifest.signature->key = kAlice.public_key();
  EXPECT_EQ(CodeOf(Check(BytesOf(manifest), {kAlice.public_key(), kBob.public_key()})), "corrupt");
}

TEST(ManifestSignature, MustBeWellFormedForEveryReader) {
  const json good = Document(BytesOf(SignManifest(Sample(), kAlice).value()));
  const std::string key = kAlice.public_key().Text();
  struct {
    const char* place;
    json value;
    const char* message;
  } cases[] = {
      {"/signature", "x", "manifest.signature is \"x\""},
      {"/signature/key", nullptr, "manifest.signature.key is missing"},
      {"/signature/key", "rsa:" + key.substr(8), "manifest.signature: a public key is ed25519: and 64"},
      {"/signature/key", key + "00", "manifest.signature: a public key is"},
      {"/signature/key", "ed25519:" + std::string(64, 'A'), "manifest.signature: a public key is"},
      {"/signature/value", 5, "manifest.signature.value is 5"},
      {"/signature/value", std::string(126, '0'), "manifest.signature: a signature is 128"},
      {"/signature/value", std::string(128, 'A'), "manifest.signature: a signature is 128"},
  };
  for (const auto& [place, value, message] : cases) {
    json bad = good;
    bad[json::json_pointer(place)] = value;
    const Result<Manifest> parsed = ParseManifest(Text(bad));
    EXPECT_EQ(CodeOf(parsed), "corrupt") << place;
    EXPECT_EQ(MessageOf(parsed).substr(0, std::string_view(message).size()), message);
  }
}

}  // namespace
}  // namespace skerry
