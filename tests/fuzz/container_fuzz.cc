// Patch files. So that the fuzzer gets past the checksums, the harness makes them right itself, in one of two ways that
// the first byte chooses: it repairs the input as a whole patch file, or it builds one around sections from the input.
#include <fuzzer/FuzzedDataProvider.h>
#include <zstd.h>

#include "check.h"
#include "skerry/patch/patch.h"

namespace skerry {
namespace {

// What patches are placed in: an empty tensor, one of several cells, two of one dtype, packed and wide units.
const Layout& Target() {
  static const Layout layout = *Layout::FromHeaders(
      {{"model.safetensors", R"({"a":{"dtype":"U8","shape":[140000],"data_offsets":[0,140000]},)"
                             R"("b":{"dtype":"BF16","shape":[20,20],"data_offsets":[140000,140800]},)"
                             R"("c":{"dtype":"F32","shape":[2,0],"data_offsets":[140800,140800]},)"
                             R"("d":{"dtype":"F4","shape":[64],"data_offsets":[140800,140832]},)"
                             R"("e":{"dtype":"F64","shape":[50],"data_offsets":[140832,141232]},)"
                             R"("f":{"dtype":"BF16","shape":[30],"data_offsets":[141232,141292]},)"
                             R"("g":{"dtype":"F8_E4M3","shape":[40],"data_offsets":[141292,141332]}})"}});
  return layout;
}

void Store(Bytes& bytes, size_t at, auto value) { StoreLe(bytes.data() + at, value); }

void Overwrite(Bytes& bytes, size_t at, std::string_view text) {
  std::memcpy(bytes.data() + at, text.data(), text.size());
}

// Magic numbers, and all checksums of sections that lie within the file.
void Repair(Bytes& file) {
  if (file.size() < kPatchHeaderBytes + kPatchFooterBytes) return;
  const size_t footer = file.size() - kPatchFooterBytes;
  Overwrite(file, 0, kPatchMagic);
  Store(file, 8, kPatchVersion);
  Store(file, 12, uint32_t{0});
  Store(file, 16, LoadLe<uint64_t>(file.data() + 16) & kKnownFeatures);
  Overwrite(file, footer + 20, kPatchEndMagic);
  const auto sections = LoadLe<uint32_t>(file.data() + footer + 8);
  const size_t table_bytes = size_t{sections} * kSectionEntryBytes;
  if (table_bytes > footer - kPatchHeaderBytes) return;
  const size_t table = footer - table_bytes;
  uint64_t at = kPatchHeaderBytes + LoadLe<uint64_t>(file.data() + footer);
  for (size_t entry = table; entry < footer; entry += kSectionEntryBytes) {
    const auto size = LoadLe<uint64_t>(file.data() + entry + 1);
    if (at > table || size > table - at) break;
    Store(file, entry + 9, Xxh3(ByteSpan(file).subspan(at, size)));
    at += size;
  }
  Bytes covered(file.begin(), file.begin() + kPatchHeaderBytes);
  covered.insert(covered.end(), file.begin() + static_cast<ptrdiff_t>(table),
                 file.begin() + static_cast<ptrdiff_t>(footer) + 12);
  Store(file, footer + 12, Xxh3(covered));
}

Bytes Compressed(ByteSpan raw) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  Bytes section;
  ByteWriter writer(section);
  writer.Varint(raw.size());
  writer.Raw(packed);
  return section;
}

// A well-formed container around sections from the input; compressed ones are given by their raw content.
Bytes Build(FuzzedDataProvider& input) {
  const auto text = [&](size_t limit) { return input.ConsumeRandomLengthString(limit); };
  const bool structural = input.ConsumeBool();
  const std::string payloads = text(4096);
  Bytes info(160);
  ByteWriter counts(info);
  counts.Varint(input.ConsumeBool() ? Target().total_units() : input.ConsumeIntegral<uint64_t>());
  counts.Varint(input.ConsumeIntegral<uint32_t>());
  counts.Varint(input.ConsumeIntegralInRange<uint32_t>(0, 64));

  std::vector<std::pair<uint8_t, Bytes>> sections = {{1, info}};
  for (uint8_t kind = 2; kind <= kMaxSections; ++kind) {
    if (!input.ConsumeBool()) continue;
    const std::string content = text(2048);
    sections.emplace_back(kind, kind < 4 ? ToBytes(AsBytes(content)) : Compressed(AsBytes(content)));
  }
  Bytes file(kPatchHeaderBytes), table;
  ByteWriter out(file), entries(table);
  file[16] = static_cast<std::byte>(structural);
  out.Raw(AsBytes(payloads));
  for (const auto& [kind, content] : sections) {
    out.Raw(content);
    entries.Int<uint8_t>(kind);
    entries.Int<uint64_t>(content.size());
    entries.Int<uint64_t>(0);
  }
  out.Raw(table);
  out.Int<uint64_t>(payloads.size());
  out.Int<uint32_t>(static_cast<uint32_t>(sections.size()));
  file.resize(file.size() + 16);
  return file;
}

void Decode(const Patch& patch) {
  const auto placed = patch.Place(Target());
  if (!placed) return;
  uint64_t changed = 0;
  for (const PlacedBlock& block : *placed) {
    const auto unit = static_cast<uint64_t>(DTypeUnit(block.dtype));
    std::vector<Bytes> old;
    uint64_t units = 0;
    for (const BlockRun& run : block.runs) {
      const LayoutTensor& tensor = Target().tensors()[run.tensor];
      FUZZ_CHECK(tensor.dtype == block.dtype && run.units > 0 && run.first_unit + run.units <= tensor.units());
      units += run.units;
      old.emplace_back(run.units * unit);
    }
    FUZZ_CHECK(units == block.units);
    changed += block.entry.changed;
    const auto parts = patch.Decode(block, Target(), std::vector<ByteSpan>(old.begin(), old.end()));
    if (!parts) continue;
    uint64_t count = 0;
    bool all = false;
    for (const RunChanges& part : *parts) {
      FUZZ_CHECK(!part.changes.all || part.changes.count() == part.run.units);
      all = part.changes.all;
      count += part.changes.count();
      Bytes run(part.run.units * unit);
      for (const uint32_t position : part.changes.positions) FUZZ_CHECK(position < part.run.units);
      ApplyBlock(part.changes, run.data());
      FUZZ_CHECK(part.moved == DigestWordsScalar(run, part.run.first_unit * unit / 8) -
                                   DigestWordsScalar(Bytes(run.size()), part.run.first_unit * unit / 8));
    }
    FUZZ_CHECK(count == (all ? block.units : block.entry.changed));
  }
  FUZZ_CHECK(changed == patch.info().changed);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  skerry::Bytes file;
  if (input.ConsumeBool()) {  // takes the last byte
    file = skerry::Build(input);
  } else {
    file = skerry::ToBytes(std::as_bytes(std::span(data, size - (size > 0))));
  }
  skerry::Repair(file);
  if (const auto patch = skerry::Patch::FromBytes(std::move(file))) skerry::Decode(*patch);
  return 0;
}
