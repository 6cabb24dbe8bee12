#include "skerry/relay/upstreams.h"

#include <algorithm>
#include <optional>

#include "skerry/base/clock.h"
#include "skerry/base/log.h"

namespace skerry {

Error WorseOf(const Error& a, const Error& b) { return a.code == Code::kNotFound ? b : a; }

Upstreams::Upstreams(std::vector<std::shared_ptr<Store>> stores, RelayMetrics& metrics)
    : stores_(std::move(stores)), metrics_(metrics), states_(stores_.size()) {
  for (size_t i = 0; i < stores_.size(); ++i) {
    names_.push_back(stores_[i]->Describe());
    states_[i].view.name = names_[i];
    metrics_.SetUpstream(names_[i], true);
  }
}

std::vector<size_t> Upstreams::Order() const {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<size_t> order(states_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Those that rest come last, in the order in which their rest ends.
  const auto place = [&](size_t i) { return std::pair(std::max(states_[i].rests_until, now), i); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  return order;
}

void Upstreams::Succeeded(size_t index) {
  const std::lock_guard lock(mutex_);
  State& state = states_[index];
  if (!state.view.up) LogInfo("{} answers again", names_[index]);
  state.view.up = true;
  state.rest = {};
  state.rests_until = {};
  metrics_.SetUpstream(names_[index], true);
}

void Upstreams::Rest(size_t index, const std::string& problem) {
  State& state = states_[index];
  state.rest = state.rest.count() == 0 ? kFirstRest : std::min(state.rest * 2, kLongestRest);
  state.rests_until = std::chrono::steady_clock::now() + state.rest;
  state.view.problem = problem;
  state.view.problem_time = FormatTime(Clock::System().Now());
}

void Upstreams::Failed(size_t index, const Error& error) {
  if (error.code == Code::kInterrupted) return;
  const std::lock_guard lock(mutex_);
  State& state = states_[index];
  ++state.view.failures;
  if (state.view.up) LogWarning("{} does not answer: {}", names_[index], error.message);
  state.view.up = false;
  Rest(index, error.message);
  metrics_.SetUpstream(names_[index], false);
  metrics_.Fetched(names_[index], FetchEnd::kFailed);
}

void Upstreams::GaveWrong(size_t index, const std::string& object, const std::string& how) {
  LogError("{} gave a wrong {}: {}", names_[index], object, how);
  const std::lock_guard lock(mutex_);
  State& state = states_[index];
  ++state.view.wrong;
  state.view.wrong_object = object;
  Rest(index, fmt::format("a wrong {}: {}", object, how));
  metrics_.Fetched(names_[index], FetchEnd::kWrong);
}

Status Upstreams::Try(const std::string& object, const std::function<Status(size_t)>& attempt) {
  std::optional<Error> failure;
  for (const size_t index : Order()) {
    Status done = attempt(index);
    if (done) {
      Succeeded(index);
      metrics_.Fetched(name(index), FetchEnd::kRight);
      return {};
    }
    Error error = std::move(done).error();
    if (error.code == Code::kInterrupted) return tl::unexpected<Error>(std::move(error));
    if (error.code == Code::kNotFound) {
      metrics_.Fetched(name(index), FetchEnd::kNotFound);
    } else if (error.code == Code::kCorrupt) {
      GaveWrong(index, object, error.message);
    } else {
      Failed(index, error);
    }
    failure = failure ? WorseOf(*failure, error) : error;
  }
  return tl::unexpected<Error>(*std::move(failure));
}

std::vector<Upstreams::View> Upstreams::Look() const {
  const std::lock_guard lock(mutex_);
  std::vector<View> views;
  for (const State& state : states_) views.push_back(state.view);
  return views;
}

bool Upstreams::AnyUp() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(states_.begin(), states_.end(), [](const State& state) { return state.view.up; });
}

}  // namespace skerry
