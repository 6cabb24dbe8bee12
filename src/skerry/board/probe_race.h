// The races of a probe (probe.h): many writers at once make the same conditional write, each with its own bytes.
#ifndef SKERRY_BOARD_PROBE_RACE_H_
#define SKERRY_BOARD_PROBE_RACE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/board/probe.h"

namespace skerry {

// Writes objects below `prefix` and leaves them there: keys() has their names, also after an error. Each race starts
// ProbeOptions::writers threads a round and waits for them. The references must outlive it.
class ProbeRaces {
 public:
  ProbeRaces(const std::vector<std::shared_ptr<Store>>& endpoints, const ProbeOptions& options, std::string prefix,
             Progress& progress)
      : endpoints_(endpoints), options_(options), prefix_(std::move(prefix)), progress_(progress) {}

  // Each round creates another object.
  Result<ProbeRace> Create();
  // Each round replaces what the one before left.
  Result<ProbeRace> Swap();

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  // What became of the writes of one round.
  struct Outcome {
    std::vector<int> winners;
    int failed = 0;
    std::string first_failure;
  };

  ProbeRace Begin(const std::string& name);
  std::string BytesOf(int round, int writer) const;
  // `expected`: what each endpoint said that is there.
  Outcome Round(const std::string& key, const std::vector<std::optional<Generation>>& expected, int round);
  Status Judge(const std::string& key, int round, Outcome outcome, ProbeRace& race) const;

  const std::vector<std::shared_ptr<Store>>& endpoints_;
  const ProbeOptions& options_;
  const std::string prefix_;
  Progress& progress_;
  std::vector<std::string> keys_;
};

// The text at `key`, nullopt where there is none.
Result<std::optional<std::string>> ProbeText(Store& store, std::string_view key);

// What a probe writes is smaller.
inline constexpr uint64_t kMaxProbeBytes = 4096;

}  // namespace skerry

#endif  // SKERRY_BOARD_PROBE_RACE_H_
