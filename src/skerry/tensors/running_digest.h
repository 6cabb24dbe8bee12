// The running digest of a tensor's bytes: a 128-bit sum that can follow changes.
#ifndef SKERRY_TENSORS_RUNNING_DIGEST_H_
#define SKERRY_TENSORS_RUNNING_DIGEST_H_

#include <array>
#include <compare>
#include <cstdint>
#include <span>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"

namespace skerry {

// Two 64-bit lanes, each the sum modulo 2^64 of a mix of every 64-bit little-endian word of the tensor with its index;
// the last word is padded with zeros. A change of word i moves a lane by mix(i, new) - mix(i, old), and the sums of a
// tensor's parts add up to the sum of the whole, so ranks can digest their own parts. It finds accidents, not
// forgeries: what crosses a trust boundary is checked by SHA-256.
struct RunningDigest {
  uint64_t a = 0;
  uint64_t b = 0;

  RunningDigest& operator+=(const RunningDigest& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
  friend RunningDigest operator-(RunningDigest x, const RunningDigest& y) {
    x.a -= y.a;
    x.b -= y.b;
    return x;
  }
  auto operator<=>(const RunningDigest&) const = default;
};

// The mix of one word: xor with a key that depends on the index, then two rounds of multiply and xor-shift, tapped
// after the first for lane a and after the second for lane b. For a fixed index both are bijections of the word, so a
// single wrong word never hides. Key step: 2^64 / golden ratio; multipliers: the 32-bit primes 1 and 2 of xxHash,
// because a product with a 32-bit number takes two vector multiplications and not three.
inline constexpr uint64_t kDigestIndexStep = 0x9E3779B97F4A7C15;
inline constexpr uint64_t kDigestMultiplier1 = 0x9E3779B1;
inline constexpr uint64_t kDigestMultiplier2 = 0x85EBCA77;

inline RunningDigest MixWord(uint64_t index, uint64_t word) {
  uint64_t x = word ^ ((index + 1) * kDigestIndexStep);
  x ^= x >> 32;
  x *= kDigestMultiplier1;
  x ^= x >> 29;
  uint64_t y = x * kDigestMultiplier2;
  y ^= y >> 32;
  return {x, y};
}

// The sum over `bytes`, whose first byte is byte 8 * first_word of the tensor. DigestWords uses the best vector unit,
// DigestWordsScalar is the specification.
RunningDigest DigestWords(ByteSpan bytes, uint64_t first_word);
RunningDigest DigestWordsScalar(ByteSpan bytes, uint64_t first_word);

// The model digest: SHA-256 over the tensors digest of the layout (see layout.h) and all tensors' running digests in
// the layout's order. It is what manifests, patches, state files and requests name.
Digest ModelDigest(const Digest& tensors_digest, std::span<const RunningDigest> tensors);

}  // namespace skerry

#endif  // SKERRY_TENSORS_RUNNING_DIGEST_H_
