// A capture as Python holds it, shared by the publishers of whole and of sharded models.
#ifndef SKERRY_PYTHON_NATIVE_CAPTURE_H_
#define SKERRY_PYTHON_NATIVE_CAPTURE_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"
#include "skerry/publish/capture.h"

// Refers to the snapshot of the publisher that made it: that one empties it when the snapshot moves on.
class HeldCapture {
 public:
  explicit HeldCapture(skerry::Capture capture)
      : capture_(std::make_shared<std::optional<skerry::Capture>>(std::move(capture))) {}

  // Raises Invalid where it is used up.
  skerry::Capture& get() const {
    if (!*capture_) Raise({skerry::Code::kInvalid, "the capture is used up: it was published, or another was begun"});
    return **capture_;
  }

  // The publisher's end.
  class Owner {
   public:
    void Begin(const HeldCapture& capture) {
      End();
      last_ = capture.capture_;
    }
    void End() {
      if (const auto last = last_.lock()) last->reset();
    }

   private:
    std::weak_ptr<std::optional<skerry::Capture>> last_;
  };

 private:
  std::shared_ptr<std::optional<skerry::Capture>> capture_;
};

// (name, dtype, shape) of each tensor, in the order of their ordinals.
using TensorRow = std::tuple<std::string, std::string, std::vector<uint64_t>>;
std::vector<TensorRow> RowsOf(const skerry::Layout& layout);

void BindCapture(nanobind::module_& m);

#endif  // SKERRY_PYTHON_NATIVE_CAPTURE_H_
