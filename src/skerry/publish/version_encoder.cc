#include "skerry/publish/version_encoder.h"

#include <algorithm>

#include "skerry/apply/verified_changes.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {

Result<EncodedPart> EncodePart(const TensorSource& snapshot, const TensorSource& target, std::vector<size_t> tensors,
                               std::vector<SideFileChange> side_files, const EncodeOptions& options, const Path& spool,
                               Progress& progress) {
  EncodedPart part{.tensors = std::move(tensors), .receipt = {}, .spool = spool, .object = {}};
  const auto encode = [&](const TensorSource& before, const TensorSource& after) -> Status {
    SKERRY_ASSIGN(FileSink sink, FileSink::Create(spool));
    SKERRY_ASSIGN(part.receipt, EncodePatch(before, after, std::move(side_files), options, sink, progress));
    SKERRY_TRY(sink.Commit());
    part.object.size = sink.size();
    part.object.sha256 = sink.sha256();
    return {};
  };
  if (part.tensors.empty()) {
    SKERRY_TRY(encode(snapshot, target));
  } else {
    SKERRY_TRY(encode(TensorSubset(snapshot, part.tensors), TensorSubset(target, part.tensors)));
  }
  return part;
}

Status ProvePart(const EncodedPart& part, const TensorSource& snapshot, const Target& target, int threads,
                 Progress& progress) {
  SKERRY_ASSIGN(const Patch patch, Patch::Open(part.spool));
  const auto decode = [&](const TensorSource& before, const Layout& after) {
    const auto nothing = [](const RunChanges&) -> Status { return {}; };
    return DecodeVerified(patch, before, part.receipt.base_digests, after, threads, progress, nothing);
  };
  const auto proved = part.tensors.empty()
                          ? decode(snapshot, target.layout())
                          : decode(TensorSubset(snapshot, part.tensors), target.layout().Subset(part.tensors));
  if (proved) return {};
  return Fail(Code::kConflict, "{} changed while it was being published: publish it again ({})", target.name(),
              proved.error().message);
}

std::vector<PatchPart::TensorRange> RangesOf(const std::vector<size_t>& tensors) {
  std::vector<PatchPart::TensorRange> ranges;
  for (const size_t ordinal : tensors) {
    if (!ranges.empty() && ranges.back().first + ranges.back().count == ordinal) {
      ++ranges.back().count;
    } else {
      ranges.push_back({.first = ordinal, .count = 1});
    }
  }
  return ranges;
}

std::vector<std::vector<size_t>> GroupOtherTensors(const Layout& layout, const std::vector<size_t>& without,
                                                   size_t groups) {
  std::vector<size_t> among;
  uint64_t total = 0;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    if (std::binary_search(without.begin(), without.end(), i)) continue;
    among.push_back(i);
    total += layout.tensors()[i].bytes;
  }
  std::vector<std::vector<size_t>> out(1);
  uint64_t bytes = 0;
  for (const size_t i : among) {
    // The group that the tensor's middle falls into.
    const uint64_t middle = bytes + layout.tensors()[i].bytes / 2;
    const bool next = total > 0 && middle * std::min(groups, among.size()) / total >= out.size();
    if (next && !out.back().empty()) out.emplace_back();
    out.back().push_back(i);
    bytes += layout.tensors()[i].bytes;
  }
  return out;
}

std::vector<std::vector<size_t>> GroupTensors(const Layout& layout, size_t groups) {
  if (std::min(groups, layout.tensors().size()) <= 1) return {{}};
  std::vector<std::vector<size_t>> out = GroupOtherTensors(layout, {}, groups);
  if (out.size() == 1) return {{}};
  return out;
}

Result<EncodedVersion> CombineParts(std::vector<EncodedPart> parts, const Layout& base, const Layout& target) {
  EncodedVersion version;
  version.base_digests.resize(base.tensors().size());
  version.target_digests.resize(target.tensors().size());
  size_t seen = 0;
  for (const EncodedPart& part : parts) {
    if (part.tensors.empty()) {
      if (parts.size() != 1) return Fail(Code::kInvalid, "one part of {} is over all tensors", parts.size());
      version.base_digests = part.receipt.base_digests;
      version.target_digests = part.receipt.target_digests;
    }
    if (!part.tensors.empty() &&
        (part.tensors.size() != part.receipt.base_digests.size() ||
         part.tensors.size() != part.receipt.target_digests.size() || part.tensors.back() >= target.tensors().size())) {
      return Fail(Code::kCorrupt, "{} is about {} tensors up to {}, with {} and {} digests; the model has {} tensors",
                  part.object.name(), part.tensors.size(), part.tensors.back(), part.receipt.base_digests.size(),
                  part.receipt.target_digests.size(), target.tensors().size());
    }
    for (size_t i = 0; i < part.tensors.size(); ++i) {
      version.base_digests[part.tensors[i]] = part.receipt.base_digests[i];
      version.target_digests[part.tensors[i]] = part.receipt.target_digests[i];
    }
    seen += part.tensors.size();
    version.changed += part.receipt.info.changed;
    version.tensors_changed += part.receipt.tensors_changed;
    version.compare_seconds += part.receipt.compare_seconds;
    version.encode_seconds += part.receipt.encode_seconds;
  }
  if (parts.size() > 1 && seen != target.tensors().size()) {
    return Fail(Code::kInvalid, "{} parts hold {} tensors, but there are {}", parts.size(), seen,
                target.tensors().size());
  }
  version.base_model = ModelDigest(base.tensors_digest(), version.base_digests);
  version.target_model = ModelDigest(target.tensors_digest(), version.target_digests);
  for (size_t i = 0; i < parts.size(); ++i) {
    EncodedPart& part = parts[i];
    const bool says_nothing = part.receipt.info.changed == 0 && part.receipt.side_files_changed == 0;
    if (says_nothing && (i + 1 < parts.size() || !version.parts.empty())) continue;
    version.patch_bytes += part.object.size;
    version.parts.push_back({.object = std::move(part.object), .tensors = RangesOf(part.tensors)});
    version.spools.push_back(std::move(part.spool));
  }
  return version;
}

}  // namespace skerry
