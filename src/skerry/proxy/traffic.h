// What the switch of an island's engines asks of whatever stands between them and their callers.
#ifndef SKERRY_PROXY_TRAFFIC_H_
#define SKERRY_PROXY_TRAFFIC_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "skerry/engine/engine.h"

namespace skerry {

// Engines are numbers: their places in the island. One switch at a time, from any thread; each call returns when it has
// taken effect.
class Traffic {
 public:
  virtual ~Traffic() = default;

  // An engine is in rotation and serves `label`.
  virtual void SetIn(size_t engine, const std::string& label) = 0;
  // It is not. `certain`: it still serves what it served, so its requests may go on; else they are cut off.
  virtual void SetOut(size_t engine, bool certain) = 0;

  // These engines are about to be paused on their way to `label`. Waits for requests that must not live through it
  // (docs/proxy.md), up to `patience`, and cuts off what is left. From then on they get no request.
  virtual void BeginSwitch(const std::vector<size_t>& engines, const std::string& label, PausePolicy policy,
                           std::chrono::milliseconds patience) = 0;
  // They serve `label` now, and are still paused.
  virtual void Flip(const std::vector<size_t>& engines) = 0;
  // They take requests again, those that are in rotation.
  virtual void EndSwitch(const std::vector<size_t>& engines) = 0;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_TRAFFIC_H_
