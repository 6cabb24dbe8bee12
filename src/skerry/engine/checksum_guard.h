// Finds a reload that did nothing (an engine that keeps files by their path): other weights have other checksums.
#ifndef SKERRY_ENGINE_CHECKSUM_GUARD_H_
#define SKERRY_ENGINE_CHECKSUM_GUARD_H_

#include <optional>
#include <string>

#include "skerry/engine/control_api.h"

namespace skerry {

// Asks for the engine's own checksums before and after a load. Costs the engine one pass over its weights each time, so
// it is off unless asked for. Not thread-safe. The api must outlive it.
class ChecksumGuard {
 public:
  ChecksumGuard(ControlApi& api, std::string route, bool on) : api_(api), route_(std::move(route)), on_(on) {}

  Status BeforeLoad();
  // kMismatch when nothing changed although `model` is another one than at the last call that succeeded. Engines leave
  // out tensors that they don't use, so an update of such tensors alone is taken for none.
  Status AfterLoad(const Digest& model);

 private:
  Result<std::string> Ask();

  ControlApi& api_;
  const std::string route_;
  const bool on_;
  std::string before_;
  std::optional<Digest> model_;  // that the engine had at the last AfterLoad
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_CHECKSUM_GUARD_H_
