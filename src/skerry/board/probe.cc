#include "skerry/board/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "skerry/board/keys.h"
#include "skerry/board/names.h"
#include "skerry/board/probe_race.h"

namespace skerry {
namespace {

using Endpoints = std::vector<std::shared_ptr<Store>>;

// The conditions one at a time, through one endpoint. Each step builds on what the one before left.
class Checks {
 public:
  Checks(Store& store, std::string prefix) : store_(store), key_(prefix + "one"), missing_(prefix + "missing") {}

  Status Run() {
    SKERRY_TRY(Write("create a new object", key_, std::nullopt, "first", /*may_write=*/true));
    if (!last_right_) return {};  // nothing is there that the other checks need
    SKERRY_TRY(Write("create one that exists", key_, std::nullopt, "second", /*may_write=*/false));
    create_ = last_right_;

    SKERRY_ASSIGN(const Object now, store_.Get(key_, kMaxProbeBytes));
    SKERRY_TRY(Write("swap with the right token", key_, now.generation, "third", /*may_write=*/true));
    can_swap_ = swap_ = last_right_;
    SKERRY_TRY(Write("swap with a stale token", key_, now.generation, "fourth", /*may_write=*/false));
    // Where the swap before was refused, this token is not stale.
    swap_ = swap_ && last_right_;
    SKERRY_TRY(Write("swap of a missing object", missing_, now.generation, "fifth", /*may_write=*/false));
    swap_ = swap_ && last_right_;
    return {};
  }

  std::vector<ProbeCheck>& found() { return found_; }
  bool create() const { return create_; }
  bool swap() const { return swap_; }
  bool can_swap() const { return can_swap_; }
  std::vector<std::string> keys() const { return {key_, missing_}; }

 private:
  Status Write(std::string name, const std::string& key, const std::optional<Generation>& expected,
               std::string_view text, bool may_write) {
    SKERRY_ASSIGN(const auto before, ProbeText(store_, key));
    const Result<Generation> written = store_.CompareAndSwap(key, expected, AsBytes(text));
    const bool lost = !written && written.error().code == Code::kConflict;
    const bool cannot = !written && written.error().code == Code::kUnsupported;
    if (!written && !lost && !cannot) return tl::unexpected<Error>(written.error());
    SKERRY_ASSIGN(const auto after, ProbeText(store_, key));
    const bool wrote = after && *after == text;

    ProbeCheck check{.name = std::move(name), .endpoint = store_.Describe()};
    check.right = may_write ? written && wrote : lost && after == before;
    if (cannot) {
      check.found = written.error().message;
    } else if (may_write) {
      check.found = check.right ? "written" : lost ? "refused, though nothing else wrote" : "said written, but was not";
    } else if (check.right) {
      check.found = "refused";
    } else {
      check.found = lost ? "said refused, but changed the object" : "ignored the condition and wrote";
    }
    last_right_ = check.right;
    found_.push_back(std::move(check));
    return {};
  }

  Store& store_;
  const std::string key_, missing_;
  std::vector<ProbeCheck> found_;
  bool last_right_ = false, create_ = false, swap_ = false, can_swap_ = false;
};

// A race in which no write ever got through says nothing about races.
Status CheckConclusive(const ProbeRace& race) {
  if (race.no_winner < race.rounds) return {};
  if (race.failed_writes > 0) {
    return Fail(Code::kUnavailable, "{} rounds of racing writers ({}) had no winner: {}", race.rounds, race.name,
                race.first_failure);
  }
  return Fail(Code::kUnavailable, "{} rounds of racing writers ({}) had no winner: every writer was told that it lost",
              race.rounds, race.name);
}

std::string WhatWentWrong(const ProbeReport& report) {
  for (const ProbeCheck& check : report.checks) {
    if (!check.right) return fmt::format("{}: {}", check.name, check.found);
  }
  for (const ProbeRace& race : report.races) {
    if (race.most_winners > 1) {
      return fmt::format("racing writers ({}): up to {} of them won at once", race.name, race.most_winners);
    }
    if (race.wrong_bytes > 0) {
      return fmt::format("racing writers ({}): other bytes than the winner's were there after {} of {} rounds",
                         race.name, race.wrong_bytes, race.rounds);
    }
  }
  return "";
}

class Probe {
 public:
  Probe(const Endpoints& endpoints, const ProbeOptions& options, Progress& progress)
      : endpoints_(endpoints), prefix_(ProbePrefix(RandomToken())), races_(endpoints, options, prefix_, progress) {}

