// The tensors that a fake engine holds, loaded as a real one would: whole, or element by element from positions.
#ifndef SKERRY_ENGINE_FAKE_MEMORY_H_
#define SKERRY_ENGINE_FAKE_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "skerry/base/bytes.h"
#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

struct FakeMemory {
  struct Tensor {
    Bytes bytes;
    size_t element = 1;  // bytes of one element
  };
  std::map<std::string, Tensor> tensors;
  std::string tensors_digest;  // of the layout that they were loaded from, hexadecimal

  // The model digest in hexadecimal, see tensors/running_digest.h; "none" without tensors.
  std::string Model() const;
};

Status LoadWhole(const Path& checkpoint, FakeMemory& memory);
// The first half of each tensor that is held; the rest stays as it is.
Status LoadHalf(const Path& checkpoint, FakeMemory& memory);
// The elements that the file of positions names (engine.h, ChangedElements), from the checkpoint. kMismatch where the
// file names a tensor or an element that is not there.
Status LoadElements(const Path& checkpoint, const Path& positions, FakeMemory& memory);

}  // namespace skerry

#endif  // SKERRY_ENGINE_FAKE_MEMORY_H_
