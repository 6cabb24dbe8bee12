#include "skerry/relay/heads.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "skerry/base/clock.h"
#include "skerry/base/interrupt.h"
#include "skerry/base/log.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAfterAFailure{500};

std::string TagOf(ByteSpan bytes) { return fmt::format("\"{}\"", Sha256::Of(bytes).Hex()); }

// What changes when a file is replaced.
struct FileMark {
  ino_t inode = 0;
  off_t size = 0;
  int64_t seconds = 0, nanoseconds = 0;
  bool operator==(const FileMark&) const = default;

  static FileMark Of(const Path& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return {};
    return {info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  }
};

}  // namespace

Heads::Heads(Upstreams& upstreams, RelayMetrics& metrics, HeadsOptions options)
    : upstreams_(upstreams), metrics_(metrics), options_(std::move(options)) {
  ReadKept();
}

Heads::~Heads() { Stop(); }

void Heads::ReadKept() {
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  for (const auto& entry : std::filesystem::directory_iterator(options_.directory, error)) {
    const auto run = RunId::Parse(entry.path().filename().string());
    auto bytes = ReadFile(entry.path(), kMaxHeadBytes);
    if (!run || !bytes || runs_.size() >= kMostRuns) continue;
    const auto head = ParseHead(*bytes);
    if (!head || head->run != *run) continue;  // torn: it is asked for again
    std::string tag = TagOf(*bytes);
    auto state = std::make_unique<Run>();
    state->head = std::make_shared<RelayedHead>(
        RelayedHead{*std::move(bytes), std::move(tag), *head, RelayedHead::kNone, Generation(""), {}, {}});
    if (options_.on_move) options_.on_move(*head);
    runs_[*run] = std::move(state);
  }
}

void Heads::Stop() {
  std::vector<std::thread> threads;
  std::vector<std::pair<Waiter, SharedHead>> waiters;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [run, state] : runs_) {
      threads.push_back(std::move(state->follower));
      for (auto& [id, waiter] : std::exchange(state->waiters, {})) waiters.emplace_back(std::move(waiter), state->head);
    }
    waiting_count_ = 0;
  }
  woken_.notify_all();
  for (const auto& [waiter, head] : waiters) waiter.changed(head);
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

Heads::Run* Heads::Seen(const RunId& run) const {
  const auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : found->second.get();
}

bool Heads::IsFresh(const Run& state, milliseconds fresh) {
  if (!state.follows) return false;
  // While nobody answers, the thread goes on asking: readers need not wait for that one by one.
  return state.pushed || state.failing || steady_clock::now() - state.head->told < fresh;
}

SharedHead Heads::IfFresh(const RunId& run) {
  const std::lock_guard lock(mutex_);
  Run* state = Seen(run);
  if (state == nullptr) return nullptr;
  state->asked = steady_clock::now();
  return IsFresh(*state, options_.fresh) ? state->head : nullptr;
}

Result<SharedHead> Heads::Get(const RunId& run) {
  if (SharedHead fresh = IfFresh(run)) return fresh;
  Run* state = nullptr;
  {
    const std::lock_guard lock(mutex_);
    state = Seen(run);
  }
  const std::lock_guard one(state ? state->asking : first_);
  if (SharedHead fresh = IfFresh(run)) return fresh;
  SharedHead old;
  {
    const std::lock_guard lock(mutex_);
    if (Run* seen = Seen(run)) old = seen->head;
  }
  auto asked = Ask(run, old);
  if (!asked && !old) return asked;
  {
    const std::lock_guard lock(mutex_);
    if (state == nullptr) state = Seen(run);
    if (state == nullptr) {
      if (runs_.size() >= kMostRuns) return asked;
      state = (runs_[run] = std::make_unique<Run>()).get();
      state->asked = steady_clock::now();
    }
    state->failing = !asked;
  }
  if (asked) Set(*state, *asked);
  StartFollowing(run, *state);
  return asked ? asked : Result<SharedHead>(old);
}

