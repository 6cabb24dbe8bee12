// What a slow reader still needs. While a lease lives, gc keeps the versions that it names and a way to them. It is a
// courtesy: a reader without one (on a board that it can't write to) plans anew when an object of its route is gone.
#ifndef SKERRY_BOARD_LEASE_H_
#define SKERRY_BOARD_LEASE_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"

namespace skerry {

struct Lease {
  static constexpr uint64_t kFormat = 1;
  RunId run;
  std::string reader;  // token that stays with the reader; it names the object
  Version needs_from, needs_to;
  uint64_t expires = 0;  // UTC, milliseconds since 1970
  std::string time;      // when it was written, for people
  bool operator==(const Lease&) const = default;
};

inline constexpr uint64_t kMaxLeaseBytes = 64 << 10;

// Canonical and strict, like those of manifest.h.
Result<Bytes> SerializeLease(const Lease& lease);
Result<Lease> ParseLease(ByteSpan bytes);

// UTC, in milliseconds since 1970; times before that are 0.
uint64_t UnixMilliseconds(std::chrono::system_clock::time_point time);

// A reader's lease on some versions of a run, for as long as the object lives. One thread at a time. Costs a read and a
// write to take or to renew, a delete to give back.
class LeaseHolder {
 public:
  // `reader`: a token that no other reader has; the same one again takes over what a killed process left.
  LeaseHolder(Board board, RunId run, std::string reader, const Clock& clock,
              std::chrono::milliseconds lasts = std::chrono::minutes(15))
      : board_(std::move(board)), run_(std::move(run)), reader_(std::move(reader)), clock_(clock), lasts_(lasts) {}
  ~LeaseHolder();
  LeaseHolder(const LeaseHolder&) = delete;
  LeaseHolder& operator=(const LeaseHolder&) = delete;

  // Takes the lease, or renews it with these versions. An error means that there is none, which is no reason to stop.
  Status Hold(Version from, Version to);
  // The same with the last versions, once a third of the time has passed; otherwise and before the first Hold nothing.
  Status Renew();

 private:
  Board board_;
  RunId run_;
  std::string reader_;
  const Clock& clock_;
  std::chrono::milliseconds lasts_;
  Version from_, to_;
  uint64_t written_at_ = 0;  // 0: not held
};

}  // namespace skerry

#endif  // SKERRY_BOARD_LEASE_H_
