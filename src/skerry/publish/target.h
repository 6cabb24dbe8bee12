// What a version is made of.
#ifndef SKERRY_PUBLISH_TARGET_H_
#define SKERRY_PUBLISH_TARGET_H_

#include <string>

#include "skerry/publish/capture.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// A checkpoint on disk, or weights that were captured from a trainer's memory. Refers to either.
class Target {
 public:
  explicit Target(const Checkpoint& checkpoint) : tensors_(checkpoint), checkpoint_(&checkpoint) {}
  explicit Target(const Capture& capture) : tensors_(capture), capture_(&capture) {}

  const TensorSource& tensors() const { return tensors_; }
  const Layout& layout() const { return tensors_.layout(); }
  // For messages.
  std::string name() const {
    return checkpoint_ != nullptr ? checkpoint_->directory().string() : "the trainer's model";
  }
  // Where its side files are; null: they are the snapshot's.
  const Checkpoint* checkpoint() const { return checkpoint_; }
  // Null where it stands by itself; else it is known only as what differs from the snapshot.
  const Capture* capture() const { return capture_; }

 private:
  const TensorSource& tensors_;
  const Checkpoint* checkpoint_ = nullptr;
  const Capture* capture_ = nullptr;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_TARGET_H_
