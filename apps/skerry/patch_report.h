// What commands that write a patch file say about it.
#ifndef SKERRY_APPS_SKERRY_PATCH_REPORT_H_
#define SKERRY_APPS_SKERRY_PATCH_REPORT_H_

#include <string>

#include "command_line.h"
#include "skerry/patch/encoder.h"

namespace skerry {

// Prints facts, or one document where --json was given. `level` is the name of the level.
void PrintPatchReport(const CommonOptions& common, const std::string& path, const std::string& level,
                      const EncodeReceipt& receipt);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_PATCH_REPORT_H_
