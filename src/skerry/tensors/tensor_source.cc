#include "skerry/tensors/tensor_source.h"

#include <algorithm>
#include <mutex>

#include "skerry/base/parallel.h"

namespace skerry {
namespace {

constexpr uint64_t kDigestChunk = 4 << 20;  // bytes a task digests; a multiple of 8

}  // namespace

Result<std::vector<RunningDigest>> DigestTensors(const TensorSource& source, int threads, Progress& progress) {
  struct Task {
    size_t tensor;
    uint64_t offset, length;
  };
  const auto& tensors = source.layout().tensors();
  std::vector<Task> tasks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (uint64_t at = 0; at < tensors[i].bytes; at += kDigestChunk) {
      tasks.push_back({i, at, std::min(kDigestChunk, tensors[i].bytes - at)});
    }
  }
  progress.Begin("verify", source.layout().total_bytes());
  std::vector<RunningDigest> digests(tensors.size());
  std::mutex mutex;
  SKERRY_TRY(ParallelFor(tasks.size(), threads, [&](size_t i) -> Status {
    const Task& task = tasks[i];
    thread_local Bytes scratch;
    SKERRY_ASSIGN(const ByteSpan bytes, source.Read(task.tensor, task.offset, task.length, scratch));
    const RunningDigest part = DigestWords(bytes, task.offset / 8);
    progress.Advance(task.length);
    const std::lock_guard lock(mutex);
    digests[task.tensor] += part;
    return {};
  }));
  SKERRY_TRY(source.Check());
  return digests;
}

}  // namespace skerry
