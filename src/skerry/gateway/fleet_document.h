// What a gateway knows, for people, pages and autoscalers: `/v1/skerry/fleet` and the gauges.
#ifndef SKERRY_GATEWAY_FLEET_DOCUMENT_H_
#define SKERRY_GATEWAY_FLEET_DOCUMENT_H_

#include <string>

#include "skerry/gateway/gateway.h"

namespace skerry {

// Both on the loop.
FleetFigures FiguresOf(const Fleet& fleet, const Hall& hall, Fleet::Time now);
// docs/gateway.md lists the members. Holds no secret.
std::string FleetDocument(Gateway& gateway, Fleet::Time now);

}  // namespace skerry

#endif  // SKERRY_GATEWAY_FLEET_DOCUMENT_H_
