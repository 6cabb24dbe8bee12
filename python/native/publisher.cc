#include "skerry/publish/publisher.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "bindings.h"
#include "capture.h"
#include "held_board.h"
#include "receipt.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/base/clock.h"
#include "work.h"

using namespace nb::literals;

namespace {

using skerry::Checkpoint;
using skerry::Clock;
using skerry::Code;
using skerry::Progress;
using skerry::PublishOptions;
using skerry::PublishReceipt;
using skerry::Result;
using skerry::RunId;

// The publisher of one run. Its state directory is locked from the first use on.
class HeldPublisher {
 public:
  HeldPublisher(std::unique_ptr<HeldBoard> board, RunId run, std::string state, std::vector<std::string> views)
      : board_(std::move(board)), run_(std::move(run)), state_(std::move(state)), views_(std::move(views)) {}

  // Version and model digest of the head on the board.
  Result<std::pair<uint64_t, std::string>> Head() {
    SKERRY_ASSIGN(const skerry::Board board, board_->Open());
    SKERRY_ASSIGN(const skerry::HeadAt at, board.ReadHead(run_));
    return std::pair(at.head.version.number(), at.head.model.Hex());
  }

  Result<std::unique_ptr<HeldCapture>> BeginCapture(const std::string& view, int threads, bool take_over,
                                                    Progress& progress) {
    const std::lock_guard lock(mutex_);
    captured_[view].End();
    SKERRY_TRY(Open());
    SKERRY_ASSIGN(skerry::Capture capture,
                  publisher_->BeginCapture(view, threads, take_over, Clock::System(), progress));
    auto held = std::make_unique<HeldCapture>(std::move(capture));
    captured_[view].Begin(*held);
    return held;
  }

  Result<PublishReceipt> Publish(const skerry::Capture& capture, const skerry::ViewCaptures& views,
                                 PublishOptions options, Progress& progress) {
    const std::lock_guard lock(mutex_);
    SKERRY_TRY(Open());
    auto receipt = publisher_->Publish(capture, views, options, Clock::System(), progress);
    EndCaptures();
    return receipt;
  }

  Result<PublishReceipt> Publish(const std::string& checkpoint, const std::map<std::string, std::string>& views,
                                 PublishOptions options, Progress& progress) {
    const std::lock_guard lock(mutex_);
    SKERRY_TRY(Open());
    EndCaptures();
    SKERRY_ASSIGN(const Checkpoint opened, skerry::OpenSettledCheckpoint(checkpoint));
    std::map<std::string, Checkpoint> of_views;
    skerry::ViewCheckpoints targets;
    for (const auto& [view, path] : views) {
      SKERRY_ASSIGN(Checkpoint of_view, skerry::OpenSettledCheckpoint(path));
      targets[view] = &of_views.emplace(view, std::move(of_view)).first->second;
    }
    return publisher_->Publish(opened, targets, options, Clock::System(), progress);
  }

  // Gives the state directory's lock back. Another call opens it again.
  void Close() {
    const std::lock_guard lock(mutex_);
    EndCaptures();
    publisher_.reset();
  }

 private:
  skerry::Status Open() {
    if (publisher_) return {};
    SKERRY_ASSIGN(const skerry::Board board, board_->Open(/*sign=*/true));
    skerry::Path directory = state_;
    if (state_.empty()) {
      SKERRY_ASSIGN(directory, skerry::DefaultPublisherState(board, run_));
    }
    SKERRY_ASSIGN(skerry::Publisher publisher, skerry::Publisher::Open(board, run_, directory, views_));
    publisher_.emplace(std::move(publisher));
    return {};
  }

  void EndCaptures() {
    for (auto& [view, captured] : captured_) captured.End();
  }

