#include "skerry/board/byte_source.h"

#include <algorithm>

#include "skerry/base/interrupt.h"

namespace skerry {

Status MemorySource::Read(uint64_t offset, MutableByteSpan out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    return Fail(Code::kCorrupt, "{} bytes at {} asked of a source of {} bytes", out.size(), offset, bytes_.size());
  }
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  return {};
}

Result<FileSource> FileSource::Open(const Path& path, bool may_hard_link) {
  SKERRY_ASSIGN(File file, File::OpenForReading(path));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  return FileSource(std::move(file), size, may_hard_link);
}

Status FileSource::Read(uint64_t offset, MutableByteSpan out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Fail(Code::kCorrupt, "{} bytes at {} asked of {}, which has {} bytes", out.size(), offset, path().string(),
                size_);
  }
  SKERRY_TRY(CheckInterrupt());
  return file_.ReadAt(out, offset);
}

Result<Digest> DigestOf(const ByteSource& source) {
  constexpr uint64_t kBlock = 1 << 20;
  Sha256 hash;
  Bytes block(std::min(source.size(), kBlock));
  for (uint64_t done = 0; done < source.size();) {
    const MutableByteSpan part = MutableByteSpan(block).first(std::min(source.size() - done, kBlock));
    SKERRY_TRY(source.Read(done, part));
    hash.Update(part);
    done += part.size();
  }
  return hash.Finish();
}

}  // namespace skerry
