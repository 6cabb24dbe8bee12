// What the engines' paths are for, as far as it concerns the proxy. Sources: the route tables of vLLM 0.32 and SGLang.
#ifndef SKERRY_PROXY_ROUTES_H_
#define SKERRY_PROXY_ROUTES_H_

#include <string_view>

namespace skerry {

// How a caller divides an engine's prefix cache: the member of the request's body.
enum class SaltMember { kNone, kCacheSalt, kExtraKey };

struct RouteFacts {
  bool is_control = false;     // acts on the engine itself: only the agent may call it
  bool is_generation = false;  // POST: what docs/proxy.md calls a generation route
};

// `path`: percent-decoded (RequestTarget::path). A control route is found however it is written: behind a prefix, with
// repeated slashes, "." and "..", a slash or white space at the end, upper case, and percent signs that a second
// decoding would turn into it. A generation route is one only as it is written in docs/proxy.md.
RouteFacts FactsOf(std::string_view method, std::string_view path);

// `engine_kind`: EngineFacts::kind ("vllm", "sglang"); kNone for engines and routes that know no salt.
SaltMember SaltMemberOf(std::string_view engine_kind, std::string_view path);

}  // namespace skerry

#endif  // SKERRY_PROXY_ROUTES_H_
