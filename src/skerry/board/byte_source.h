// Where the bytes of a new object come from: memory, or a file that need not be read to be stored.
#ifndef SKERRY_BOARD_BYTE_SOURCE_H_
#define SKERRY_BOARD_BYTE_SOURCE_H_

#include <cstdint>
#include <string_view>

#include "skerry/base/bytes.h"
#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"

namespace skerry {

class FileSource;

// Bytes of a known size that may be read several times (retries, comparison with an object that is there already).
// Implementations allow Read from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset`; a range beyond the end is kCorrupt.
  virtual Status Read(uint64_t offset, MutableByteSpan out) const = 0;
  // The file behind it, for backends that can copy files without reading them.
  virtual const FileSource* AsFile() const { return nullptr; }
};

// Does not own the bytes: they must outlive it.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(ByteSpan bytes) : bytes_(bytes) {}
  explicit MemorySource(std::string_view text) : bytes_(AsBytes(text)) {}

  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, MutableByteSpan out) const override;
  ByteSpan bytes() const { return bytes_; }

 private:
  ByteSpan bytes_;
};

// A whole file, open for the lifetime of the object, with the size it had when it was opened.
class FileSource : public ByteSource {
 public:
  // `may_hard_link`: the file will never be written again, so a directory board may share its bytes instead of
  // copying them. A later write to such a file would change a published object.
  static Result<FileSource> Open(const Path& path, bool may_hard_link = false);

  uint64_t size() const override { return size_; }
  Status Read(uint64_t offset, MutableByteSpan out) const override;
  const FileSource* AsFile() const override { return this; }

  const Path& path() const { return file_.path(); }
  const File& file() const { return file_; }
  bool may_hard_link() const { return may_hard_link_; }

 private:
  FileSource(File file, uint64_t size, bool may_hard_link)
      : file_(std::move(file)), size_(size), may_hard_link_(may_hard_link) {}

  File file_;
  uint64_t size_;
  bool may_hard_link_;
};

// SHA-256 of all of it, read in blocks.
Result<Digest> DigestOf(const ByteSource& source);

}  // namespace skerry

#endif  // SKERRY_BOARD_BYTE_SOURCE_H_
