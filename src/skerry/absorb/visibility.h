// Whether a move of the masters shows in what is served: where they lie in the cells of a served number format.
#ifndef SKERRY_ABSORB_VISIBILITY_H_
#define SKERRY_ABSORB_VISIBILITY_H_

#include <map>
#include <utility>
#include <vector>

#include "skerry/absorb/drift.h"

namespace skerry {

// All masters that round to one served number make up its cell; a step shows where a master leaves its cell.
struct Cell {
  // Where in the cell a master was when it began to move.
  enum class Start {
    kAnywhere,  // masters that have moved for long, or whose format and scale have nothing to do with this one's
    kCentre,    // the master was the served number itself
    kBoundary,  // the masters lay on a finer grid on which each boundary lies, too: one of width / grid is just there
    kRounded,   // they were numbers of a finer grid, to which they are rounded before this format sees them
  };
  double width = 0;  // towards larger magnitudes
  double below = 0;  // and towards smaller ones: half of that where the number is a power of two
  double grid = 0;   // of kBoundary and kRounded
  Start start = Start::kAnywhere;
};

struct Chances {
  double shows = 0;       // that a move changes the served number
  double value_bits = 0;  // entropy of the change where there is one: its direction, and by how many cells
};

// What one move of all elements does to masters of any cell, on average. `lr` is the unit of their drift. To be used by
// one thread at a time: it keeps what cells have in common.
//
// kAnywhere: a move of length s leaves a cell of width U with chance min(1, s / U), whatever its direction.
// kCentre: nothing shows until the drift has come to half of the cell's width.
// kBoundary: half of the masters on a boundary leave with the first move, the others after a step of the grid.
// kRounded: nothing shows until the drift has come to half of the grid's width; of each move of the grid's number by
// one a share of grid / width passes a boundary, wherever on the grid boundaries lie.
class MoveChances {
 public:
  MoveChances(const Move& move, double lr);

  Chances Of(const Cell& cell);

 private:
  // How many elements go by how many numbers of a grid.
  using GridMoves = std::map<double, double>;

  const GridMoves& MovesOn(double grid, Cell::Start start);

  std::vector<double> before_, after_;
  std::vector<double> lengths_, sums_;  // of the moves, rising; and the sum of all shorter ones
  double furthest_ = 0;
  std::map<std::pair<double, Cell::Start>, GridMoves> grids_;
};

}  // namespace skerry

#endif  // SKERRY_ABSORB_VISIBILITY_H_
