// A file in memory, with a fall-back for hosts that refuse to map it, and without SIGBUS.
#ifndef SKERRY_BASE_MAPPED_FILE_H_
#define SKERRY_BASE_MAPPED_FILE_H_

#include <atomic>
#include <memory>

#include "skerry/base/bytes.h"
#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

// A shared mapping of a whole file. When the file shrinks under it, or a write finds the disk full, the kernel would
// send SIGBUS: our handler puts a zero page there instead and marks the mapping, and Check() reports it. Call Check()
// after using bytes and before believing them. A handler that was installed before ours still gets other addresses.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  static Result<MappedFile> Map(const File& file, bool writable);

  MutableByteSpan bytes() const { return {data_, size_}; }
  // Fills the page tables for a range that is about to be read, many pages in one call instead of a fault for each few;
  // each part of the file once in the mapping's life. Only a hint. May be called from several threads.
  void Prefault(uint64_t offset, uint64_t length) const;
  Status Check() const;
  // Writes dirty pages to the disk (msync).
  Status Sync() const;

  // One guarded address range; the signal handler finds it in a list that is only ever added to.
  struct Guard;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Guard* guard_ = nullptr;
  std::unique_ptr<std::atomic<bool>[]> prefaulted_;  // one flag for each kPrefaultBytes
  Path path_;
};

// Read access to a file's ranges: from a mapping where the host allows one, else by copying into the caller's scratch
// buffer, so that a file larger than the address space limit still works. Reads may be made from several threads.
class FileReader {
 public:
  static Result<FileReader> Open(const Path& path);
  // Of bytes that are in memory already, and stay there as they are; messages call them `name`.
  static FileReader OfMemory(ByteSpan bytes, const Path& name);

  // `length` bytes at `offset`. The span points into the mapping or into `scratch` and is valid until either changes.
  Result<ByteSpan> Read(uint64_t offset, uint64_t length, Bytes& scratch) const;
  // After the last use of spans from Read: whether what they showed was really there.
  Status Check() const;

  uint64_t size() const { return size_; }
  const Path& path() const { return path_; }
  // Whether spans from Read point to where the bytes are, and never into `scratch`.
  bool is_mapped() const { return mapped_; }

 private:
  Path path_;
  File file_;  // closed where the bytes are in memory
  MappedFile mapping_;
  ByteSpan bytes_;  // all of them, where `mapped_`
  uint64_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace skerry

#endif  // SKERRY_BASE_MAPPED_FILE_H_