Result<SharedHead> Heads::Ask(const RunId& run, const SharedHead& old) {
  SharedHead head;
  const std::string what = fmt::format("head of run {}", run);
  SKERRY_TRY(upstreams_.Try(what, [&](size_t upstream) -> Status {
    const auto asked = steady_clock::now();
    SKERRY_ASSIGN(Object told, upstreams_.store(upstream).Get(HeadKey(run), kMaxHeadBytes));
    metrics_.FetchedBytes(upstreams_.name(upstream), told.bytes.size());
    SKERRY_ASSIGN(head, Take(run, old, upstream, asked, std::move(told)));
    return {};
  }));
  return head;
}

Result<SharedHead> Heads::Take(const RunId& run, const SharedHead& old, size_t upstream, steady_clock::time_point asked,
                               Object told) const {
  auto head = ParseHead(told.bytes);
  if (!head) return Fail(Code::kCorrupt, "{}", head.error().message);
  if (head->run != run) return Fail(Code::kCorrupt, "it is of run {}", head->run);
  const bool behind = old && (head->sequence < old->head.sequence ||
                              (head->sequence == old->head.sequence && told.bytes != old->bytes));
  if (behind && old->upstream != upstream && upstreams_.count() > 1) {
    return Fail(Code::kUnavailable,
                "its head of run {} is at write {} and version {}, but write {} and version {} was seen elsewhere", run,
                head->sequence, head->version, old->head.sequence, old->head.version);
  }
  std::string tag = TagOf(told.bytes);
  return std::make_shared<const RelayedHead>(RelayedHead{std::move(told.bytes), std::move(tag), *std::move(head),
                                                         upstream, std::move(told.generation), asked,
                                                         steady_clock::now()});
}

void Heads::Set(Run& state, SharedHead head) {
  SharedHead before;
  {
    const std::lock_guard lock(mutex_);
    before = state.head;
  }
  if (before && head->head.sequence < before->head.sequence && head->asked < before->told) return;
  const bool moved = !before || before->tag != head->tag;
  if (moved && options_.on_move) options_.on_move(head->head);
  std::vector<Waiter> told;
  {
    const std::lock_guard lock(mutex_);
    state.head = head;
    if (moved) {
      for (auto& [id, waiter] : std::exchange(state.waiters, {})) told.push_back(std::move(waiter));
      waiting_count_ -= told.size();
    }
  }
  for (const Waiter& waiter : told) waiter.changed(head);
  metrics_.SetHead(head->head.run.str(), head->head.version.number(), Clock::System().Now());
  if (!moved) return;
  metrics_.HeadMoved();
  const Status kept = WriteFileAtomically(PathOf(head->head.run), head->bytes);
  if (!kept && kept.error().code != Code::kNoSpace) LogWarning("a head is not kept: {}", kept.error().message);
}

std::shared_ptr<void> Heads::OnChange(const RunId& run, const std::string& tag,
                                      std::function<void(SharedHead)> changed) {
  const std::lock_guard lock(mutex_);
  Run* state = Seen(run);
  if (state == nullptr || stopping_ || state->head->tag != tag) return nullptr;
  const uint64_t id = next_waiter_++;
  state->waiters[id] = {tag, std::move(changed)};
  ++waiting_count_;
  return {state, [this, id](Run* at) {
            const std::lock_guard guard(mutex_);
            waiting_count_ -= at->waiters.erase(id);
          }};
}

void Heads::Wake() {
  const std::lock_guard lock(mutex_);
  ++wakes_;
  woken_.notify_all();
}

void Heads::Pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  const uint64_t before = wakes_;
  woken_.wait_for(lock, time, [&] { return stopping_ || wakes_ != before; });
}

