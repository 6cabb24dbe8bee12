// What an agent must still know after it was killed: the policy that an operator set, and what each engine was last
// told to serve.
#ifndef SKERRY_AGENT_RECORDS_H_
#define SKERRY_AGENT_RECORDS_H_

#include <map>
#include <optional>
#include <string>

#include "skerry/agent/policy.h"
#include "skerry/base/file.h"

namespace skerry {

// `STATE/policy.json`: shared by all agents of a checkpoint, since a checkpoint is at one version. nullopt where nobody
// set one: then each agent's own --run and --follow count.
Result<std::optional<Policy>> ReadPolicy(const Path& state_directory);
Status WritePolicy(const Path& state_directory, const Policy& policy);
Status RemovePolicy(const Path& state_directory);

// What one engine serves for certain. An engine without a record is uncertain: it gets the whole model.
struct EngineRecord {
  std::string label;     // of engine.h
  std::string instance;  // of EngineFacts; an engine that has another one was restarted
  bool operator==(const EngineRecord&) const = default;
};

// Records by the engine's name (Engine::Describe), in `DIRECTORY/engines.json`. An engine's record is taken away before
// the first weight call and given back after the last, so that a kill in between leaves it uncertain. A file that can't
// be read is as good as none. Not thread-safe.
class EngineRecords {
 public:
  explicit EngineRecords(Path directory);

  const EngineRecord* Find(const std::string& engine) const;
  void Set(const std::string& engine, EngineRecord record) { records_[engine] = std::move(record); }
  void Forget(const std::string& engine) { records_.erase(engine); }
  // Makes what was set durable; nothing is written where nothing changed.
  Status Save();

 private:
  Path path_;
  std::map<std::string, EngineRecord> records_, saved_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_RECORDS_H_
