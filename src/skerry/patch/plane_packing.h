// How a byte plane is packed: the choice between a raw plane, matches, and a prefix code alone.
#ifndef SKERRY_PATCH_PLANE_PACKING_H_
#define SKERRY_PATCH_PLANE_PACKING_H_

#include "skerry/base/bytes.h"

namespace skerry {

// Appends one zstd frame that is shorter than the plane; or nothing where packing would save next to nothing, and the
// plane had better stand as it is.
void PackPlane(ByteSpan plane, Bytes& out);

}  // namespace skerry

#endif  // SKERRY_PATCH_PLANE_PACKING_H_
