#include "skerry/relay/fetcher.h"

#include <algorithm>
#include <utility>

#include "skerry/base/interrupt.h"
#include "skerry/base/log.h"

namespace skerry {

std::string Expected::FlawOf(const Digest& found) const {
  const std::string hex = found.Hex();
  if (sha256 && *sha256 != found) {
    return fmt::format("its bytes have SHA-256 {}, but the board's manifests say {}", hex, sha256->Hex());
  }
  if (!sha256 && !hex.starts_with(digits)) {
    return fmt::format("its bytes have SHA-256 {}, but its key says {}…", hex, digits);
  }
  return "";
}

Fetcher::Fetcher(Upstreams& upstreams, RelayMetrics& metrics, int threads) : upstreams_(upstreams), metrics_(metrics) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Fetcher::~Fetcher() { Stop(); }

void Fetcher::Stop() {
  stopping_ = true;
  std::deque<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    while (!jobs_.empty()) tasks.push_back(NextTask());
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Task& task : tasks) EndSegment(task.job, Error{Code::kUnavailable, "the relay is being stopped"});
}

std::vector<size_t> Fetcher::Trusted(const std::string& key) {
  std::vector<size_t> order = upstreams_.Order();
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(distrusted_, [&](const auto& entry) { return entry.second <= now; });
  std::erase_if(order, [&](size_t upstream) { return distrusted_.contains({key, upstream}); });
  if (order.size() > 1 && distrusted_.contains({key, kMixture})) order.resize(1);
  return order;
}

void Fetcher::Distrust(const std::string& key, size_t upstream) {
  const std::lock_guard lock(mutex_);
  distrusted_[{key, upstream}] = std::chrono::steady_clock::now() + kDistrust;
}

void Fetcher::Begin(Order order) {
  const auto job = std::make_shared<Job>();
  job->upstreams = Trusted(order.key);
  job->order = std::move(order);
  job->left = job->order.body->segments();
  if (job->upstreams.empty()) {
    job->failure = Error{Code::kCorrupt, fmt::format("all upstreams gave wrong bytes for {} within the last {} s",
                                                     job->order.key, kDistrust.count())};
  }
  if (job->left == 0 || job->failure) return Settle(*job);
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      for (uint64_t segment = 0; segment < job->left; ++segment) job->to_fetch.insert(job->to_fetch.end(), segment);
      jobs_.push_back(job);
      changed_.notify_all();
      return;
    }
  }
  job->failure = Error{Code::kUnavailable, "the relay is being stopped"};
  Settle(*job);
}

Fetcher::Task Fetcher::NextTask() {
  std::shared_ptr<Job> job = std::move(jobs_.front());
  jobs_.pop_front();
  auto next = job->to_fetch.find(job->order.body->WantedSegment());
  if (next == job->to_fetch.end()) next = job->to_fetch.begin();
  const Task task{job, *next};
  job->to_fetch.erase(next);
  if (!job->to_fetch.empty()) jobs_.push_back(std::move(job));
  return task;
}

void Fetcher::Work() {
  const Interruptible interruptible(&stopping_);
  Bytes buffer;
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      task = NextTask();
    }
    FetchSegment(task, buffer);
  }
}

void Fetcher::FetchSegment(const Task& task, Bytes& buffer) {
  Job& job = *task.job;
  std::optional<Error> failure;
  for (const size_t upstream : job.upstreams) {
    {
      const std::lock_guard lock(job.mutex);
      if (job.failure) break;  // another segment will not come
    }
    const Status read = Read(job, task.segment, upstream, buffer);
    if (read) {
      upstreams_.Succeeded(upstream);
      metrics_.Fetched(upstreams_.name(upstream), FetchEnd::kRight);
      return EndSegment(task.job, std::nullopt);
    }
    const Error& error = read.error();
    failure = failure ? WorseOf(*failure, error) : error;
    if (error.code == Code::kInterrupted) break;
    if (error.code == Code::kNotFound) {
      metrics_.Fetched(upstreams_.name(upstream), FetchEnd::kNotFound);
    } else if (error.code == Code::kNoSpace || error.code == Code::kIo) {
      break;  // the cache's disk
    } else if (error.code == Code::kCorrupt) {
      upstreams_.GaveWrong(upstream, job.order.key, error.message);
      Distrust(job.order.key, upstream);
    } else {
      upstreams_.Failed(upstream, error);
    }
  }
  EndSegment(task.job, failure.value_or(Error{Code::kUnavailable, "another part of it did not come"}));
}

// The rest of the segment.
Status Fetcher::Read(Job& job, uint64_t segment, size_t upstream, Bytes& buffer) {
  Body& body = *job.order.body;
  const uint64_t before = body.Written(segment);
  buffer.resize(body.SegmentSize(segment) - before);
  Status kept;
  const auto told = [&](uint64_t there) {
    const uint64_t written = body.Written(segment) - before;
    // After a transfer that began again: what has been passed on stays, and the digest is over that.
    if (there <= written || !kept) return;
    {
      const std::lock_guard lock(job.mutex);
      job.contributors.insert(upstream);
    }
    metrics_.FetchedBytes(upstreams_.name(upstream), there - written);
    kept = body.Write(segment, ByteSpan(buffer).subspan(written, there - written));
  };
  Status read =
      upstreams_.store(upstream).ReadRangeTelling(job.order.key, segment * Body::kSegment + before, buffer, told);
  if (!kept) {  // the disk, not the upstream
    const std::lock_guard lock(job.mutex);
    job.failure = kept.error();
    return kept;
  }
  return read;
}

void Fetcher::EndSegment(const std::shared_ptr<Job>& job, std::optional<Error> failure) {
  {
    const std::lock_guard lock(job->mutex);
    if (failure && !job->failure) job->failure = std::move(failure);
    if (--job->left > 0) return;
  }
  Settle(*job);
}

void Fetcher::Settle(Job& job) {
  Body& body = *job.order.body;
  std::optional<Digest> right;
  if (!job.failure) {
    auto found = body.Finish();
    if (!found) job.failure = found.error();
    if (found) right = *found;
  }
  if (right) {
    if (const std::string flaw = job.order.expected.FlawOf(*right); !flaw.empty()) {
      right.reset();
      std::string names;
      for (const size_t upstream : job.contributors) {
        names += (names.empty() ? "" : ", ") + upstreams_.name(upstream);
      }
      if (job.contributors.size() == 1) {
        upstreams_.GaveWrong(*job.contributors.begin(), job.order.key, flaw);
        Distrust(job.order.key, *job.contributors.begin());
      } else {
        LogWarning("one of {} gave wrong parts of {}: {}", names, job.order.key, flaw);
        Distrust(job.order.key, kMixture);
      }
      job.failure = Error{Code::kCorrupt, fmt::format("{} from {}: {}", job.order.key, names, flaw)};
    }
  }
  job.order.done(right);
  if (right) {
    metrics_.TookToFetch(job.watch.Seconds());
    body.SetRight(*right);
  } else {
    body.SetFailed(*job.failure);
  }
}

}  // namespace skerry
