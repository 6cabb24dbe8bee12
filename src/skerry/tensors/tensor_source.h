// Where the bytes of a model's tensors come from: a checkpoint on disk, or a trainer's memory.
#ifndef SKERRY_TENSORS_TENSOR_SOURCE_H_
#define SKERRY_TENSORS_TENSOR_SOURCE_H_

#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/progress.h"
#include "skerry/base/result.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// All methods may be called from several threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const Layout& layout() const = 0;
  // `length` bytes of tensor `ordinal` from byte `offset`. The span points into the source or into `scratch` and is
  // valid until either changes.
  virtual Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const = 0;
  // Whether everything read so far was really there (a file may have been truncated meanwhile).
  virtual Status Check() const = 0;
};

// The running digests of all tensors, by one read of everything.
Result<std::vector<RunningDigest>> DigestTensors(const TensorSource& source, int threads, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_TENSORS_TENSOR_SOURCE_H_
