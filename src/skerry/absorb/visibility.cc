#include "skerry/absorb/visibility.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace skerry {
namespace {

// How likely a change is by 0, 1, 2, and more cells.
class CellCounts {
 public:
  static constexpr size_t kMost = 3;

  // `count` elements go by `whole` cells and so much more; `more` is the sum of these fractions, each of which is the
  // chance of one further cell.
  void Add(size_t whole, double count, double more) {
    counts_[std::min(whole, kMost)] += count - more;
    counts_[std::min(whole + 1, kMost)] += more;
  }

  Chances Result() const {
    double all = 0;
    for (const double count : counts_) all += count;
    const double changes = all - counts_[0];
    if (!(changes > 0)) return {};
    double bits = 1;  // the direction: moves are as often down as up
    for (size_t cells = 1; cells <= kMost; ++cells) {
      const double share = counts_[cells] / changes;
      if (share > 0) bits -= share * std::log2(share);
    }
    return {.shows = changes / all, .value_bits = bits};
  }

 private:
  std::array<double, kMost + 1> counts_{};
};

// The number of the cell at a drift from the centre of cell 0.
double CellAt(double drift, double width, double below) {
  return drift >= 0 ? std::floor(drift / width + 0.5) : -std::floor(-drift / below + 0.5);
}

}  // namespace

MoveChances::MoveChances(const Move& move, double lr) {
  for (size_t i = 0; i < move.before.size(); ++i) {
    before_.push_back(move.before[i] * lr);
    after_.push_back(move.after[i] * lr);
    lengths_.push_back(std::abs(after_[i] - before_[i]));
    furthest_ = std::max({furthest_, std::abs(before_[i]), std::abs(after_[i])});
  }
  std::sort(lengths_.begin(), lengths_.end());
  sums_.push_back(0);
  for (const double length : lengths_) sums_.push_back(sums_.back() + length);
}

const MoveChances::GridMoves& MoveChances::MovesOn(double grid, Cell::Start start) {
  const auto [found, is_new] = grids_.try_emplace({grid, start});
  GridMoves& moves = found->second;
  if (!is_new) return moves;
  if (start == Cell::Start::kRounded && furthest_ < grid / 2) {
    moves[0] = static_cast<double>(before_.size());
    return moves;
  }
  for (size_t i = 0; i < before_.size(); ++i) {
    const double by = start == Cell::Start::kRounded ? CellAt(after_[i], grid, grid) - CellAt(before_[i], grid, grid)
                                                     : std::floor(after_[i] / grid) - std::floor(before_[i] / grid);
    ++moves[std::abs(by)];
  }
  return moves;
}

Chances MoveChances::Of(const Cell& cell) {
  CellCounts counts;
  switch (cell.start) {
    case Cell::Start::kAnywhere: {
      const double width = (cell.width + cell.below) / 2;
      size_t begin = 0;
      for (size_t whole = 0; whole <= CellCounts::kMost; ++whole) {
        const auto last = whole == CellCounts::kMost ? lengths_.end()
                                                     : std::lower_bound(lengths_.begin(), lengths_.end(),
                                                                        static_cast<double>(whole + 1) * width);
        const auto end = static_cast<size_t>(last - lengths_.begin());
        const auto count = static_cast<double>(end - begin);
        counts.Add(whole, count, (sums_[end] - sums_[begin]) / width - static_cast<double>(whole) * count);
        begin = end;
      }
      break;
    }
    case Cell::Start::kCentre:
      if (furthest_ < std::min(cell.width, cell.below) / 2) return {};
      for (size_t i = 0; i < before_.size(); ++i) {
        const double by = CellAt(after_[i], cell.width, cell.below) - CellAt(before_[i], cell.width, cell.below);
        counts.Add(static_cast<size_t>(std::min<double>(std::abs(by), CellCounts::kMost)), 1, 0);
      }
      break;
    case Cell::Start::kBoundary:
    case Cell::Start::kRounded:
      for (const auto& [by, count] : MovesOn(cell.grid, cell.start)) {
        const double cells = std::min<double>(by * cell.grid / cell.width, CellCounts::kMost);
        const double whole = std::floor(cells);
        counts.Add(static_cast<size_t>(whole), count, (cells - whole) * count);
      }
      break;
  }
  return counts.Result();
}

}  // namespace skerry
