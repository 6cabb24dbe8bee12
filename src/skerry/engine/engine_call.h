// The calls of Engine by name, for traces, scripted faults and messages.
#ifndef SKERRY_ENGINE_ENGINE_CALL_H_
#define SKERRY_ENGINE_ENGINE_CALL_H_

#include <string_view>

namespace skerry {

enum class EngineCall { kProbe, kCheck, kPrepare, kPause, kLoad, kResetCache, kVerify, kResume };

constexpr std::string_view EngineCallName(EngineCall call) {
  switch (call) {
    case EngineCall::kProbe: return "probe";
    case EngineCall::kCheck: return "check";
    case EngineCall::kPrepare: return "prepare";
    case EngineCall::kPause: return "pause";
    case EngineCall::kLoad: return "load";
    case EngineCall::kResetCache: return "reset_cache";
    case EngineCall::kVerify: return "verify";
    case EngineCall::kResume: return "resume";
  }
  return "?";
}

}  // namespace skerry

#endif  // SKERRY_ENGINE_ENGINE_CALL_H_
