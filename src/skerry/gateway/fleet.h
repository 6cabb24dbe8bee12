// The islands that a gateway knows, and which of them gets a request: the decisions, without sockets or threads; time
// is a parameter.
#ifndef SKERRY_GATEWAY_FLEET_H_
#define SKERRY_GATEWAY_FLEET_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "skerry/gateway/island_report.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/version_constraint.h"

namespace skerry {

class Upstream;

enum class IslandState {
  kIn,        // takes requests
  kOut,       // says that it takes none
  kDraining,  // is on its way out
  kFailing,   // could not be reached, or answered wrongly, a moment ago
  kSilent,    // has not been heard of for too long, or never
  kForeign,   // serves another run
};
inline constexpr std::array kIslandStates = {IslandState::kIn,      IslandState::kOut,    IslandState::kDraining,
                                             IslandState::kFailing, IslandState::kSilent, IslandState::kForeign};
std::string_view IslandStateName(IslandState state);

struct Island {
  using Time = std::chrono::steady_clock::time_point;

  std::string url;      // who it is: requests go there
  uint64_t hash = 0;    // of its url
  IslandReport report;  // the last one
  bool heard = false;   // there is one
  bool listed = false;  // a list names it: it is asked for its report, and not forgotten
  Time seen;            // when it was last heard of, or when it was listed

  Time failing_until{};
  int failures_in_a_row = 0;
  bool lied = false;     // the last failure was an answer that can't be trusted
  std::string problem;   // the last failure
  uint64_t running = 0;  // requests that it has from this gateway
  uint64_t others = 0;   // that it had from others, by its last report
  uint64_t answers = 0, failures = 0;

  std::shared_ptr<Upstream> link, asking;  // the gateway's: for requests, for reports

  // Requests that it has, beside what it can run at once.
  double Load() const { return static_cast<double>(running + others) / static_cast<double>(report.capacity); }
};

struct FleetOptions {
  std::string run;     // whose versions requests ask for, without a view
  std::string region;  // whose islands are preferred; empty: all are equal
  std::chrono::milliseconds silence{5'000};
  std::chrono::milliseconds forget{30'000};  // silence after which an island that no list names is gone
  size_t most = 4096;                        // islands
};

// What a request wants.
struct IslandWish {
  VersionConstraint constraint;
  std::optional<uint64_t> session;                    // requests of one session go to one island while that is possible
  uint64_t ticket = 0;                                // decides between islands that are equally loaded
  std::string region;                                 // preferred to the gateway's; empty: that
  const std::vector<const Island*>* tried = nullptr;  // not these again
};

// By one thread.
class Fleet {
 public:
  using Time = Island::Time;
  using Choice = std::variant<std::shared_ptr<Island>, Admission::Refused>;

  explicit Fleet(FleetOptions options) : options_(std::move(options)) {}
  const FleetOptions& options() const { return options_; }

  // An island says how it is; its url is set. Returns whether other requests than before may be taken somewhere.
  // kNoSpace where there are too many islands to take another.
  Result<bool> Report(IslandReport report, Time now);
  // These are asked, and no others. Urls are canonical.
  void List(const std::vector<std::string>& urls, Time now);
  // It is gone. Of no effect where it is not known.
  void Leave(const std::string& url);
  // Takes out and returns those that have been silent for so long that they are gone.
  std::vector<std::shared_ptr<Island>> Forget(Time now);

  // It could not be reached or broke off: not preferred for a while, which grows with each failure in a row.
  void Failed(Island& island, const std::string& why, Time now);
  // Its answer was not what it had promised: it gets nothing until kDistrust has passed or its agent was restarted.
  void Lied(Island& island, const std::string& why, Time now);
  void Answered(Island& island);
  // A 409 said which version it serves.
  void Serves(Island& island, Version version);

  IslandState StateOf(const Island& island, Time now) const;
  // The island for a request; or why there is none, in the agent's terms.
  Choice Choose(const IslandWish& wish, Time now) const;

  const std::map<std::string, std::shared_ptr<Island>>& islands() const { return islands_; }
  // The newest version that an island that is in serves; that is on the board, as islands saw it.
  std::optional<Version> Newest(Time now) const;
  std::optional<Version> Head() const;

  static constexpr std::chrono::milliseconds kFirstPause{250}, kLongestPause{8'000}, kDistrust{30'000};

 private:
  Admission::Refused Refusal(const IslandWish& wish, Time now) const;

  const FleetOptions options_;
  std::map<std::string, std::shared_ptr<Island>> islands_;
  std::optional<Version> last_;  // that an island that was in last said
};

// The same on every host and in every build: gateways without shared state agree where a session goes.
uint64_t StableHash(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_GATEWAY_FLEET_H_
