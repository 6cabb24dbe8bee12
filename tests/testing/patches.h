// Patches in memory: made from two models, decoded onto one, and damaged with all checksums made right again.
#ifndef SKERRY_TESTS_TESTING_PATCHES_H_
#define SKERRY_TESTS_TESTING_PATCHES_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "skerry/patch/encoder.h"
#include "skerry/patch/format.h"
#include "skerry/patch/patch.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {

inline Bytes PatchBetween(const TensorSource& base, const TensorSource& target, const EncodeOptions& options = {},
                          std::vector<SideFileChange> side_files = {}) {
  MemorySink sink;
  Must(EncodePatch(base, target, std::move(side_files), options, sink, Progress::None()));
  return std::move(sink.bytes());
}
inline Bytes PatchBetween(const TestModel& base, const TestModel& target, const EncodeOptions& options = {}) {
  return PatchBetween(ModelSource(base), ModelSource(target), options);
}

// The bytes of the target's tensors, in its layout's order.
inline Result<std::vector<Bytes>> Decoded(const Patch& patch, const TensorSource& base, const Layout& target) {
  std::vector<Bytes> tensors;
  std::vector<bool> in_base;
  Bytes scratch;
  for (const LayoutTensor& tensor : target.tensors()) {
    const int64_t at = base.layout().Find(tensor.name);
    in_base.push_back(at >= 0 && base.layout().tensors()[static_cast<size_t>(at)].shape == tensor.shape &&
                      base.layout().tensors()[static_cast<size_t>(at)].dtype == tensor.dtype);
    Bytes bytes(tensor.bytes);
    if (in_base.back()) {
      SKERRY_ASSIGN(const ByteSpan old, base.Read(static_cast<size_t>(at), 0, tensor.bytes, scratch));
      bytes = ToBytes(old);
    }
    tensors.push_back(std::move(bytes));
  }
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(target));
  for (const PlacedBlock& block : blocks) {
    const auto unit = static_cast<size_t>(DTypeUnit(block.dtype));
    const auto bytes_of = [&](const BlockRun& run) {
      return MutableByteSpan(tensors[run.tensor]).subspan(run.first_unit * unit, run.units * unit);
    };
    std::vector<ByteSpan> before;
    for (const BlockRun& run : block.runs) {
      if (in_base[run.tensor] != in_base[block.runs.front().tensor]) return Fail(Code::kCorrupt, "old and new in one");
      if (in_base[run.tensor]) before.push_back(bytes_of(run));
    }
    SKERRY_ASSIGN(const std::vector<RunChanges> parts, patch.Decode(block, target, before));
    for (const RunChanges& part : parts) {
      const MutableByteSpan bytes = bytes_of(part.run);
      const uint64_t first_word = part.run.first_unit * unit / 8;
      RunningDigest expected;
      if (in_base[part.run.tensor]) expected = expected - DigestWordsScalar(bytes, first_word);
      ApplyBlock(part.changes, bytes.data());
      expected += DigestWordsScalar(bytes, first_word);
      EXPECT_EQ(part.moved, expected) << target.tensors()[part.run.tensor].name;
    }
  }
  return tensors;
}

inline std::vector<Bytes> TensorsOf(const ModelSource& source) {
  std::vector<Bytes> tensors;
  for (size_t i = 0; i < source.layout().tensors().size(); ++i) tensors.push_back(source.tensor(i).bytes);
  return tensors;
}

// Raw bytes of everything that changed may cost 1 % and 1 KiB more, never more.
inline uint64_t MostPatchBytes(uint64_t raw) { return raw + raw / 100 + 1024; }

inline void ExpectRoundTrip(const TestModel& base_model, const TestModel& target_model,
                            const EncodeOptions& options = {}) {
  const ModelSource base(base_model), target(target_model);
  MemorySink sink;
  const EncodeReceipt receipt = Must(EncodePatch(base, target, {}, options, sink, Progress::None()));
  EXPECT_EQ(receipt.patch_bytes, sink.bytes().size());
  EXPECT_LE(receipt.patch_bytes, MostPatchBytes(target.layout().total_bytes()));
  const Patch patch = Must(Patch::FromBytes(std::move(sink.bytes())));
  ASSERT_TRUE(Must(Decoded(patch, base, target.layout())) == TensorsOf(target));
  EXPECT_EQ(receipt.target_digests, Must(DigestTensors(target, 1, Progress::None())));
  EXPECT_EQ(receipt.base_digests, Must(DigestTensors(base, 1, Progress::None())));
  EXPECT_EQ(patch.info().target_model, ModelDigest(target.layout().tensors_digest(), receipt.target_digests));
  EXPECT_EQ(patch.info().base_model, ModelDigest(base.layout().tensors_digest(), receipt.base_digests));
}

