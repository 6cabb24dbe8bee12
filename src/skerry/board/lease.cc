#include "skerry/board/lease.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextSize = 256;
constexpr int kMaxTries = 3;  // of a write that gc or a forgotten process of the same reader interferes with

}  // namespace

Result<Bytes> SerializeLease(const Lease& lease) {
  const json out = {{"format", Lease::kFormat},
                    {"run", lease.run.str()},
                    {"reader", lease.reader},
                    {"needs_from", lease.needs_from.number()},
                    {"needs_to", lease.needs_to.number()},
                    {"expires", lease.expires},
                    {"time", lease.time}};
  SKERRY_ASSIGN(Bytes bytes, DumpJson(out, "lease"));
  if (const Result<Lease> again = ParseLease(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this lease: {}", again.error().message);
  }
  return bytes;
}

Result<Lease> ParseLease(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxLeaseBytes, "lease"));
  std::optional<Error> error;
  JsonFields fields(document, "lease", error);
  fields.CheckFormat(Lease::kFormat);
  Lease lease;
  lease.run = fields.Run("run");
  lease.reader = fields.Token("reader");
  lease.needs_from = fields.VersionNumber("needs_from");
  lease.needs_to = fields.VersionNumber("needs_to");
  lease.expires = fields.Unsigned("expires", INT64_MAX);
  lease.time = fields.Text("time", kMaxTextSize);
  if (lease.needs_from > lease.needs_to) {
    fields.Refuse(Code::kCorrupt,
                  fmt::format("lease.needs_from is {}, after needs_to {}", lease.needs_from, lease.needs_to));
  }
  SKERRY_TRY(fields.status());
  return lease;
}

uint64_t UnixMilliseconds(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  return static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count()));
}

LeaseHolder::~LeaseHolder() {
  // Where this fails, the lease expires.
  if (written_at_ != 0) (void)board_.store().Delete(LeaseKey(run_, reader_));
}

Status LeaseHolder::Hold(Version from, Version to) {
  const auto now = clock_.Now();
  SKERRY_ASSIGN(const Bytes bytes, SerializeLease({.run = run_,
                                                   .reader = reader_,
                                                   .needs_from = from,
                                                   .needs_to = to,
                                                   .expires = UnixMilliseconds(now + lasts_),
                                                   .time = FormatTime(now)}));
  const std::string key = LeaseKey(run_, reader_);
  for (int tries = 1;; ++tries) {
    std::optional<Generation> there;
    if (Result<Object> object = board_.store().Get(key, kMaxLeaseBytes)) {
      there = std::move(object->generation);
    } else if (object.error().code != Code::kNotFound) {
      return tl::unexpected<Error>(std::move(object).error());
    }
    const Result<Generation> written = board_.store().CompareAndSwap(key, there, bytes);
    if (written) break;
    if (written.error().code != Code::kConflict || tries == kMaxTries) return tl::unexpected<Error>(written.error());
  }
  from_ = from;
  to_ = to;
  written_at_ = std::max<uint64_t>(1, UnixMilliseconds(now));
  return {};
}

Status LeaseHolder::Renew() {
  const auto third = static_cast<uint64_t>(lasts_.count()) / 3;
  if (written_at_ == 0 || UnixMilliseconds(clock_.Now()) < written_at_ + third) return {};
  return Hold(from_, to_);
}

}  // namespace skerry