  Result<ProbeReport> Run() {
    const Status probed = Find();
    Clean();
    SKERRY_TRY(probed);
    report_.reason = WhatWentWrong(report_);
    return std::move(report_);
  }

 private:
  Status Find() {
    bool create = true, swap = true;
    report_.can_swap = true;
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      Checks checks(*endpoints_[i], fmt::format("{}endpoint-{}-", prefix_, i));
      std::ranges::copy(checks.keys(), std::back_inserter(keys_));
      SKERRY_TRY(checks.Run());
      SKERRY_TRY(CheckSeenThroughAll(checks.keys().front()));
      create = create && checks.create();
      swap = swap && checks.swap();
      report_.can_swap = report_.can_swap && checks.can_swap();
      std::ranges::move(checks.found(), std::back_inserter(report_.checks));
    }
    report_.verdict = !create ? WriteSafety::kNone : swap ? WriteSafety::kFull : WriteSafety::kCreateOnly;
    if (create) SKERRY_TRY(Take(races_.Create()));
    if (create && swap) SKERRY_TRY(Take(races_.Swap()));
    for (const auto& store : endpoints_) {
      if (std::string form = store->DescribeTokens(); !form.empty()) report_.token_forms.push_back(std::move(form));
    }
    return {};
  }

  Status CheckSeenThroughAll(const std::string& key) {
    SKERRY_ASSIGN(const auto text, ProbeText(*endpoints_[0], key));
    for (const auto& store : endpoints_) {
      SKERRY_ASSIGN(const auto here, ProbeText(*store, key));
      if (here == text) continue;
      return Fail(Code::kMismatch, "{} and {} do not show the same objects: they are not two ways to one board",
                  endpoints_[0]->Describe(), store->Describe());
    }
    return {};
  }

  Status Take(Result<ProbeRace> race) {
    SKERRY_TRY(race);
    SKERRY_TRY(CheckConclusive(*race));
    if (!race->Safe()) report_.verdict = WriteSafety::kUnsafe;
    report_.races.push_back(*std::move(race));
    return {};
  }

  // What can't be removed does no harm: nobody reads below probe/.
  void Clean() {
    Status cleaned;
    std::ranges::copy(races_.keys(), std::back_inserter(keys_));
    for (const std::string& key : keys_) {
      Status deleted = endpoints_[0]->Delete(key);
      if (cleaned && !deleted) cleaned = std::move(deleted);
    }
    if (cleaned) cleaned = endpoints_[0]->DeleteEmptyFolder(prefix_);
    if (!cleaned) report_.leftover = cleaned.error().message;
  }

  const Endpoints& endpoints_;
  const std::string prefix_;
  ProbeRaces races_;
  std::vector<std::string> keys_;
  ProbeReport report_;
};

}  // namespace

Result<ProbeReport> ProbeStore(const std::vector<std::shared_ptr<Store>>& endpoints, const ProbeOptions& options,
                               Progress& progress) {
  if (endpoints.empty() || options.writers < 2 || options.rounds < 1) {
    return Fail(Code::kInvalid, "a probe needs an endpoint, 2 writers and a round, not {}, {} and {}", endpoints.size(),
                options.writers, options.rounds);
  }
  return Probe(endpoints, options, progress).Run();
}

}  // namespace skerry
