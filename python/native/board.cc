#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "bindings.h"
#include "checkpoint.h"
#include "held_board.h"
#include "skerry/apply/catch_up.h"
#include "skerry/base/clock.h"
#include "skerry/board/collect.h"
#include "skerry/publish/fork.h"
#include "skerry/publish/init.h"
#include "work.h"

using namespace nb::literals;

namespace {

using skerry::Board;
using skerry::Code;
using skerry::Manifest;
using skerry::Progress;
using skerry::Result;
using skerry::RunId;
using skerry::Version;

std::chrono::seconds SecondsOf(double seconds, std::string_view argument) {
  constexpr double kMost = 366 * 86400;
  if (!(seconds >= 0 && seconds <= kMost)) {
    Raise({Code::kInvalid, fmt::format("{}: {} seconds, but 0 to {} are possible", argument, seconds, kMost)});
  }
  return std::chrono::seconds(static_cast<int64_t>(seconds));
}

std::optional<std::string> SignerOf(const Manifest& manifest) {
  if (!manifest.signature) return std::nullopt;
  return manifest.signature->key.Text();
}

std::vector<std::string> Runs(HeldBoard& held) {
  const auto runs = Call(nb::none(), [&](Progress&) -> Result<std::vector<RunId>> {
    SKERRY_ASSIGN(const Board board, held.Open());
    return board.Runs();
  });
  std::vector<std::string> names;
  for (const RunId& run : runs) names.push_back(run.str());
  return names;
}

struct HeadFound {
  skerry::Head head;
  std::optional<Manifest> checked;
};

nb::object HeadOf(HeldBoard& held, const std::string& name) {
  const RunId run = RunOf(name);
  const auto found = Call(nb::none(), [&](Progress&) -> Result<std::optional<HeadFound>> {
    SKERRY_ASSIGN(const Board board, held.Open());
    auto at = board.ReadHead(run);
    if (!at && at.error().code == Code::kNotFound) return std::nullopt;
    if (!at) return tl::unexpected(at.error());
    HeadFound head{.head = at->head, .checked = {}};
    // What a head says is signed nowhere; its manifest says it again.
    if (!board.trusted().empty()) {
      SKERRY_ASSIGN(head.checked, board.ReadManifest(head.head, head.head.version));
    }
    return head;
  });
  if (!found) return nb::none();
  const skerry::Head& head = found->head;
  nb::dict dict;
  dict["run"] = head.run.str();
  dict["version"] = head.version.number();
  dict["model"] = head.model.Hex();
  dict["time"] = head.time;
  dict["epoch"] = head.epoch;
  dict["sequence"] = head.sequence;
  dict["publisher"] = head.publisher;
  dict["signed_by"] = found->checked ? SignerOf(*found->checked) : std::nullopt;
  std::vector<std::string> views;
  for (const skerry::ViewHead& view : head.views) views.push_back(view.view);
  dict["views"] = views;
  return dict;
}

// Newest first, as far as gc has left them.
Result<std::vector<Manifest>> ReadVersions(const Board& board, const RunId& run, uint64_t limit) {
  SKERRY_ASSIGN(const skerry::HeadAt at, board.ReadHead(run));
  std::vector<Manifest> manifests;
  SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(at.head, at.head.version));
  while (manifests.size() < limit) {
    manifests.push_back(manifest);
    if (manifest.version.IsBase() || manifests.size() == limit) break;
    Result<Manifest> parent = board.ReadManifest(run, manifest.version.Previous(), *manifest.parent);
    if (!parent && parent.error().code == Code::kNotFound) break;
    SKERRY_ASSIGN(manifest, std::move(parent));
  }
  return manifests;
}

