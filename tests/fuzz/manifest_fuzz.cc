// The board's JSON objects, which anybody who may write to the board wrote. What is accepted can be written again and
// read back as the same.
#include <array>

#include "check.h"
#include "skerry/board/anchor.h"
#include "skerry/board/collect_mark.h"
#include "skerry/board/head.h"
#include "skerry/board/layout_codec.h"
#include "skerry/board/lease.h"
#include "skerry/board/manifest.h"
#include "skerry/board/manifest_signature.h"
#include "skerry/board/run_info.h"

namespace skerry {
namespace {

template <typename Parse, typename Serialize>
void RoundTrip(ByteSpan bytes, Parse parse, Serialize serialize) {
  const auto value = parse(bytes);
  if (!value) {
    FUZZ_CHECK(!value.error().message.empty());
    return;
  }
  const auto written = serialize(*value);
  FUZZ_CHECK(written);
  const auto again = parse(*written);
  FUZZ_CHECK(again && *again == *value);
}

// Whatever signature it came with, one that is made anew is good.
void Sign(ByteSpan bytes) {
  static const PrivateKey key = PrivateKey::FromSeed(std::array<std::byte, PrivateKey::kSeedSize>{});
  const auto manifest = ParseManifest(bytes);
  if (!manifest) return;
  if (manifest->signature) (void)CheckSignature(*manifest, bytes, {manifest->signature->key});
  FUZZ_CHECK(!CheckSignature(*manifest, bytes, {key.public_key()}));
  const auto made = SignManifest(*manifest, key);
  FUZZ_CHECK(made);
  const auto written = SerializeManifest(*made);
  FUZZ_CHECK(written && CheckSignature(*made, *written, {key.public_key()}));
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  const auto bytes = std::as_bytes(std::span(data, size));
  RoundTrip(bytes, ParseManifest, SerializeManifest);
  Sign(bytes);
  RoundTrip(bytes, ParseAnchor, SerializeAnchor);
  RoundTrip(bytes, ParseHead, SerializeHead);
  RoundTrip(bytes, ParseBoardInfo, SerializeBoardInfo);
  RoundTrip(bytes, ParseRunInfo, SerializeRunInfo);
  RoundTrip(bytes, ParseLease, SerializeLease);
  // Keys with characters that JSON escapes can make what is written larger than what was read, and then too large.
  if (size < kMaxCollectMarkBytes / 8) RoundTrip(bytes, ParseCollectMark, SerializeCollectMark);
  if (const auto unpacked = UnpackLayout(bytes, 1 << 16)) FUZZ_CHECK(unpacked->size() <= 1 << 16);
  return 0;
}
