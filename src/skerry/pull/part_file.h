// An object that is being fetched: what of it has come, in whatever order, survives a kill.
#ifndef SKERRY_PULL_PART_FILE_H_
#define SKERRY_PULL_PART_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/references.h"
#include "skerry/pull/pinned_file.h"

namespace skerry {

struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

// `PATH.part` with the bytes and, where they come out of order, `PATH.part.ranges` with what is there. Without the
// second, the first one's length says how much has come from the beginning. The ranges are lines of text, appended
// after their bytes: "skerry-ranges 1 SHA256 SIZE", then "BEGIN END" each; a record that is torn or says more than the
// file has counts only as far as it makes sense. Nothing of it is fsynced before the end: after a power cut the SHA-256
// tells.
//
// Holds the .part file's lock, so one process fetches. Not thread-safe, but Write of different ranges may be called
// from several threads.
class PartFile {
 public:
  static constexpr uint64_t kMaxRecordBytes = 64 << 20;

  // Opens what an earlier attempt left, or makes the file; waits while another process is at it.
  static Result<PartFile> Open(const Path& path, const ObjectRef& object);

  // How long the file is: what it takes of the disk, or will.
  uint64_t length() const { return length_; }
  // Before anything else. `out_of_order`: ranges will be written in any order, and the file gets its full length; else
  // only in rising order, without gaps. What an earlier attempt left may ask for a record all the same.
  Status Begin(bool out_of_order);

  // What has not come, in pieces of at most `most` bytes, in rising order.
  std::vector<ByteRange> Missing(uint64_t most) const;
  uint64_t present() const;
  // Whether there may be gaps.
  bool out_of_order() const { return record_.is_open(); }

  // Writes the bytes; thread-safe.
  Status Write(uint64_t offset, ByteSpan bytes) const;
  // Notes that they are there.
  Status Note(const ByteRange& range);
  // Reads back what was written.
  Status Read(uint64_t offset, MutableByteSpan out) const;
  // How many bytes from the beginning are there without a gap.
  uint64_t Prefix() const;

  // Forgets all that has come.
  Status Restart();
  // Removes both files.
  void Abandon();
  // All is there and right: makes it durable and gives it its name. Returns the file, still locked.
  Result<PinnedFile> Finish();

 private:
  PartFile(Path path, PinnedFile part, uint64_t size, std::string header)
      : path_(std::move(path)), part_(std::move(part)), size_(size), header_(std::move(header)) {}

  Path PartPath() const { return path_.string() + ".part"; }
  Path RecordPath() const { return path_.string() + ".part.ranges"; }
  // Where the record ends as far as it makes sense; 0: nowhere.
  uint64_t ReadRecord();
  Status BeginRecord();
  void Add(ByteRange range);

  Path path_;
  PinnedFile part_;
  File record_;
  uint64_t record_end_ = 0;  // 0: there is none yet
  uint64_t length_ = 0;
  uint64_t size_ = 0;
  std::string header_;
  std::vector<ByteRange> there_;  // rising, not touching
};

}  // namespace skerry

#endif  // SKERRY_PULL_PART_FILE_H_
