// Side files (config, tokenizer, index, …) of a checkpoint: they travel whole when they change.
#ifndef SKERRY_PATCH_SIDE_FILES_H_
#define SKERRY_PATCH_SIDE_FILES_H_

#include <vector>

#include "skerry/patch/patch_file.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// What must be written and removed to turn the base's side files into the target's; sorted by path. Together at most
// kMaxSideFilesSectionBytes.
Result<std::vector<SideFileChange>> CompareSideFiles(const Checkpoint& base, const Checkpoint& target);

}  // namespace skerry

#endif  // SKERRY_PATCH_SIDE_FILES_H_
