#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.h"
#include "checkpoint.h"
#include "skerry/apply/rebuild.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/side_files.h"
#include "work.h"

using namespace nb::literals;

namespace {

using Source = HeldCheckpoint::Source;
using skerry::Progress;

skerry::Level LevelOf(const std::string& level) {
  const auto known = skerry::LevelFromName(level);
  if (!known) Raise({skerry::Code::kInvalid, fmt::format("level: \"{}\" is neither \"compact\" nor \"fast\"", level)});
  return *known;
}

nb::dict Diff(const HeldCheckpoint& base, const HeldCheckpoint& target, const skerry::Path& output,
              const std::string& level, bool structural, int64_t threads, const nb::object& progress) {
  const skerry::EncodeOptions options{
      .threads = ThreadsOf(threads), .level = LevelOf(level), .allow_structural = structural};
  const bool with_side_files = base.source() == Source::kDirectory && target.source() == Source::kDirectory;
  const auto receipt = Call(progress, [&](Progress& account) -> skerry::Result<skerry::EncodeReceipt> {
    std::vector<skerry::SideFileChange> side_files;
    if (with_side_files) {
      SKERRY_ASSIGN(side_files, skerry::CompareSideFiles(base.checkpoint(), target.checkpoint()));
    }
    SKERRY_ASSIGN(skerry::FileSink sink, skerry::FileSink::Create(output));
    SKERRY_ASSIGN(auto encoded, skerry::EncodePatch(base.checkpoint(), target.checkpoint(), std::move(side_files),
                                                    options, sink, account));
    SKERRY_TRY(sink.Commit());
    return encoded;
  });
  nb::dict dict;
  dict["base_model"] = receipt.info.base_model.Hex();
  dict["target_model"] = receipt.info.target_model.Hex();
  dict["elements"] = receipt.info.units;
  dict["changed"] = receipt.info.changed;
  dict["tensors"] = receipt.tensors;
  dict["tensors_changed"] = receipt.tensors_changed;
  dict["side_files_changed"] = receipt.side_files_changed;
  dict["patch_bytes"] = receipt.patch_bytes;
  dict["checkpoint_bytes"] = receipt.target_bytes;
  nb::dict seconds;
  seconds["compare"] = receipt.compare_seconds;
  seconds["encode"] = receipt.encode_seconds;
  dict["seconds"] = seconds;
  return dict;
}

nb::dict Apply(const HeldCheckpoint& base, const skerry::Patch& patch, const skerry::Path& output, int64_t threads,
               const nb::object& progress) {
  if (base.source() == Source::kMemory) {
    Raise({skerry::Code::kInvalid, "base: bytes in memory, but a checkpoint on disk is wanted"});
  }
  const int count = ThreadsOf(threads);
  const auto receipt = Call(progress, [&](Progress& account) {
    return skerry::RebuildCheckpoint(base.checkpoint(), {}, patch, output, {}, /*write_state=*/false, count, account);
  });
  nb::dict dict;
  dict["model"] = patch.info().target_model.Hex();
  dict["elements"] = patch.info().units;
  dict["changed"] = receipt.changed;
  nb::dict seconds;
  seconds["verify"] = receipt.verify_seconds;
  seconds["copy"] = receipt.copy_seconds;
  seconds["apply"] = receipt.apply_seconds;
  dict["seconds"] = seconds;
  return dict;
}

}  // namespace

void BindDiffApply(nb::module_& m) {
  m.def("diff", &Diff, "base"_a, "new"_a, "out"_a, "level"_a, "structural"_a, "threads"_a, "progress"_a.none(),
        "Native part of skerry.diff.");
  m.def("apply", &Apply, "base"_a, "patch"_a, "out"_a, "threads"_a, "progress"_a.none(),
        "Native part of skerry.apply.");
}
