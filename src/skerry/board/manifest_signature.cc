#include "skerry/board/manifest_signature.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"

namespace skerry {
namespace {

// So that a signature of a manifest is one of nothing else that the key may sign.
constexpr std::string_view kPurpose = "skerry manifest 1\n";

Bytes Message(ByteSpan canonical) {
  Bytes message;
  ByteWriter writer(message);
  writer.Raw(AsBytes(kPurpose));
  writer.Raw(canonical);
  return message;
}

std::string NamesOf(const std::vector<PublicKey>& keys) {
  std::vector<std::string> names;
  for (const PublicKey& key : keys) names.push_back(key.Text());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<Manifest> SignManifest(Manifest manifest, const PrivateKey& key) {
  manifest.signature.reset();
  SKERRY_ASSIGN(const Bytes unsigned_bytes, SerializeManifest(manifest));
  manifest.signature = {.key = key.public_key(), .value = key.Sign(Message(unsigned_bytes))};
  return manifest;
}

Status CheckSignature(const Manifest& manifest, ByteSpan bytes, const std::vector<PublicKey>& trusted) {
  const std::string what = fmt::format("run {} version {}", manifest.run, manifest.version);
  if (!manifest.signature) return Fail(Code::kMismatch, "{}: not signed (trusted: {})", what, NamesOf(trusted));
  const auto& [key, value] = *manifest.signature;
  if (std::find(trusted.begin(), trusted.end(), key) == trusted.end()) {
    return Fail(Code::kMismatch, "{}: signed by {}, which is not trusted (trusted: {})", what, key.Text(),
                NamesOf(trusted));
  }
  SKERRY_ASSIGN(nlohmann::json document, ParseJsonObject(bytes, kMaxManifestBytes, what));
  document["signature"] = {{"key", key.Text()}, {"value", value.Hex()}};  // no other field: none is covered there
  SKERRY_ASSIGN(const Bytes whole, DumpJson(document, what));
  if (!std::equal(whole.begin(), whole.end(), bytes.begin(), bytes.end())) {
    return Fail(Code::kCorrupt, "{}: signed by {}, but not written in the canonical form", what, key.Text());
  }
  document.erase("signature");
  SKERRY_ASSIGN(const Bytes unsigned_bytes, DumpJson(document, what));
  if (key.Verifies(Message(unsigned_bytes), value)) return {};
  return Fail(Code::kCorrupt, "{}: the signature by {} does not match the manifest", what, key.Text());
}

}  // namespace skerry
