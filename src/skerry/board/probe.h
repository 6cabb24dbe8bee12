// Finds out by trying whether a store keeps to the conditions of writes: one writer at a time, then many at once.
// Servers that call themselves S3 differ here, and so do buckets of one server (versioning, locks) and the ways to it
// (gateways, regions): a verdict holds for the place that was probed.
#ifndef SKERRY_BOARD_PROBE_H_
#define SKERRY_BOARD_PROBE_H_

#include <memory>
#include <string>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/base/result.h"
#include "skerry/board/store.h"
#include "skerry/board/write_safety.h"

namespace skerry {

struct ProbeOptions {
  int writers = 32;  // of each race, from 2
  int rounds = 5;    // of each race, from 1
};
// What Board::Create does before it makes a board.
inline constexpr ProbeOptions kQuickProbe = {.writers = 4, .rounds = 3};

// One conditional write without competition.
struct ProbeCheck {
  std::string name;      // "swap with a stale token"
  std::string endpoint;  // Store::Describe()
  bool right = false;
  std::string found;  // what the store did: "refused", "ignored the condition and overwrote the object"
};

// `rounds` times: all writers at once make the same conditional write, each with its own bytes.
struct ProbeRace {
  std::string name;  // "create" or "swap"
  int rounds = 0;
  int one_winner = 0;     // rounds that went right: one winner, whose bytes are there through every endpoint
  int no_winner = 0;      // rounds in which all lost; harmless, they would try again
  int most_winners = 0;   // of any round
  int wrong_bytes = 0;    // rounds after which some endpoint had other bytes than the winner's
  int failed_writes = 0;  // writes that ended neither as won nor as lost
  std::string first_failure;

  bool Safe() const { return most_winners <= 1 && wrong_bytes == 0; }
};

struct ProbeReport {
  WriteSafety verdict = WriteSafety::kNone;
  std::vector<ProbeCheck> checks;
  std::vector<ProbeRace> races;          // only of conditions that hold without competition
  std::vector<std::string> token_forms;  // Store::DescribeTokens() of each endpoint that tells
  std::string reason;                    // why not full: the first thing that went wrong; empty when full
  std::string leftover;                  // why the probe's objects could not all be removed; mostly empty
  bool can_swap = false;                 // whether the head can be moved at all, safely or not
};

// `endpoints`: at least one; several are ways to the same board, over which the writers are spread. Writes objects
// below probe/<random token>/ and removes them. The stages of
// `progress` are the races, in writes instead of bytes. Blocks for the races:
// some servers take seconds for a round. An error means that nothing could be found out (no rights, no connection).
Result<ProbeReport> ProbeStore(const std::vector<std::shared_ptr<Store>>& endpoints, const ProbeOptions& options,
                               Progress& progress);

}  // namespace skerry

#endif  // SKERRY_BOARD_PROBE_H_
