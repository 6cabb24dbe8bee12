// What a patch says about one dtype's `sparse-magnitude` blocks: the classes, and a table of value steps for each.
#ifndef SKERRY_PATCH_MAGNITUDE_MODEL_H_
#define SKERRY_PATCH_MAGNITUDE_MODEL_H_

#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/patch/magnitude_classes.h"
#include "skerry/patch/symbol_table.h"

namespace skerry {

class MagnitudeModel {
 public:
  // Class c uses tables[table_of[c]]; neighbouring classes may share one, so table_of rises from 0 by 0 or 1.
  MagnitudeModel(MagnitudeClasses classes, std::vector<SymbolTable> tables, std::vector<uint8_t> table_of)
      : classes_(classes), tables_(std::move(tables)), table_of_(std::move(table_of)) {}

  const MagnitudeClasses& classes() const { return classes_; }
  const SymbolTable& values(int c) const { return tables_[table_of_[static_cast<size_t>(c)]]; }

  // In a patch: u8 classes - 1, a varint for each bound's distance from the last one, a varint whose bit c is set where
  // class c uses the table of class c - 1, and the tables of the other classes.
  void Serialize(ByteWriter& writer) const;
  static Result<MagnitudeModel> Parse(ByteReader& reader, const MagnitudeView& view);

 private:
  MagnitudeClasses classes_;
  std::vector<SymbolTable> tables_;
  std::vector<uint8_t> table_of_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_MAGNITUDE_MODEL_H_
