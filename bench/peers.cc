#include "peers.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace skerry {
namespace {

void Check(size_t status) {
  if (ZSTD_isError(status)) std::abort();
}

void Xor(MutableByteSpan to, ByteSpan from) {
  size_t i = 0;
  for (; i + 8 <= to.size(); i += 8) {
    StoreLe(to.data() + i, LoadLe<uint64_t>(to.data() + i) ^ LoadLe<uint64_t>(from.data() + i));
  }
  for (; i < to.size(); ++i) to[i] ^= from[i];
}

}  // namespace

Bytes XorZstd(ByteSpan before, ByteSpan after) {
  Bytes difference = ToBytes(after);
  Xor(difference, before);
  Bytes packed(ZSTD_compressBound(difference.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), difference.data(), difference.size(), 1);
  Check(size);
  packed.resize(size);
  return packed;
}

void ApplyXorZstd(ByteSpan packed, MutableByteSpan model) {
  Bytes difference(model.size());
  Check(ZSTD_decompress(difference.data(), difference.size(), packed.data(), packed.size()));
  Xor(model, difference);
}

Bytes ZstdPatchFrom(ByteSpan before, ByteSpan after, int level) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  Check(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level));
  Check(ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1));
  Check(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog,
                               std::clamp(static_cast<int>(std::bit_width(before.size() + after.size())), 10, 31)));
  Check(ZSTD_CCtx_refPrefix(context, before.data(), before.size()));
  Bytes packed(ZSTD_compressBound(after.size()));
  const size_t size = ZSTD_compress2(context, packed.data(), packed.size(), after.data(), after.size());
  Check(size);
  ZSTD_freeCCtx(context);
  packed.resize(size);
  return packed;
}

}  // namespace skerry
