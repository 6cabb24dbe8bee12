#include "skerry/relay/library.h"

#include <algorithm>
#include <utility>

#include "skerry/base/interrupt.h"
#include "skerry/base/log.h"
#include "skerry/relay/memory_file.h"

namespace skerry {
namespace {

constexpr uint64_t kHashPiece = 1 << 20;
constexpr std::chrono::milliseconds kSweepEvery{1'000};

std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

Error Stopping() { return {Code::kUnavailable, "the relay is being stopped"}; }

}  // namespace

Library::Library(EventLoop& loop, Upstreams& upstreams, DiskCache& disk, RelayMetrics& metrics,
                 const LibraryOptions& options)
    : loop_(loop),
      upstreams_(upstreams),
      disk_(disk),
      metrics_(metrics),
      options_(options),
      documents_(upstreams, disk, metrics),
      fetcher_(std::make_unique<Fetcher>(upstreams, metrics, options.fetch_threads)),
      pool_(std::make_unique<HandlerPool>(options.threads, options.max_waiting)),
      sweeping_(loop.Every(kSweepEvery, [this] { Sweep(); })) {}

Library::~Library() { Stop(); }

void Library::Stop() {
  stopping_ = true;
  fetcher_->Stop();
  pool_.reset(new HandlerPool(0, 0));  // waits for the tasks that run
}

void Library::Find(const std::string& key, const BoardObject& object, bool size_only, Found found) {
  if (object.kind == ObjectKind::kManifest) {
    const std::lock_guard lock(mutex_);
    asked_[object.run] = Now();
  }
  const auto open = open_.find(key);
  if (open != open_.end() && open->second.expires > Now() && open->second.body->state() != Body::State::kFailed) {
    open->second.used = Now();
    const std::shared_ptr<Body>& body = open->second.body;
    metrics_.LookedUp(body->state() == Body::State::kComing ? Whereabouts::kComing : Whereabouts::kHere);
    return found(FoundObject{body, body->size()});
  }
  std::vector<Found>& waiting = pending_[{key, size_only}];
  waiting.push_back(std::move(found));
  if (waiting.size() > 1) return;
  const bool taken = Run([this, key, object, size_only] {
    Time expires = Time::max();
    auto answer = std::make_shared<Result<FoundObject>>(Look(key, object, size_only, expires));
    loop_.Post([this, key, size_only, answer, expires] { Tell(key, size_only, *answer, expires); });
  });
  if (!taken) {
    const Error busy = stopping_ ? Stopping() : Error{Code::kUnavailable, "too many objects are being looked for"};
    Tell(key, size_only, tl::unexpected<Error>(busy), Time::max());
  }
}

void Library::Tell(const std::string& key, bool size_only, const Result<FoundObject>& found, Time expires) {
  if (found && found->body) open_[key] = {.body = found->body, .used = Now(), .expires = expires};
  const auto at = pending_.find({key, size_only});
  if (at == pending_.end()) return;
  const std::vector<Found> waiting = std::move(at->second);
  pending_.erase(at);
  for (const Found& each : waiting) each(found);
}

void Library::Sweep() {
  const Time limit = Now() - kLinger;
  const bool many = open_.size() > kMostOpen;
  std::erase_if(open_, [&](const auto& entry) {
    const Open& open = entry.second;
    return open.body->state() != Body::State::kComing && (many || open.used < limit);
  });
}

bool Library::Run(std::function<void()> task) {
  return pool_->Add([this, task = std::move(task)] {
    const Interruptible interruptible(&stopping_);
    if (!stopping_) task();
  });
}

std::vector<RunId> Library::AskedFor(std::chrono::seconds time) const {
  const std::lock_guard lock(mutex_);
  std::vector<RunId> runs;
  for (const auto& [run, when] : asked_) {
    if (when + time > Now()) runs.push_back(run);
  }
  return runs;
}

Result<FoundObject> Library::Look(const std::string& key, const BoardObject& object, bool size_only, Time& expires) {
  if (stopping_) return tl::unexpected<Error>(Stopping());
  if (object.kind == ObjectKind::kData) return LookForData(key, object, size_only);
  SKERRY_ASSIGN(const SharedDocument document, documents_.Get(key, object));
  expires = document->expires;
  return FoundObject{Body::OfBytes(document->bytes, document->sha256), document->bytes.size()};
}

Result<FoundObject> Library::LookForData(const std::string& key, const BoardObject& object, bool size_only) {
  const auto known = documents_.WhatIsKnown(key, object);
  Expected expected{.sha256 = {}, .digits = object.digits};
  std::optional<uint64_t> size;
  if (known) {
    expected.sha256 = known->sha256;
    size = known->size;
  }
  if (disk_.Has(key)) {
    auto kept = OnDisk(key, expected);
    if (kept) {
      metrics_.LookedUp(Whereabouts::kHere);
      return FoundObject{*kept, (*kept)->size()};
    }
    if (kept.error().code == Code::kInterrupted) return tl::unexpected<Error>(kept.error());
    LogWarning("{} in the cache is not right and is dropped: {}", key, kept.error().message);
    disk_.Drop(key);
  }
  if (!size) {
    SKERRY_ASSIGN(size, AskForSize(key));
  }
  if (size_only) return FoundObject{nullptr, *size};
  metrics_.LookedUp(Whereabouts::kUpstream);
  SKERRY_ASSIGN(std::shared_ptr<Body> body, Begin(key, std::move(expected), *size));
  return FoundObject{std::move(body), *size};
}

Result<uint64_t> Library::AskForSize(const std::string& key) {
  uint64_t size = 0;
  SKERRY_TRY(upstreams_.Try(key, [&](size_t upstream) -> Status {
    SKERRY_ASSIGN(const ObjectInfo info, upstreams_.store(upstream).Stat(key));
    size = info.size;
    return {};
  }));
  return size;
}

// Checked once after each start, before the first byte of it goes out.
Result<std::shared_ptr<Body>> Library::OnDisk(const std::string& key, const Expected& expected) {
  SKERRY_ASSIGN(DiskCache::Found found, disk_.Find(key));
  Digest digest;
  if (found.checked) {
    digest = *found.checked;
  } else {
    Sha256 hash;
    Bytes piece;
    for (uint64_t at = 0; at < found.size; at += piece.size()) {
      SKERRY_TRY(CheckInterrupt());
      piece.resize(std::min(kHashPiece, found.size - at));
      SKERRY_TRY(found.file.ReadAt(piece, at));
      hash.Update(piece);
    }
    digest = hash.Finish();
  }
  if (const std::string flaw = expected.FlawOf(digest); !flaw.empty()) return Fail(Code::kCorrupt, "{}", flaw);
  disk_.SetChecked(key, digest);
  return Body::OfFile(std::move(found.file), found.size, digest);
}

Result<std::shared_ptr<Body>> Library::Begin(const std::string& key, Expected expected, uint64_t size) {
  std::shared_ptr<DiskCache::Room> room;
  std::shared_ptr<Body> body;
  auto place = disk_.MakeRoom(size);
  if (place) {
    room = std::move(place->room);
    body = Body::Coming(loop_, std::move(place->file), size);
  } else {
    // Served without being kept, from memory.
    const uint64_t used = memory_used_.fetch_add(size);
    std::shared_ptr<void> held(nullptr, [this, size](void*) { memory_used_ -= size; });
    if (used + size > options_.memory) {
      return Fail(Code::kUnavailable, "{}: no room for {} bytes, on the disk ({}) or in memory ({} of {} are used)",
                  key, size, place.error().message, used, options_.memory);
    }
    SKERRY_ASSIGN(File file, MakeMemoryFile(size));
    body = Body::Coming(loop_, std::move(file), size, std::move(held));
  }
  ++coming_;
  const auto done = [this, key, room](const std::optional<Digest>& right) {
    --coming_;
    if (!right || !room) return;
    if (const Status kept = disk_.Keep(*room, key, *right); !kept) {
      LogWarning("{} is not kept: {}", key, kept.error().message);
    }
  };
  fetcher_->Begin({.key = key, .expected = std::move(expected), .body = body, .done = done});
  return body;
}

}  // namespace skerry
