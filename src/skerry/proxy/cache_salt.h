// Keeps prefixes that one version has computed from requests of another (docs/proxy.md, `--kv namespace`).
#ifndef SKERRY_PROXY_CACHE_SALT_H_
#define SKERRY_PROXY_CACHE_SALT_H_

#include <string>
#include <string_view>

#include "skerry/board/names.h"
#include "skerry/proxy/routes.h"

namespace skerry {

// What vLLM takes: this many characters, and none of @ / \ and the byte 0 (its validate_cache_salt).
inline constexpr size_t kLongestCacheSalt = 128;

// "grpo-1:7:3f2a91bc". `stay` is another one for each time that an engine came to the version: a request that ran on
// through a switch leaves blocks of newer weights in the older version's namespace, which nobody may find who comes
// back to it, and tells views of the run apart, which are left out. Neither a run's name nor a stay has a ':', so that
// no two of these, with or without a caller's own behind it, are the same.
std::string CacheLabel(std::string_view run, Version version, std::string_view stay);

// The body of a request with `label` (CacheLabel) as its salt, or it, ':' and the caller's own; a caller's null or
// "" is none, and of a caller's that would make it too long 32 digits of its SHA-256 are taken. A list of salts
// (SGLang's batches) gets it in each of its strings and nulls. Values of another type, lists of more than
// kMostCacheSalts, and bodies that are no objects, stay as they are: the engine refuses them. Of a repeated member, all
// are changed.
std::string WithCacheSalt(std::string_view body, SaltMember member, std::string_view label);
inline constexpr size_t kMostCacheSalts = 65536;

}  // namespace skerry

#endif  // SKERRY_PROXY_CACHE_SALT_H_
