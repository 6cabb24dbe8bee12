// Which objects lead to a head: those that the next reader will ask for.
#ifndef SKERRY_RELAY_ROUTE_KEYS_H_
#define SKERRY_RELAY_ROUTE_KEYS_H_

#include <string>
#include <vector>

#include "skerry/board/head.h"
#include "skerry/relay/documents.h"

namespace skerry {

// For readers of `run` (with its view), the most urgent ones first: the manifest and layout of the head; the patches
// from the version before it; the manifests, anchor and patches on the cheapest way of a reader that has nothing.
// Manifests and the anchor's document are fetched where they are not here. What can't be read is left out.
std::vector<std::string> RouteKeys(Documents& documents, const Head& head, const RunId& run);

}  // namespace skerry

#endif  // SKERRY_RELAY_ROUTE_KEYS_H_
