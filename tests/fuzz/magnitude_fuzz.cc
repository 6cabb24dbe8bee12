// `sparse-magnitude` blocks: any payload under any model on any old bytes, decoded on one instruction set and on the
// scalar specification; and changes from the input, encoded and decoded again.
#include "blocks.h"
#include "skerry/diff/find_changes.h"
#include "skerry/patch/block_encoder.h"
#include "skerry/patch/sparse_flat.h"
#include "skerry/patch/sparse_magnitude.h"

namespace skerry {
namespace {

constexpr DType kDTypes[] = {DType::kF16,    DType::kBF16,       DType::kF32,    DType::kF64,
                             DType::kF8E4M3, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E8M0,
                             DType::kF4,     DType::kF8E5M2FNUZ, DType::kU8};

MagnitudeModel SomeModel(FuzzedDataProvider& input, const MagnitudeView& view) {
  const int classes = input.ConsumeIntegralInRange<int>(1, kMaxClasses);
  const bool aligned = input.ConsumeBool();
  const uint64_t unit = aligned && view.bits > 8 ? uint64_t{1} << (view.bits - 9) : 1;
  std::vector<uint64_t> lowest;
  for (uint64_t bound = 0; lowest.size() + 1 < static_cast<size_t>(classes) && bound < view.mask / unit;) {
    bound += input.ConsumeIntegralInRange<uint64_t>(1, view.mask / unit - bound);
    lowest.push_back(bound * unit);
  }
  FUZZ_CHECK(MagnitudeClasses::AreValid(view, lowest));
  std::vector<SymbolTable> tables;
  std::vector<uint8_t> table_of;
  for (size_t c = 0; c <= lowest.size(); ++c) {
    if (c == 0 || input.ConsumeIntegralInRange<int>(0, 3) == 0) tables.push_back(SomeTable(input));
    table_of.push_back(static_cast<uint8_t>(tables.size() - 1));
  }
  const MagnitudeModel model(MagnitudeClasses(view, lowest), tables, table_of);
  // Through its serialised form.
  Bytes bytes, again;
  ByteWriter writer(bytes), second(again);
  model.Serialize(writer);
  ByteReader reader(bytes);
  const auto read = MagnitudeModel::Parse(reader, view);
  FUZZ_CHECK(read && reader.AtEnd());
  read->Serialize(second);
  FUZZ_CHECK(again == bytes);
  return *read;
}

struct Decoded {
  Status status;
  BlockChanges changes;
  std::vector<RunningDigest> moved;
};

Decoded Decode(ByteSpan payload, uint64_t count, DType dtype, const MagnitudeModel& model, const OldRuns& old) {
  Decoded decoded;
  decoded.changes.unit = DTypeUnit(dtype);
  decoded.moved.resize(old.bytes.size());
  decoded.status = DecodeSparseMagnitude(payload, count, dtype, model, old.runs(), decoded.changes, decoded.moved);
  if (decoded.status) CheckDecoded(decoded.changes, old, count, decoded.moved);
  return decoded;
}

void DecodeHostile(FuzzedDataProvider& input, DType dtype, const MagnitudeModel& model) {
  const int unit = DTypeUnit(dtype);
  UseSimd(input);
  const OldRuns old = SomeRuns(input, static_cast<size_t>(unit));
  const auto count = input.ConsumeIntegralInRange<uint64_t>(1, UnitsOf(old.runs(), unit));
  const std::string payload = input.ConsumeRemainingBytesAsString();
  const Decoded decoded = Decode(AsBytes(payload), count, dtype, model, old);
  FUZZ_CHECK(SetSimd("scalar"));
  const Decoded expected = Decode(AsBytes(payload), count, dtype, model, old);
  FUZZ_CHECK(decoded.status.has_value() == expected.status.has_value());
  if (!decoded.status) return;
  FUZZ_CHECK(decoded.changes.positions == expected.changes.positions);
  FUZZ_CHECK(decoded.changes.values == expected.changes.values);
  FUZZ_CHECK(decoded.moved == expected.moved);
}

// The runs of a block as its cells.
EncodedBlock Encode(DType dtype, const OldRuns& old, const Bytes& after, const SymbolTable& values,
                    const MagnitudeModel& model) {
  BlockEncoder encoder;
  encoder.Begin(dtype, &values, &model);
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  size_t at = 0;
  for (size_t r = 0; r < old.bytes.size(); ++r) {
    const Bytes& before = old.bytes[r];
    const auto now = ByteSpan(after).subspan(at, before.size());
    std::vector<uint32_t> positions(before.size() / unit + 64);
    positions.resize(
        FindChangesScalar(before.data(), now.data(), before.size() / unit, static_cast<int>(unit), positions.data()));
    const RunningDigest moved = encoder.AddCell(before, now, positions, 8192 * r);
    FUZZ_CHECK(moved == DigestWordsScalar(now, 8192 * r) - DigestWordsScalar(before, 8192 * r));
    at += before.size();
  }
  auto block = encoder.Close([&]() -> Result<Bytes> { return after; });
  FUZZ_CHECK(block);
  return *std::move(block);
}

void RoundTrip(FuzzedDataProvider& input, DType dtype, const MagnitudeModel& model) {
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  UseSimd(input);
  const OldRuns old = SomeRuns(input, unit);
  const SymbolTable values = SomeTable(input);
  const Bytes before = old.Joined(), after = SomeChanges(input, before, unit);
  if (after == before) return;
  const EncodedBlock block = Encode(dtype, old, after, values, model);
  FUZZ_CHECK(SetSimd("scalar"));
  FUZZ_CHECK(Encode(dtype, old, after, values, model).payload == block.payload);
  FUZZ_CHECK(SetSimd("best"));
  if (block.entry.method == Method::kDense) return;
  BlockChanges changes;
  changes.unit = static_cast<int>(unit);
  std::vector<RunningDigest> moved(old.bytes.size());
  if (block.entry.method == Method::kSparseFlat) {
    FUZZ_CHECK(DecodeSparseFlat(block.payload, block.entry.changed, dtype, values, old.runs(), changes, moved));
  } else {
    const Decoded decoded = Decode(block.payload, block.entry.changed, dtype, model, old);
    FUZZ_CHECK(decoded.status);
    changes = decoded.changes;
  }
  FUZZ_CHECK(BlockChecksum(changes) == block.entry.checksum);
  Bytes target = before;
  ApplyBlock(changes, target.data());
  FUZZ_CHECK(target == after);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const DType dtype = kDTypes[input.ConsumeIntegralInRange<size_t>(0, std::size(kDTypes) - 1)];
  const bool hostile = input.ConsumeBool();
  const MagnitudeModel model = SomeModel(input, *MagnitudeViewOf(dtype));
  hostile ? DecodeHostile(input, dtype, model) : RoundTrip(input, dtype, model);
  return 0;
}
