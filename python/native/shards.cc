#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "bindings.h"
#include "buffer.h"
#include "capture.h"
#include "held_board.h"
#include "receipt.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/base/clock.h"
#include "skerry/publish/shard_release.h"
#include "skerry/publish/shard_writer.h"
#include "work.h"

using namespace nb::literals;

namespace {

using skerry::Bytes;
using skerry::Code;
using skerry::Layout;
using skerry::Progress;
using skerry::Result;
using skerry::RunId;
using skerry::TensorBox;
using skerry::Version;
// Ordinal of the tensor, where the box begins, and its size, along each axis.
using Box = std::tuple<uint64_t, std::vector<uint64_t>, std::vector<uint64_t>>;

std::vector<TensorBox> BoxesOf(const std::vector<Box>& boxes) {
  std::vector<TensorBox> out;
  for (const auto& [tensor, start, size] : boxes) out.push_back({.tensor = tensor, .start = start, .size = size});
  return out;
}

Layout LayoutOf(const nb::bytes& json) {
  return Unwrap(Layout::Parse({static_cast<const std::byte*>(json.data()), json.size()}));
}

nb::bytes AsPython(const Bytes& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

std::vector<TensorRow> LayoutTensors(const nb::bytes& layout) { return RowsOf(LayoutOf(layout)); }

// Why a box can't be a part of a patch; empty where it can.
std::string WhyNotABox(const std::string& dtype, const std::vector<uint64_t>& shape, const std::vector<uint64_t>& start,
                       const std::vector<uint64_t>& size) {
  const auto known = skerry::DTypeFromName(dtype);
  if (!known) Raise({Code::kInvalid, fmt::format("dtype: '{}' is none of safetensors", dtype)});
  skerry::LayoutTensor tensor{.name = "", .dtype = *known, .shape = shape};
  uint64_t bits = static_cast<uint64_t>(skerry::DTypeBits(*known));
  for (const uint64_t axis : shape) bits *= axis;
  tensor.bytes = bits / 8;
  const auto runs = skerry::BoxRuns::Of(tensor, {.tensor = 0, .start = start, .size = size});
  return runs ? "" : runs.error().message;
}

void CheckBoxes(const nb::bytes& layout, const std::vector<Box>& boxes) {
  const Layout whole = LayoutOf(layout);
  const std::vector<TensorBox> all = BoxesOf(boxes);
  Unwrap(skerry::CheckBoxesApart(whole, all));
  Unwrap(skerry::CheckBoxesCover(whole, all));
}

// The first rank's end.
class HeldRelease {
 public:
  HeldRelease(std::unique_ptr<HeldBoard> board, RunId run, std::string state)
      : board_(std::move(board)), run_(std::move(run)), state_(std::move(state)) {}

  Result<skerry::Head> Begin(bool take_over) {
    const std::lock_guard lock(mutex_);
    if (!release_) {
      SKERRY_ASSIGN(const skerry::Board board, board_->Open(/*sign=*/true));
      SKERRY_ASSIGN(skerry::ShardRelease release, skerry::ShardRelease::Open(board, run_, state_));
      release_.emplace(std::move(release));
    }
    return release_->Begin(take_over, skerry::Clock::System());
  }
  Result<Bytes> LayoutJson() {
    const std::lock_guard lock(mutex_);
    if (!release_) return skerry::Fail(Code::kInvalid, "run {}: nothing was begun", run_);
    SKERRY_ASSIGN(const Layout layout, release_->ReadLayout());
    return layout.Serialize();
  }
  Result<skerry::PublishReceipt> Finish(const std::vector<Bytes>& receipts, std::optional<int64_t> step,
                                        bool allow_empty) {
    const std::lock_guard lock(mutex_);
    if (!release_) return skerry::Fail(Code::kInvalid, "run {}: nothing was begun", run_);
    return release_->Finish(receipts, step, allow_empty);
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    release_.reset();
  }

 private:
  const std::unique_ptr<HeldBoard> board_;
  const RunId run_;
  const std::string state_;
  std::mutex mutex_;
  std::optional<skerry::ShardRelease> release_;
};

// Any rank's end. Its state directory is locked while it lives.
class HeldWriter {
 public:
  explicit HeldWriter(skerry::ShardWriter writer) : writer_(std::move(writer)) {}

  skerry::ShardWriter& get() {
    if (!writer_) Raise({Code::kInvalid, "the writer is closed"});
    return *writer_;
  }
  HeldCapture::Owner& captured() { return captured_; }
  void Close() {
    captured_.End();
    writer_.reset();
  }

 private:
  std::optional<skerry::ShardWriter> writer_;
  HeldCapture::Owner captured_;
};

HeldRelease* MakeRelease(const std::string& board, const std::string& run, const std::string& state,
                         std::optional<std::string> sign_key, std::vector<std::string> trust_keys) {
  RunId id = RunOf(run);
  auto held = Unwrap(HeldBoard::Make(board, sign_key.value_or(""), std::move(trust_keys)));
  return new HeldRelease(std::move(held), std::move(id), state);
}

HeldWriter* MakeWriter(const std::string& board, const std::string& run, const nb::bytes& layout,
                       const std::string& state, const std::vector<Box>& boxes, uint64_t index, uint64_t of,
                       const std::string& level, int64_t threads) {
  const RunId id = RunOf(run);
  const auto known = skerry::LevelFromName(level);
  if (!known) Raise({Code::kInvalid, fmt::format("level: '{}' is neither 'compact' nor 'fast'", level)});
  skerry::ShardOptions options{.state_directory = state,
                               .boxes = BoxesOf(boxes),
                               .index = index,
                               .of = of,
                               .level = *known,
                               .threads = ThreadsOf(threads)};
  const Layout whole = LayoutOf(layout);
  auto held = Unwrap(HeldBoard::Make(board, "", {}));
  return Call(nb::none(), [&](Progress&) -> Result<HeldWriter*> {
    SKERRY_ASSIGN(const skerry::Board opened, held->Open());
    SKERRY_ASSIGN(skerry::ShardWriter writer, skerry::ShardWriter::Open(opened, id, whole, std::move(options)));
    return new HeldWriter(std::move(writer));
  });
}

std::tuple<uint64_t, std::string, std::string> Begin(HeldRelease& held, bool take_over) {
  const skerry::Head head = Call(nb::none(), [&](Progress&) { return held.Begin(take_over); });
  return {head.version.number(), head.manifest.sha256.Hex(), head.model.Hex()};
}

nb::dict Finish(HeldRelease& held, const std::vector<nb::bytes>& receipts, std::optional<int64_t> step,
                bool allow_empty) {
  std::vector<Bytes> given;
  for (const nb::bytes& one : receipts) {
    const auto* data = static_cast<const std::byte*>(one.data());
    given.emplace_back(data, data + one.size());
  }
  return ReceiptAsDict(Call(nb::none(), [&](Progress&) { return held.Finish(given, step, allow_empty); }));
}

std::unique_ptr<HeldCapture> BeginCapture(HeldWriter& held) {
  auto capture = std::make_unique<HeldCapture>(held.get().BeginCapture());
  held.captured().Begin(*capture);
  return capture;
}

void Build(HeldWriter& held, const std::string& checkpoint, int64_t version, const nb::object& progress) {
  held.captured().End();
  Call(progress, [&, &writer = held.get()](Progress& account) -> skerry::Status {
    SKERRY_ASSIGN(const skerry::Checkpoint whole, skerry::OpenSettledCheckpoint(checkpoint));
    return writer.Build(whole, *VersionOf(version), account);
  });
}

nb::bytes Encode(HeldWriter& held, const HeldCapture& capture, int64_t version, const std::string& manifest,
                 const nb::object& progress) {
  const auto digest = skerry::Digest::FromHex(manifest);
  if (!digest) Raise({Code::kInvalid, fmt::format("manifest: '{}' is no SHA-256", manifest)});
  const skerry::Capture& taken = capture.get();
  return AsPython(Call(progress, [&, &writer = held.get()](Progress& account) {
    return writer.Encode(taken, *VersionOf(version), *digest, account);
  }));
}

void Follow(HeldWriter& held, const HeldCapture& capture) {
  const skerry::Capture& taken = capture.get();
  Call(nb::none(), [&, &writer = held.get()](Progress& account) { return writer.Follow(taken, account); });
  held.captured().End();
}

std::vector<Box> Boxes(HeldWriter& held) {
  std::vector<Box> boxes;
  for (const TensorBox& box : held.get().boxes()) boxes.emplace_back(box.tensor, box.start, box.size);
  return boxes;
}

}  // namespace

void BindShards(nb::module_& m) {
  m.def("layout_tensors", &LayoutTensors, "layout"_a, "(name, dtype, shape) of each, in the order of their ordinals.");
  m.def("why_not_a_box", &WhyNotABox, "dtype"_a, "shape"_a, "start"_a, "size"_a,
        "Why a box of such a tensor can't be published apart from the rest of it; empty where it can: its pieces must\n"
        "begin and end with whole 8 bytes of the tensor.");
  m.def("check_boxes", &CheckBoxes, "layout"_a, "boxes"_a,
        "Raises Invalid, naming a tensor, where boxes (ordinal, start, size) overlap or are not all of the model.");
  nb::class_<HeldRelease>(m, "ShardRelease", "The first rank's part of skerry.sharded.")
      .def(nb::new_(&MakeRelease), "board"_a, "run"_a, "state"_a, "sign_key"_a.none(), "trust_keys"_a)
      .def("begin", &Begin, "take_over"_a,
           "(version, SHA-256 of its manifest, model digest) of the head that the next version follows.")
      .def(
          "layout",
          [](HeldRelease& held) { return AsPython(Call(nb::none(), [&](Progress&) { return held.LayoutJson(); })); },
          "Of that version, as JSON, for ShardWriter.")
      .def("finish", &Finish, "receipts"_a, "step"_a.none(), "allow_empty"_a,
           "Releases the version that the ranks' receipts are of; returns the receipt of the whole.")
      .def("close", [](HeldRelease& held) { Unlocked([&] { held.Close(); }); }, "Gives the state directory back.");
  nb::class_<HeldWriter>(m, "ShardWriter", "A rank's part of skerry.sharded. One thread at a time.")
      .def(nb::new_(&MakeWriter), "board"_a, "run"_a, "layout"_a, "state"_a, "boxes"_a, "index"_a, "of"_a, "level"_a,
           "threads"_a, "boxes: (ordinal of the tensor, start, size) each.")
      .def_prop_ro("boxes", &Boxes, "In the order of the capture's tensors.")
      .def(
          "is_at",
          [](HeldWriter& held, int64_t version) {
            held.captured().End();
            return Call(nb::none(), [&, &writer = held.get()](Progress& account) {
              return writer.IsAt(*VersionOf(version), account);
            });
          },
          "version"_a, "Whether the snapshot is this version's. Uses up the capture.")
      .def("build", &Build, "checkpoint"_a, "version"_a, "progress"_a.none() = nb::none(),
           "Makes the snapshot from a checkpoint of that version; reads only this rank's boxes.")
      .def("capture", &BeginCapture, "Begins a capture of the boxes.")
      .def("encode", &Encode, "capture"_a, "version"_a, "manifest"_a, "progress"_a.none() = nb::none(),
           "Stores this rank's part of the version after `version` and returns its receipt, for ShardRelease.finish;\n"
           "empty where the rank has no boxes.")
      .def("follow", &Follow, "capture"_a, "The version is out: the snapshot moves to it.")
      .def(
          "drop",
          [](HeldWriter& held) {
            held.captured().End();
            Call(nb::none(), [&, &writer = held.get()](Progress&) { return writer.Drop(); });
          },
          "The snapshot is not to be trusted: it is built again.")
      .def("close", &HeldWriter::Close, "Gives the state directory back.");
}