nb::list Versions(HeldBoard& held, const std::string& name, uint64_t limit) {
  const RunId run = RunOf(name);
  const auto manifests = Call(nb::none(), [&](Progress&) -> Result<std::vector<Manifest>> {
    SKERRY_ASSIGN(const Board board, held.Open());
    return ReadVersions(board, run, limit);
  });
  nb::list list;
  for (const Manifest& manifest : manifests) {
    nb::dict dict;
    dict["version"] = manifest.version.number();
    dict["step"] = manifest.step;
    dict["time"] = manifest.time;
    dict["model"] = manifest.model.Hex();
    dict["elements"] = manifest.stats.elements;
    dict["changed"] = manifest.stats.changed;
    dict["tensors_changed"] = manifest.stats.tensors_changed;
    dict["patch_bytes"] = manifest.stats.patch_bytes;
    dict["checkpoint_bytes"] = manifest.stats.checkpoint_bytes;
    dict["anchor"] = !manifest.anchors.empty() && manifest.anchors[0].version == manifest.version;
    dict["signed_by"] = SignerOf(manifest);
    list.append(dict);
  }
  return list;
}

skerry::BaseMode ModeOf(const std::string& mode) {
  if (mode == "copy") return skerry::BaseMode::kCopy;
  if (mode == "link") return skerry::BaseMode::kLink;
  if (mode == "reference") return skerry::BaseMode::kReference;
  Raise({Code::kInvalid, fmt::format("mode: \"{}\" is none of \"copy\", \"link\", \"reference\"", mode)});
}

const skerry::Checkpoint& OnDisk(const HeldCheckpoint& base) {
  if (base.source() == HeldCheckpoint::Source::kMemory) {
    Raise({Code::kInvalid, "base: bytes in memory, but a checkpoint on disk is wanted"});
  }
  return base.checkpoint();
}

// `views`: a dict of names and checkpoints.
nb::dict Init(HeldBoard& held, const std::string& name, const HeldCheckpoint& base, const nb::dict& views,
              const std::string& mode, int64_t threads, const nb::object& progress) {
  const RunId run = RunOf(name);
  const skerry::BaseMode how = ModeOf(mode);
  const int count = ThreadsOf(threads);
  const skerry::Checkpoint& own = OnDisk(base);
  std::map<std::string, const skerry::Checkpoint*, std::less<>> of_views;
  for (const auto& [view, checkpoint] : views) {
    of_views[nb::cast<std::string>(view)] = &OnDisk(nb::cast<const HeldCheckpoint&>(checkpoint));
  }
  std::optional<skerry::WriteSafety> writes;
  const auto receipt = Call(progress, [&](Progress& account) -> Result<skerry::InitReceipt> {
    SKERRY_ASSIGN(const Board board, held.Create());
    writes = board.writes();
    return skerry::InitRun(board, run, own, of_views, how, count, skerry::Clock::System(), account);
  });
  nb::dict dict;
  dict["run"] = run.str();
  dict["created"] = receipt.created;
  dict["model"] = receipt.model.Hex();
  dict["layout"] = receipt.layout.Hex();
  dict["nbytes"] = receipt.bytes;
  dict["writes"] = writes ? std::optional(std::string(NameOf(*writes))) : std::nullopt;
  return dict;
}

nb::dict Pull(HeldBoard& held, const std::string& name, const skerry::Path& output, std::optional<int64_t> version,
              double wait, uint64_t undo, int64_t threads, const nb::object& progress) {
  const RunId run = RunOf(name);
  skerry::CatchUpOptions options{.version = VersionOf(version), .threads = ThreadsOf(threads)};
  options.patience.limit = SecondsOf(wait, "wait");
  options.canonical.undo.versions = undo;
  const auto receipt = Call(progress, [&](Progress& account) -> Result<skerry::CatchUpReceipt> {
    SKERRY_ASSIGN(const Board board, held.Open());
    return skerry::CatchUp(board, run, output, options, account);
  });
  nb::dict dict;
  dict["run"] = run.str();
  dict["version"] = receipt.version.number();
  dict["from_version"] = receipt.from ? std::optional(receipt.from->number()) : std::nullopt;
  dict["model"] = receipt.model.Hex();
  dict["patches"] = receipt.patches;
  dict["bytes_fetched"] = receipt.bytes_fetched;
  dict["elements"] = receipt.elements;
  dict["changed"] = receipt.changed;
  dict["healed"] = receipt.healed;
  nb::dict seconds;
  seconds["plan"] = receipt.plan_seconds;
  seconds["fetch"] = receipt.fetch_seconds;
  seconds["apply"] = receipt.apply_seconds;
  dict["seconds"] = seconds;
  return dict;
}

