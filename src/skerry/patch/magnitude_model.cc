#include "skerry/patch/magnitude_model.h"

namespace skerry {

void MagnitudeModel::Serialize(ByteWriter& writer) const {
  writer.Int<uint8_t>(static_cast<uint8_t>(classes_.count() - 1));
  uint64_t shared = 0;
  for (int c = 1; c < classes_.count(); ++c) {
    writer.Varint(classes_.lowest(c) - classes_.lowest(c - 1));
    if (table_of_[static_cast<size_t>(c)] == table_of_[static_cast<size_t>(c - 1)]) shared |= uint64_t{1} << c;
  }
  writer.Varint(shared);
  for (const SymbolTable& table : tables_) table.Serialize(writer);
}

Result<MagnitudeModel> MagnitudeModel::Parse(ByteReader& reader, const MagnitudeView& view) {
  const int count = reader.Int<uint8_t>() + 1;
  if (count > kMaxClasses) return Fail(Code::kCorrupt, "{} magnitude classes, more than {}", count, kMaxClasses);
  std::vector<uint64_t> lowest;
  uint64_t bound = 0;
  for (int c = 1; c < count; ++c) {
    const uint64_t distance = reader.Varint();
    if (distance > view.mask) return Fail(Code::kCorrupt, "magnitude class {} lies beyond its dtype", c);
    bound += distance;  // at most 16 times 2^63: no class of 64 bits gets past the check below by wrapping
    lowest.push_back(bound);
    if (!MagnitudeClasses::AreValid(view, lowest)) {
      return Fail(Code::kCorrupt, "magnitude class {} begins at {:#x}, not above the last one and within {:#x}", c,
                  bound, view.mask);
    }
  }
  const uint64_t shared = reader.Varint();
  if (!reader.ok() || (shared & 1) != 0 || shared >> count != 0) {
    return Fail(Code::kCorrupt, "malformed magnitude classes");
  }
  std::vector<SymbolTable> tables;
  std::vector<uint8_t> table_of;
  for (int c = 0; c < count; ++c) {
    if ((shared >> c & 1) == 0) {
      SKERRY_ASSIGN(SymbolTable table, SymbolTable::Parse(reader));
      tables.push_back(table);
    }
    table_of.push_back(static_cast<uint8_t>(tables.size() - 1));
  }
  return MagnitudeModel(MagnitudeClasses(view, lowest), std::move(tables), std::move(table_of));
}

}  // namespace skerry
