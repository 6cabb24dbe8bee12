#include "skerry/tensors/running_digest.h"

#include "skerry/base/simd.h"
#include "skerry/tensors/digest_kernel.h"

namespace skerry {

RunningDigest DigestWordsScalar(ByteSpan bytes, uint64_t first_word) {
  RunningDigest sum;
  const size_t words = bytes.size() / 8;
  for (size_t i = 0; i < words; ++i) sum += MixWord(first_word + i, LoadLe<uint64_t>(bytes.data() + 8 * i));
  if (const size_t rest = bytes.size() % 8; rest != 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * words, rest);
    sum += MixWord(first_word + words, word);
  }
  return sum;
}

RunningDigest DigestWords(ByteSpan bytes, uint64_t first_word) {
  if (SimdIsScalar()) return DigestWordsScalar(bytes, first_word);
  const size_t whole = bytes.size() / 8 * 8;
  RunningDigest sum = DigestWholeWordsVector(bytes.first(whole), first_word);
  sum += DigestWordsScalar(bytes.subspan(whole), first_word + whole / 8);
  return sum;
}

Digest ModelDigest(const Digest& tensors_digest, std::span<const RunningDigest> tensors) {
  Sha256 hash;
  hash.Update("skerry model 1\n");
  hash.Update(tensors_digest.bytes);
  for (const RunningDigest& tensor : tensors) {
    std::array<std::byte, 16> bytes;
    StoreLe(bytes.data(), tensor.a);
    StoreLe(bytes.data() + 8, tensor.b);
    hash.Update(bytes);
  }
  return hash.Finish();
}

}  // namespace skerry
