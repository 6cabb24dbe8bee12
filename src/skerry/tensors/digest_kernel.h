// The vector path of running_digest.h, compiled once for each instruction set.
#ifndef SKERRY_TENSORS_DIGEST_KERNEL_H_
#define SKERRY_TENSORS_DIGEST_KERNEL_H_

#include "skerry/tensors/running_digest.h"

namespace skerry {

// `bytes` is a whole number of 8-byte words at any alignment.
RunningDigest DigestWholeWordsVector(ByteSpan bytes, uint64_t first_word);

}  // namespace skerry

#endif  // SKERRY_TENSORS_DIGEST_KERNEL_H_
