// Several steps of the undo log as one: which units they touched, and what the oldest version has there.
#ifndef SKERRY_APPLY_MERGED_STEPS_H_
#define SKERRY_APPLY_MERGED_STEPS_H_

#include <span>
#include <vector>

#include "skerry/apply/undo_entry.h"
#include "skerry/tensors/layout.h"

namespace skerry {

// Refers to the layout, which must outlive it. Takes some 50 bytes of memory a record of the log (3072 changes and more
// each, or a whole small tensor), and one window for each thread that merges.
class MergedSteps {
 public:
  // `steps` in the order in which they are undone. Reads all of their files once. kCorrupt when one is damaged or does
  // not fit the layout, kNotFound when one is gone.
  static Result<MergedSteps> Open(std::span<const UndoStep> steps, const Layout& layout);

  // Units of one tensor in which something changed: aligned to kWindowUnits, at most as many.
  struct Window {
    uint32_t tensor = 0;
    uint64_t first_unit = 0, units = 0;
    size_t first_touch = 0, touches = 0;
  };
  static constexpr uint64_t kWindowUnits = 1 << 20;
  const std::vector<Window>& windows() const { return windows_; }  // rising

  // What leads back over all steps: where several touched a unit, the last one undone counts. Positions are relative to
  // the window. Any number of threads.
  Result<BlockChanges> Changes(const Window& window) const;
  // The same without values.
  Result<std::vector<uint32_t>> Positions(const Window& window) const;

  // At least and at most so many units are touched.
  uint64_t LeastChanged() const { return least_changed_; }
  uint64_t MostChanged() const { return most_changed_; }
  uint64_t bytes() const;  // of all files
  const std::vector<SideFileChange>& side_files() const { return side_files_; }
  // Of the version that all this leads back to.
  const CheckpointState& from() const { return from_; }

 private:
  struct Record {
    UndoRecord record;
    uint32_t entry = 0;  // index into entries_
  };
  // One record that has units in a window.
  struct Touch {
    uint32_t tensor = 0;
    uint64_t window = 0;  // number in the tensor
    size_t record = 0;
  };
  struct Overlay;

  MergedSteps() = default;
  Status Add(UndoEntry entry, const Layout& layout);
  void MakeWindows(const Layout& layout);
  Status Lay(const Window& window, Overlay& overlay) const;

  std::vector<ChangeFileReader> entries_;
  std::vector<Record> records_;  // in the order of undoing
  std::vector<Touch> touches_;
  std::vector<Window> windows_;
  std::vector<SideFileChange> side_files_;
  CheckpointState from_;
  uint64_t least_changed_ = 0, most_changed_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_MERGED_STEPS_H_
