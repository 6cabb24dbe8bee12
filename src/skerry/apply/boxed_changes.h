// The changes of boxes of tensors as changes of the tensors.
#ifndef SKERRY_APPLY_BOXED_CHANGES_H_
#define SKERRY_APPLY_BOXED_CHANGES_H_

#include <functional>

#include "skerry/patch/patch.h"
#include "skerry/tensors/tensor_box.h"

namespace skerry {

// How much the changes of units of a box move the running digest of the tensor that it is a box of. `old` are the bytes
// of those units, from byte `first` of the box on, a whole number of words.
RunningDigest MovedInTensor(const BoxRuns& places, uint64_t first, const BlockChanges& changes, ByteSpan old);

// The running digest's sum over those words of a tensor that are the box `bytes`: those of all its boxes add up to the
// tensor's.
RunningDigest DigestInTensor(const BoxRuns& places, uint64_t first, ByteSpan bytes);

// Hands on, for changes of one run of box `changes.run.tensor` of the view, the same changes of the tensor that it is a
// box of: places and `moved` are the tensor's. One call of `take`, but for changes that are 2^32 units apart.
Status TakeUnboxed(const BoxView& view, RunChanges changes, const std::function<Status(RunChanges)>& take);

}  // namespace skerry

#endif  // SKERRY_APPLY_BOXED_CHANGES_H_
