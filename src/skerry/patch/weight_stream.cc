#include "skerry/patch/weight_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "skerry/patch/bit_stream.h"
#include "skerry/patch/huffman_code.h"

namespace skerry {
namespace {

// The RFC allows 5 and 6 here.
constexpr int kLog = 6;
constexpr int kStates = 1 << kLog;
constexpr size_t kWeights = kMaxCodeBits + 1;

using Shares = std::array<int, kWeights>;

// Of kStates, by how often each weight occurs; each that does gets one at least.
Shares SharesOf(std::span<const uint8_t> weights) {
  Shares counts{}, shares{};
  for (const uint8_t weight : weights) ++counts[weight];
  const int total = static_cast<int>(weights.size());
  for (size_t w = 0; w < kWeights; ++w) {
    if (counts[w] > 0) shares[w] = std::max(1, counts[w] * kStates / total);
  }
  for (int excess = std::accumulate(shares.begin(), shares.end(), -kStates); excess != 0;) {
    int& greatest = *std::max_element(shares.begin(), shares.end());
    const int change = std::min(excess, greatest - 1);
    greatest -= change;
    excess -= change;
  }
  return shares;
}

// Section 4.1.1: a share takes one bit less where that suffices to tell it from what is still to be had; after a 0, two
// bits say how many more follow.
void WriteShares(const Shares& shares, BitWriter& bits) {
  bits.Put(kLog - 5, 4);
  int left = kStates;
  for (size_t w = 0; left > 0; ++w) {
    const int width = std::bit_width(static_cast<uint32_t>(left + 1));
    const auto most = static_cast<uint32_t>((1 << width) - 2 - left);  // values below it need only width - 1 bits
    const auto half = 1u << (width - 1);
    auto value = static_cast<uint32_t>(shares[w] + 1);
    const bool is_short = value < most;
    if (value >= half) value += most;
    bits.Put(value, is_short ? width - 1 : width);
    left -= shares[w];
    if (shares[w] != 0) continue;
    size_t zeros = 0;
    while (shares[w + 1 + zeros] == 0) ++zeros;
    w += zeros;
    for (; zeros >= 3; zeros -= 3) bits.Put(3, 2);
    bits.Put(zeros, 2);
  }
}

// States of each weight, rising, one weight's after another's from `first` on.
struct StateTable {
  explicit StateTable(const Shares& shares) : share(shares) {
    std::array<uint8_t, kStates> weight_of;
    int at = 0;
    for (size_t w = 0; w < kWeights; ++w) {
      for (int i = 0; i < shares[w]; ++i) {
        weight_of[static_cast<size_t>(at)] = static_cast<uint8_t>(w);
        at = (at + (kStates >> 1) + (kStates >> 3) + 3) % kStates;
      }
    }
    std::exclusive_scan(shares.begin(), shares.end(), first.begin(), 0);
    Shares next = first;
    for (size_t state = 0; state < kStates; ++state) {
      states[static_cast<size_t>(next[weight_of[state]]++)] = static_cast<uint8_t>(state);
    }
  }
  int State(size_t weight, int i) const { return states[static_cast<size_t>(first[weight] + i)]; }

  Shares share, first;
  std::array<uint8_t, kStates> states;
};

}  // namespace

bool WriteWeightStream(std::span<const uint8_t> weights, Bytes& out) {
  if (weights.size() < 2) return false;
  const Shares shares = SharesOf(weights);
  if (*std::max_element(shares.begin(), shares.end()) == kStates) return false;
  BitWriter header(out);
  WriteShares(shares, header);
  header.Finish();

  // Two states take turns. The reader begins with the stream's last bits, so the writer does with the last weights,
  // whose states are any that decode to them: the first, since its successor takes a bit, which shows the reader the
  // end.
  const StateTable table(shares);
  BitWriter bits(out);
  std::array<int, 2> state{-1, -1};
  for (size_t i = weights.size(); i-- > 0;) {
    const size_t weight = weights[i];
    int& x = state[i % 2];
    if (x < 0) {
      x = table.State(weight, 0);
      continue;
    }
    // The reader finds x as (share + i) * 2^n and n bits more, less kStates.
    const auto full = static_cast<uint32_t>(x + kStates);
    const auto share = static_cast<uint32_t>(table.share[weight]);
    int n = 0;
    while (full >> n >= 2 * share) ++n;
    bits.Put(full & ((1u << n) - 1), n);
    x = table.State(weight, static_cast<int>((full >> n) - share));
  }
  bits.Put(static_cast<uint32_t>(state[1]), kLog);
  bits.Put(static_cast<uint32_t>(state[0]), kLog);
  bits.Put(1, 1);
  bits.Finish();
  return true;
}

}  // namespace skerry