  const std::unique_ptr<HeldBoard> board_;
  const RunId run_;
  const std::string state_;
  const std::vector<std::string> views_;
  std::mutex mutex_;  // one call at a time, from whichever thread
  std::optional<skerry::Publisher> publisher_;
  std::map<std::string, HeldCapture::Owner> captured_;  // by view
};

HeldPublisher* MakePublisher(const std::string& board, const std::string& run, std::optional<std::string> state,
                             std::optional<std::string> sign_key, std::vector<std::string> trust_keys,
                             std::vector<std::string> views) {
  RunId id = RunOf(run);
  auto held = Unwrap(HeldBoard::Make(board, sign_key.value_or(""), std::move(trust_keys)));
  return new HeldPublisher(std::move(held), std::move(id), state.value_or(""), std::move(views));
}

std::string DefaultState(const std::string& board, const std::string& run) {
  const RunId id = RunOf(run);
  auto held = Unwrap(HeldBoard::Make(board, "", {}));
  return Call(nb::none(), [&](Progress&) -> Result<std::string> {
    SKERRY_ASSIGN(const skerry::Board opened, held->Open());
    SKERRY_ASSIGN(const skerry::Path directory, skerry::DefaultPublisherState(opened, id));
    return directory.string();
  });
}

std::pair<uint64_t, std::string> Head(HeldPublisher& held) {
  return Call(nb::none(), [&](Progress&) { return held.Head(); });
}

std::unique_ptr<HeldCapture> Capture(HeldPublisher& held, const std::string& view, int64_t threads, bool take_over,
                                     const nb::object& progress) {
  const int count = ThreadsOf(threads);
  return Call(progress, [&](Progress& account) { return held.BeginCapture(view, count, take_over, account); });
}

// `source` and the values of `views`, by name: captures, or all paths of checkpoints.
nb::dict Publish(HeldPublisher& held, const nb::object& source, const nb::dict& views, std::optional<int64_t> step,
                 bool allow_empty, bool take_over, const std::string& level, int64_t threads,
                 std::optional<double> anchor_tail, const nb::object& progress) {
  PublishOptions options{.state_directory = {},
                         .step = step,
                         .allow_empty = allow_empty,
                         .take_over = take_over,
                         .threads = ThreadsOf(threads)};
  const auto known = skerry::LevelFromName(level);
  if (!known) Raise({Code::kInvalid, fmt::format("level: '{}' is neither 'compact' nor 'fast'", level)});
  options.level = *known;
  if (anchor_tail) options.anchor_tail = *anchor_tail;
  const HeldCapture* capture = nullptr;
  if (!nb::try_cast(source, capture)) {
    const auto checkpoint = nb::cast<std::string>(source);
    const auto of_views = nb::cast<std::map<std::string, std::string>>(views);
    return ReceiptAsDict(
        Call(progress, [&](Progress& account) { return held.Publish(checkpoint, of_views, options, account); }));
  }
  const skerry::Capture& own = capture->get();
  skerry::ViewCaptures of_views;
  for (const auto& [view, of_view] : views) {
    of_views[nb::cast<std::string>(view)] = &nb::cast<const HeldCapture&>(of_view).get();
  }
  return ReceiptAsDict(
      Call(progress, [&](Progress& account) { return held.Publish(own, of_views, options, account); }));
}

}  // namespace

void BindPublisher(nb::module_& m) {
  BindCapture(m);
  m.def("default_publisher_state", &DefaultState, "board"_a, "run"_a,
        "The state directory of a publisher that was told none.");
  nb::class_<HeldPublisher>(m, "Publisher",
                            "Native part of skerry.Publisher. Calls from several threads wait for each other.")
      .def(nb::new_(&MakePublisher), "board"_a, "run"_a, "state"_a.none(), "sign_key"_a.none(), "trust_keys"_a,
           "views"_a = std::vector<std::string>(),
           "Asks no server anything, but finds what is wrong with the arguments.")
      .def("head", &Head, "(version, model digest in hexadecimal) of the run's head; NotFound where there is no run.")
      .def("capture", &Capture, "view"_a = "", "threads"_a = 0, "take_over"_a = false, "progress"_a.none() = nb::none(),
           nb::keep_alive<0, 1>(),
           "Begins a capture of weights against the head's version, to which the snapshot is brought first: in the "
           "run's\n"
           "own view, or a further one by its name. It is used up by the next publish(), or capture() of that view.")
      .def("publish", &Publish, "source"_a, "views"_a = nb::dict(), "step"_a.none() = nb::none(),
           "allow_empty"_a = false, "take_over"_a = false, "level"_a = "compact", "threads"_a = 0,
           "anchor_tail"_a.none() = nb::none(), "progress"_a.none() = nb::none(),
           "Publishes a capture, or the checkpoint at a path, with those of all further views by their names; returns\n"
           "the receipt.")
      .def(
          "close", [](HeldPublisher& held) { Unlocked([&] { held.Close(); }); },
          "Gives the state directory back to whoever wants it, and uses up the capture.");
}