nb::dict Fork(HeldBoard& held, const std::string& name, const std::string& from_name, std::optional<int64_t> version) {
  const RunId run = RunOf(name), from = RunOf(from_name, "from_run");
  const std::optional<Version> at = VersionOf(version);
  const auto receipt = Call(nb::none(), [&](Progress&) -> Result<skerry::ForkReceipt> {
    SKERRY_ASSIGN(const Board board, held.Open(/*sign=*/true));
    return skerry::ForkRun(board, run, from, at, skerry::Clock::System());
  });
  nb::dict dict;
  dict["run"] = run.str();
  dict["from_run"] = receipt.origin.run.str();
  dict["from_version"] = receipt.origin.version.number();
  dict["created"] = receipt.created;
  dict["model"] = receipt.model.Hex();
  dict["layout"] = receipt.layout.Hex();
  return dict;
}

nb::list Gc(HeldBoard& held, const std::optional<std::string>& name, uint64_t keep, double grace, bool dry_run) {
  using State = skerry::CollectedKey::State;
  skerry::CollectOptions options{
      .policy = {.keep_versions = keep}, .grace = SecondsOf(grace, "grace"), .dry_run = dry_run};
  if (name) options.run = RunOf(*name);
  if (keep == 0) Raise({Code::kInvalid, "keep: 0, but the newest version always stays"});
  const auto receipt = Call(nb::none(), [&](Progress&) -> Result<skerry::CollectReceipt> {
    SKERRY_ASSIGN(const Board board, held.Open());
    return skerry::Collect(board, options, skerry::Clock::System());
  });
  nb::list list;
  for (const skerry::CollectedRun& run : receipt.runs) {
    nb::dict dict;
    dict["run"] = run.run.str();
    nb::dict kept;
    for (const auto& [version, why] : run.retention.versions) kept[nb::int_(version.number())] = why;
    dict["kept"] = kept;
    dict["kept_bytes"] = run.retention.kept_bytes;
    dict["removed"] = run.count(State::kRemoved);
    dict["removed_bytes"] = run.bytes(State::kRemoved);
    dict["condemned"] = run.count(State::kCondemned);
    dict["condemned_bytes"] = run.bytes(State::kCondemned);
    dict["problem"] = run.retention.problem;
    list.append(dict);
  }
  return list;
}

}  // namespace

void BindBoard(nb::module_& m) {
  nb::class_<HeldBoard>(m, "Board", "Native part of skerry.Board.")
      .def_static(
          "make",
          [](std::string url, std::string sign_key, std::vector<std::string> trust_keys) {
            return Unwrap(HeldBoard::Make(std::move(url), std::move(sign_key), std::move(trust_keys)));
          },
          "url"_a, "sign_key"_a, "trust_keys"_a)
      .def("runs", &Runs)
      .def("head", &HeadOf, "run"_a)
      .def("versions", &Versions, "run"_a, "limit"_a)
      .def("init", &Init, "run"_a, "base"_a, "views"_a, "mode"_a, "threads"_a, "progress"_a.none())
      .def("pull", &Pull, "run"_a, "out"_a, "version"_a.none(), "wait"_a, "undo"_a, "threads"_a, "progress"_a.none())
      .def("fork", &Fork, "run"_a, "from_run"_a, "version"_a.none())
      .def("gc", &Gc, "run"_a.none(), "keep"_a, "grace"_a, "dry_run"_a);
}
