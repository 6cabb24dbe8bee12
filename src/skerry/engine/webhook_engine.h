// An engine that somebody's own service drives. For each step it gets, by POST,
//
//   {"phase": "load", "run": "grpo-1", "version": 7, "label": "grpo-1@7", "model": SHA-256, "checkpoint": DIRECTORY}
//
// with the phases prepare, pause, load, reset_cache, verify, resume; "pause" is "in-place", "drain" or "abort" in phase
// pause. Before the first prepare only "phase" and "pause" are known. 2xx is success, whatever the body, unless that is
// JSON with "success": false; anything else is a failure. The service is told nothing twice by one call, but the agent
// may repeat a phase. What the engine serves is remembered from the last load and not asked for: after a restart of the
// agent it is unknown, so the agent loads again.
#ifndef SKERRY_ENGINE_WEBHOOK_ENGINE_H_
#define SKERRY_ENGINE_WEBHOOK_ENGINE_H_

#include "skerry/engine/control_api.h"
#include "skerry/engine/told_engine.h"

namespace skerry {

class WebhookEngine : public ToldEngine {
 public:
  static Result<std::unique_ptr<Engine>> Make(const std::string& url, const EngineOptions& options);
  WebhookEngine(const std::string& url, const EngineOptions& options);

 private:
  Status Tell(const Phase& phase) override;

  ControlApi api_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_WEBHOOK_ENGINE_H_
