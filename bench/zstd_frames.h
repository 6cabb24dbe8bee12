// zstd frames at one level, with contexts and buffers kept between calls. Failures abort: the inputs are our own.
#ifndef SKERRY_BENCH_ZSTD_FRAMES_H_
#define SKERRY_BENCH_ZSTD_FRAMES_H_

#include <zstd.h>

#include <cstdlib>
#include <memory>

#include "skerry/base/bytes.h"

namespace skerry {

inline size_t CheckZstd(size_t status) {
  if (ZSTD_isError(status)) std::abort();
  return status;
}

class ZstdFrames {
 public:
  explicit ZstdFrames(int level) : level_(level) {}

  // Valid until the next call.
  ByteSpan Compress(ByteSpan bytes) {
    Grow(ZSTD_compressBound(bytes.size()));
    const size_t size =
        ZSTD_compressCCtx(compressor_.get(), buffer_.data(), buffer_.size(), bytes.data(), bytes.size(), level_);
    return ByteSpan(buffer_).first(CheckZstd(size));
  }
  ByteSpan Decompress(ByteSpan frame) {
    Grow(ZSTD_getFrameContentSize(frame.data(), frame.size()));
    return ByteSpan(buffer_).first(CheckZstd(
        ZSTD_decompressDCtx(decompressor_.get(), buffer_.data(), buffer_.size(), frame.data(), frame.size())));
  }

  // Calls run(piece) with the content in pieces that fit the cache.
  template <typename Run>
  void DecompressPieces(ByteSpan frame, Run&& run) {
    Grow(kPiece);
    ZSTD_inBuffer in{frame.data(), frame.size(), 0};
    for (size_t left = 1; left != 0;) {
      ZSTD_outBuffer out{buffer_.data(), kPiece, 0};
      left = CheckZstd(ZSTD_decompressStream(decompressor_.get(), &out, &in));
      if (out.pos == 0 && left != 0) std::abort();  // the frame is cut off
      run(ByteSpan(buffer_).first(out.pos));
    }
  }

 private:
  static constexpr size_t kPiece = 1 << 19;
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  void Grow(size_t size) {
    if (buffer_.size() < size) buffer_.resize(size);
  }

  int level_;
  std::unique_ptr<ZSTD_CCtx, Free> compressor_{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, Free> decompressor_{ZSTD_createDCtx()};
  Bytes buffer_;
};

}  // namespace skerry

#endif  // SKERRY_BENCH_ZSTD_FRAMES_H_
