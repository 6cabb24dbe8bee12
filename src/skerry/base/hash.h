// SHA-256 (OpenSSL) names and checks objects; XXH3 (xxHash) is the cheap checksum inside a patch.
#ifndef SKERRY_BASE_HASH_H_
#define SKERRY_BASE_HASH_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

namespace skerry {

// A SHA-256 value. Printed in lower-case hexadecimal.
struct Digest {
  static constexpr size_t kSize = 32;
  std::array<std::byte, kSize> bytes{};

  std::string Hex() const;
  // The first 12 hexadecimal digits, for messages to people.
  std::string Short() const { return Hex().substr(0, 12); }
  static Result<Digest> FromHex(std::string_view hex);
  auto operator<=>(const Digest&) const = default;
};

std::string ToHex(ByteSpan bytes);
// 2 hexadecimal digits a byte, either case; anything else is kCorrupt.
Result<Bytes> FromHex(std::string_view hex);

// Incremental SHA-256. Not thread-safe; Finish() may be called once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(ByteSpan bytes);
  void Update(std::string_view text) { Update(AsBytes(text)); }
  Digest Finish();

  static Digest Of(ByteSpan bytes);
  static Digest Of(std::string_view text) { return Of(AsBytes(text)); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-64 with seed 0.
uint64_t Xxh3(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BASE_HASH_H_
