// A patch on its way to a file: nothing stands under the final name until Commit.
#ifndef SKERRY_PATCH_FILE_SINK_H_
#define SKERRY_PATCH_FILE_SINK_H_

#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/patch/patch_file.h"

namespace skerry {

// Collects small appends, hashes what passes, and replaces the target in one step. Destroyed without Commit, it removes
// what it wrote. Not thread-safe.
class FileSink : public ByteSink {
 public:
  static Result<FileSink> Create(const Path& path);
  ~FileSink() override;
  FileSink(FileSink&& other) noexcept;

  Status Append(ByteSpan bytes) override;
  // Flush, fsync, rename, fsync of the directory.
  Status Commit();

  uint64_t size() const { return size_; }
  // SHA-256 of the file; after Commit.
  const Digest& sha256() const { return sha256_; }

 private:
  FileSink() = default;
  Status Flush();

  Path path_, temporary_;
  File file_;
  Bytes buffer_;
  uint64_t size_ = 0;
  Sha256 hash_;
  Digest sha256_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_FILE_SINK_H_
