// A checkpoint as Python holds it.
#ifndef SKERRY_PYTHON_NATIVE_CHECKPOINT_H_
#define SKERRY_PYTHON_NATIVE_CHECKPOINT_H_

#include <memory>
#include <utility>

#include "buffer.h"
#include "skerry/tensors/checkpoint.h"

// Wherever its bytes are. Immutable; its methods may be called from several threads.
class HeldCheckpoint {
 public:
  enum class Source { kDirectory, kFile, kMemory };

  HeldCheckpoint(skerry::Checkpoint checkpoint, Source source, std::unique_ptr<PythonBuffer> buffer = nullptr)
      : buffer_(std::move(buffer)), checkpoint_(std::move(checkpoint)), source_(source) {}

  const skerry::Checkpoint& checkpoint() const { return checkpoint_; }
  Source source() const { return source_; }

 private:
  std::unique_ptr<PythonBuffer> buffer_;  // outlives the checkpoint over it
  skerry::Checkpoint checkpoint_;
  Source source_;
};

#endif  // SKERRY_PYTHON_NATIVE_CHECKPOINT_H_