// Positions of the changed units of each changed tensor, in the layout's order: what a test expects by hand.
inline std::vector<std::pair<std::string, std::vector<uint64_t>>> PositionsIn(const Patch& patch,
                                                                              const ModelSource& base) {
  std::map<size_t, std::vector<uint64_t>> by_tensor;
  for (const PlacedBlock& block : Must(patch.Place(base.layout()))) {
    const auto unit = static_cast<size_t>(DTypeUnit(block.dtype));
    const auto bytes_of = [&](const BlockRun& run) {
      return ByteSpan(base.tensor(run.tensor).bytes).subspan(run.first_unit * unit, run.units * unit);
    };
    std::vector<ByteSpan> before;
    for (const BlockRun& run : block.runs) before.push_back(bytes_of(run));
    for (const RunChanges& part : Must(patch.Decode(block, base.layout(), before))) {
      const BlockChanges& changes = part.changes;
      for (size_t i = 0; i < changes.count(); ++i) {
        const uint64_t position = changes.all ? i : changes.positions[i];
        const std::byte* old_bits = bytes_of(part.run).data() + position * unit;
        if (std::memcmp(old_bits, changes.values.data() + i * unit, unit) == 0) continue;
        by_tensor[part.run.tensor].push_back(part.run.first_unit + position);
      }
    }
  }
  std::vector<std::pair<std::string, std::vector<uint64_t>>> found;
  for (auto& [tensor, positions] : by_tensor) {
    found.emplace_back(base.layout().tensors()[tensor].name, std::move(positions));
  }
  return found;
}

// A patch file taken apart, to be put together again with right checksums whatever was done to the parts.
struct PatchParts {
  Bytes header;
  Bytes payloads;
  std::vector<std::pair<uint8_t, Bytes>> sections;

  static PatchParts Of(ByteSpan file) {
    PatchParts parts;
    const ByteSpan footer = file.last(kPatchFooterBytes);
    const auto blocks_bytes = LoadLe<uint64_t>(footer.data());
    const auto count = LoadLe<uint32_t>(footer.data() + 8);
    parts.header = ToBytes(file.first(kPatchHeaderBytes));
    parts.payloads = ToBytes(file.subspan(kPatchHeaderBytes, blocks_bytes));
    const ByteSpan table = file.subspan(file.size() - kPatchFooterBytes - count * kSectionEntryBytes);
    size_t at = kPatchHeaderBytes + blocks_bytes;
    for (uint32_t i = 0; i < count; ++i) {
      const std::byte* entry = table.data() + i * kSectionEntryBytes;
      const auto size = LoadLe<uint64_t>(entry + 1);
      parts.sections.emplace_back(std::to_integer<uint8_t>(*entry), ToBytes(file.subspan(at, size)));
      at += size;
    }
    return parts;
  }

  Bytes& section(Section kind) {
    for (auto& [code, bytes] : sections) {
      if (code == static_cast<uint8_t>(kind)) return bytes;
    }
    throw std::runtime_error("no such section");
  }

  Bytes Sealed() const {
    Bytes file = header, table, footer;
    ByteWriter writer(file);
    writer.Raw(payloads);
    for (const auto& [code, bytes] : sections) {
      writer.Raw(bytes);
      ByteWriter entry(table);
      entry.Int<uint8_t>(code);
      entry.Int<uint64_t>(bytes.size());
      entry.Int<uint64_t>(Xxh3(bytes));
    }
    writer.Raw(table);
    ByteWriter end(footer);
    end.Int<uint64_t>(payloads.size());
    end.Int<uint32_t>(static_cast<uint32_t>(sections.size()));
    Bytes covered = header;
    covered.insert(covered.end(), table.begin(), table.end());
    covered.insert(covered.end(), footer.begin(), footer.end());
    end.Int<uint64_t>(Xxh3(covered));
    end.Raw(AsBytes(kPatchEndMagic));
    writer.Raw(footer);
    return file;
  }
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_PATCHES_H_
