// The boards that a relay reads from: several places of the same board, of which some may be away or wrong.
#ifndef SKERRY_RELAY_UPSTREAMS_H_
#define SKERRY_RELAY_UPSTREAMS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "skerry/board/store.h"
#include "skerry/metrics/relay_metrics.h"

namespace skerry {

// In the order of preference. One that failed or gave wrong bytes comes last for a while that doubles, from kFirstRest
// to kLongestRest; it is asked all the same where no other can help, and has its place again as soon as it answers.
// Thread-safe.
class Upstreams {
 public:
  static constexpr std::chrono::seconds kFirstRest{1}, kLongestRest{30};

  struct View {
    std::string name;
    bool up = true;
    uint64_t failures = 0;  // requests that could not be answered
    uint64_t wrong = 0;     // objects and heads that were not what they should be
    std::string problem;    // the last one, kept after it has passed; empty: none
    std::string problem_time;
    std::string wrong_object;  // what the last wrong one was
  };

  Upstreams(std::vector<std::shared_ptr<Store>> stores, RelayMetrics& metrics);

  size_t count() const { return stores_.size(); }
  Store& store(size_t index) const { return *stores_[index]; }
  const std::string& name(size_t index) const { return names_[index]; }

  // Which to ask, one after the other.
  std::vector<size_t> Order() const;

  void Succeeded(size_t index);
  // What it answered instead of the object. That it has none is no failure of it.
  void Failed(size_t index, const Error& error);
  // It gave something else than it should have.
  void GaveWrong(size_t index, const std::string& object, const std::string& how);

  // Calls `attempt` with one after the other until one succeeds; the last failure, that of the network rather than "not
  // found". kCorrupt from `attempt` says that this upstream is wrong about `object`.
  Status Try(const std::string& object, const std::function<Status(size_t)>& attempt);

  std::vector<View> Look() const;
  // Whether one of them answered when it was last asked.
  bool AnyUp() const;

 private:
  struct State {
    View view;
    std::chrono::steady_clock::time_point rests_until;
    std::chrono::seconds rest{0};
  };

  void Rest(size_t index, const std::string& problem);

  const std::vector<std::shared_ptr<Store>> stores_;
  std::vector<std::string> names_;
  RelayMetrics& metrics_;
  mutable std::mutex mutex_;
  std::vector<State> states_;  // guarded by mutex_
};

// The worse of two failures to tell a reader of: what may pass is worth another attempt, "not found" is not.
Error WorseOf(const Error& a, const Error& b);

}  // namespace skerry

#endif  // SKERRY_RELAY_UPSTREAMS_H_
