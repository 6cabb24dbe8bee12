#include "skerry/patch/file_sink.h"

#include <unistd.h>

#include "skerry/base/temporary.h"

namespace skerry {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

Result<FileSink> FileSink::Create(const Path& path) {
  FileSink sink;
  sink.path_ = path;
  sink.temporary_ = TemporaryBeside(path);
  SKERRY_ASSIGN(sink.file_, File::Create(sink.temporary_));
  return sink;
}

FileSink::~FileSink() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

FileSink::FileSink(FileSink&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, Path())),
      file_(std::move(other.file_)),
      buffer_(std::move(other.buffer_)),
      size_(other.size_),
      hash_(std::move(other.hash_)),
      sha256_(other.sha256_) {}

Status FileSink::Flush() {
  SKERRY_TRY(file_.Append(buffer_));
  buffer_.clear();
  return {};
}

Status FileSink::Append(ByteSpan bytes) {
  hash_.Update(bytes);
  size_ += bytes.size();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() >= kBufferBytes ? Flush() : Status();
}

Status FileSink::Commit() {
  SKERRY_TRY(Flush());
  SKERRY_TRY(file_.Sync());
  SKERRY_TRY(Rename(temporary_, path_));
  temporary_.clear();
  SKERRY_TRY(SyncDirectory(path_.parent_path()));
  sha256_ = hash_.Finish();
  return {};
}

}  // namespace skerry
