#include "skerry/proxy/hall.h"

#include <utility>
#include <vector>

#include "skerry/proxy/passage.h"

namespace skerry {

Hall::Hall(const HallOptions& options, RequestMetrics& metrics, AccessLog log)
    : options_(options), metrics_(metrics), log_(std::move(log)) {}

Hall::~Hall() { log_.Flush(); }

bool Hall::Keep(uint64_t bytes) {
  if (kept_ + bytes > options_.max_kept) return false;
  kept_ += bytes;
  return true;
}

bool Hall::Hold(const std::shared_ptr<Passage>& passage) {
  if (held_.size() >= options_.max_held) return false;
  held_.insert(passage);
  return true;
}

void Hall::RetryAll() {
  const std::vector<std::shared_ptr<Passage>> held(held_.begin(), held_.end());
  for (const auto& passage : held) passage->Retry();
}

void Hall::RetryDue(std::chrono::steady_clock::time_point now) {
  const std::vector<std::shared_ptr<Passage>> held(held_.begin(), held_.end());
  for (const auto& passage : held) {
    if (passage->deadline() <= now) passage->Retry();
  }
}

void Hall::Stop() {
  stopping_ = true;
  RetryAll();
}

}  // namespace skerry