void Heads::WatchFile(const Path& path) {
  const FileMark before = FileMark::Of(path);
  const auto end = steady_clock::now() + options_.fresh;
  uint64_t wakes = 0;
  {
    const std::lock_guard lock(mutex_);
    wakes = wakes_;
  }
  while (!stopping_ && steady_clock::now() < end && FileMark::Of(path) == before) {
    Pause(kLookAtFiles);
    const std::lock_guard lock(mutex_);
    if (wakes != wakes_) return;
  }
}

void Heads::StartFollowing(const RunId& run, Run& state) {
  const std::lock_guard lock(mutex_);
  if (state.follows || stopping_) return;
  if (state.follower.joinable()) state.follower.join();  // it has left, and takes mutex_ no more
  state.follows = true;
  state.follower = std::thread([this, run, &state] { Follow(run, state); });
}

void Heads::Follow(const RunId& run, Run& state) {
  const Interruptible interruptible(&stopping_);
  while (true) {
    const milliseconds pause = FollowOnce(run, state);
    if (pause.count() > 0) Pause(pause);
    const std::lock_guard lock(mutex_);
    const bool idle = state.waiters.empty() && steady_clock::now() - state.asked > options_.followed_for;
    if (!stopping_ && !idle) continue;
    state.follows = false;
    return;
  }
}

milliseconds Heads::FollowOnce(const RunId& run, Run& state) {
  SharedHead head;
  bool failing = false;
  {
    const std::lock_guard lock(mutex_);
    head = state.head;
    failing = state.failing;
  }
  const size_t upstream = upstreams_.Order().front();
  const std::string key = HeadKey(run);
  const auto settle = [&](Result<SharedHead> told) -> milliseconds {
    {
      const std::lock_guard lock(mutex_);
      state.pushed = false;
      state.failing = !told;
    }
    if (told) Set(state, *told);
    return told ? milliseconds(0) : std::min(kAfterAFailure, options_.fresh);
  };
  // Another one than told it, or after a failure: what it is now has to be known first.
  if (failing || head->upstream != upstream) {
    if (!failing) return settle(Ask(run, head));
    const std::lock_guard one(state.asking);
    return settle(Ask(run, head));
  }
  Store& store = upstreams_.store(upstream);
  if (const auto path = store.LocalPath(key)) {
    WatchFile(*path);
    return stopping_ ? milliseconds(0) : settle(Ask(run, head));
  }
  if (state.ask_only_until > steady_clock::now()) {
    Pause(options_.fresh);
    return stopping_ ? milliseconds(0) : settle(Ask(run, head));
  }
  {
    const std::lock_guard lock(mutex_);
    state.pushed = true;
  }
  auto changed = store.WaitForChange(key, head->generation, kMaxHeadBytes, kLongestWait);
  if (changed && *changed) {
    auto told = Take(run, head, upstream, steady_clock::now(), **std::move(changed));
    if (told) {
      upstreams_.Succeeded(upstream);
    } else if (told.error().code == Code::kCorrupt) {
      upstreams_.GaveWrong(upstream, fmt::format("head of run {}", run), told.error().message);
    }
    return settle(std::move(told));
  }
  if (changed) {  // it is as it was
    upstreams_.Succeeded(upstream);
    auto same = std::make_shared<RelayedHead>(*head);
    same->told = steady_clock::now();
    return settle(SharedHead(std::move(same)));
  }
  {
    const std::lock_guard lock(mutex_);
    state.pushed = false;
  }
  if (changed.error().code != Code::kUnsupported) {
    if (!stopping_) upstreams_.Failed(upstream, changed.error());
    return settle(tl::unexpected<Error>(changed.error()));
  }
  state.ask_only_until = steady_clock::now() + kAskOnly;
  return milliseconds(0);
}

std::vector<Heads::View> Heads::Look() const {
  const std::lock_guard lock(mutex_);
  std::vector<View> views;
  for (const auto& [run, state] : runs_) {
    views.push_back({run, state->head, state->waiters.size(), state->pushed});
  }
  return views;
}

}  // namespace skerry
