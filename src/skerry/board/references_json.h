// References as JSON. Included by the .cc files of this folder only.
#ifndef SKERRY_BOARD_REFERENCES_JSON_H_
#define SKERRY_BOARD_REFERENCES_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "skerry/board/json_fields.h"
#include "skerry/board/references.h"

namespace skerry {

nlohmann::json ToJson(const ObjectRef& object);
nlohmann::json ToJson(const std::vector<PatchPart>& parts);
nlohmann::json ToJson(const ForkPoint& fork);

ObjectRef ReadObjectRef(JsonFields fields);
// The field "objects": at least one part. Where there are several, each says its tensors, and none says another's.
std::vector<PatchPart> ReadPatchParts(JsonFields& fields);
ForkPoint ReadForkPoint(JsonFields fields);
// The field "path": a path in the checkpoint that is not in `seen`, where it is added.
std::string ReadCheckpointPath(JsonFields& fields, std::set<std::string>& seen);

// The field "view": the name of a further view of `run`. Views are sorted by name; `before` is the one before, if any.
std::string ReadViewName(JsonFields& fields, const RunId& run, const std::string& before);

}  // namespace skerry

#endif  // SKERRY_BOARD_REFERENCES_JSON_H_
