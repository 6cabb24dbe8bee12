// What the proxy answers itself, in the shape of errors that OpenAI's clients know (docs/proxy.md).
#ifndef SKERRY_PROXY_OWN_ANSWER_H_
#define SKERRY_PROXY_OWN_ANSWER_H_

#include <string_view>

#include "skerry/http/server.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/version_constraint.h"

namespace skerry {

// 409: another version is served. `constraint` is pinned.
ServerResponse NotReadyAnswer(const Admission::Refused& refused, const VersionConstraint& constraint);

// {"error": {"type", "message"}}; `retry`: with Retry-After, which is drawn anew for each answer.
ServerResponse ErrorAnswer(int status, std::string_view type, std::string_view message, bool retry);

}  // namespace skerry

#endif  // SKERRY_PROXY_OWN_ANSWER_H_
