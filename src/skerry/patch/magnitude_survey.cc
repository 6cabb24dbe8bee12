#include "skerry/patch/magnitude_survey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "skerry/patch/class_scan.h"
#include "skerry/patch/entropy.h"
#include "skerry/patch/format.h"

namespace skerry {
namespace {

// Fewer than the format allows: each class costs a comparison a unit, and the last ones save next to nothing.
constexpr int kMostClasses = 12;

constexpr size_t kMostBuckets = 64;

// Of a long run every k-th group of elements is looked at.
constexpr size_t kGroupStride = 4;
constexpr size_t kLongRunBytes = 1 << 14;

// What one more class costs: its bound and its table in the patch, and its count in every block.
constexpr double kBitsPerClass = 16, kBitsPerTable = 64, kBitsPerCount = 10;

double SymbolBits(const std::array<double, kSymbols>& counts) {
  double total = 0, bits = 0;
  for (const double count : counts) {
    if (count > 0) bits -= count * std::log2(count);
    total += count;
  }
  return total > 0 ? bits + total * std::log2(total) : 0;
}

}  // namespace

void MagnitudeSurvey::Bucket::Add(const Bucket& other) {
  members += other.members;
  changed += other.changed;
  for (size_t s = 0; s < kSymbols; ++s) symbols[s] += other.symbols[s];
}

MagnitudeSurvey::MagnitudeSurvey(const MagnitudeView& view)
    : view_(view), buckets_((view.mask >> view.exponent_bit) + 1) {
  for (size_t b = 0; b < buckets_.size(); ++b) buckets_[b].lowest = uint64_t{b} << view.exponent_bit;
}

void MagnitudeSurvey::AddMembers(ByteSpan before) {
  const size_t group_bytes = kGroupElements * static_cast<size_t>(view_.bits) / 8;
  const size_t stride = before.size() >= kLongRunBytes ? kGroupStride : 1;
  const auto weight = static_cast<double>(stride);
  std::vector<uint32_t> counts(buckets_.size());
  const auto count = [&](uint64_t bits) { ++counts[(bits & view_.mask) >> view_.exponent_bit]; };
  for (size_t at = 0; at < before.size(); at += stride * group_bytes) {
    const ByteSpan group = before.subspan(at, std::min(group_bytes, before.size() - at));
    switch (view_.bits) {
      case 4:
        for (const std::byte byte : group) {
          count(std::to_integer<uint64_t>(byte));
          count(std::to_integer<uint64_t>(byte >> 4));
        }
        break;
      case 8:
        for (const std::byte byte : group) count(std::to_integer<uint64_t>(byte));
        break;
      case 16:
        for (size_t i = 0; i < group.size(); i += 2) count(LoadLe<uint16_t>(group.data() + i));
        break;
      case 32:
        for (size_t i = 0; i < group.size(); i += 4) count(LoadLe<uint32_t>(group.data() + i));
        break;
      default:
        for (size_t i = 0; i < group.size(); i += 8) count(LoadLe<uint64_t>(group.data() + i));
    }
  }
  for (size_t b = 0; b < counts.size(); ++b) buckets_[b].members += weight * counts[b];
}

void MagnitudeSurvey::AddChange(uint64_t old_bits, const StepToken& token) {
  Bucket& bucket = buckets_[(old_bits & view_.mask) >> view_.exponent_bit];
  ++bucket.changed;
  ++bucket.symbols[token.symbol];
}

std::vector<MagnitudeSurvey::Bucket> MagnitudeSurvey::Merged() const {
  std::vector<Bucket> merged;
  for (const Bucket& bucket : buckets_) {
    if (bucket.members + bucket.changed == 0) continue;
    merged.push_back(bucket);
    merged.back().members = std::max(bucket.members, bucket.changed);  // of a sample
  }
  while (merged.size() > kMostBuckets) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < merged.size(); ++i) {
      if (merged[i].changed + merged[i + 1].changed < merged[best].changed + merged[best + 1].changed) best = i;
    }
    merged[best].Add(merged[best + 1]);
    merged.erase(merged.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  return merged;
}

double MagnitudeSurvey::Bits(const Bucket& bucket) {
  return PositionBits(bucket.changed, bucket.members) + SymbolBits(bucket.symbols);
}

double MagnitudeSurvey::BitsOfOneClass() const {
  Bucket all;
  for (const Bucket& bucket : buckets_) all.Add(bucket);
  all.members = std::max(all.members, all.changed);  // of a sample
  return Bits(all);
}

SymbolTable MagnitudeSurvey::TableOf(const Bucket& bucket) {
  std::array<uint64_t, kSymbols> counts;
  for (size_t s = 0; s < kSymbols; ++s) counts[s] = static_cast<uint64_t>(bucket.symbols[s]);
  return SymbolTable(SymbolTable::NormaliseSample(counts));
}

MagnitudeModel MagnitudeSurvey::Choose(uint64_t stride) const {
  const std::vector<Bucket> buckets = Merged();
  const size_t m = buckets.size();
  double changed = 0;
  for (const Bucket& bucket : buckets) changed += bucket.changed;
  const auto scale = static_cast<double>(stride);
  const double class_bits = kBitsPerClass / scale + kBitsPerCount * std::max(1 / scale, changed / kChangesPerBlock);
  const double table_bits = kBitsPerTable / scale;

  // best[k][j]: fewest bits for the first j buckets in k classes, the last of which begins at from[k][j].
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(kMostClasses + 1, std::vector<double>(m + 1, kNever));
  std::vector<std::vector<size_t>> from(kMostClasses + 1, std::vector<size_t>(m + 1, 0));
  best[0][0] = 0;
  for (size_t i = 0; i < m; ++i) {
    Bucket run;
    for (size_t j = i + 1; j <= m; ++j) {
      run.Add(buckets[j - 1]);
      const double bits = Bits(run) + class_bits;
      for (size_t k = 1; k <= kMostClasses; ++k) {
        if (best[k - 1][i] + bits < best[k][j]) {
          best[k][j] = best[k - 1][i] + bits;
          from[k][j] = i;
        }
      }
    }
  }
  size_t k = 0;
  for (size_t i = 1; i <= kMostClasses; ++i) {
    if (best[i][m] < best[k][m] || k == 0) k = i;
  }
  std::vector<size_t> starts;
  for (size_t j = m; k > 0 && j > 0; --k) {
    j = from[k][j];
    starts.insert(starts.begin(), j);
  }

  std::vector<uint64_t> lowest;
  std::vector<Bucket> table_buckets;
  std::vector<uint8_t> table_of;
  for (size_t c = 0; c < std::max<size_t>(1, starts.size()); ++c) {
    Bucket own;
    const size_t end = c + 1 < starts.size() ? starts[c + 1] : m;
    for (size_t b = c < starts.size() ? starts[c] : 0; b < end; ++b) own.Add(buckets[b]);
    if (c > 0) lowest.push_back(buckets[starts[c]].lowest);
    if (!table_buckets.empty()) {
      Bucket both = own;
      both.Add(table_buckets.back());
      if (SymbolBits(both.symbols) < SymbolBits(own.symbols) + SymbolBits(table_buckets.back().symbols) + table_bits) {
        table_buckets.back() = both;
        table_of.push_back(table_of.back());
        continue;
      }
    }
    table_of.push_back(static_cast<uint8_t>(table_buckets.size()));
    table_buckets.push_back(own);
  }
  std::vector<SymbolTable> tables;
  for (const Bucket& bucket : table_buckets) tables.push_back(TableOf(bucket));
  return MagnitudeModel(MagnitudeClasses(view_, lowest), std::move(tables), std::move(table_of));
}

}  // namespace skerry
