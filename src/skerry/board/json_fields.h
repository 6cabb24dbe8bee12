// Strict reading of the board's small JSON objects from untrusted bytes. Included by the .cc files of this folder only.
#ifndef SKERRY_BOARD_JSON_FIELDS_H_
#define SKERRY_BOARD_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"

namespace skerry {

// One JSON object. kCorrupt, naming `what`: more than `max_bytes`, malformed or trailing bytes, a key twice in one
// object (most parsers silently keep one of them), nesting deeper than 16.
Result<nlohmann::json> ParseJsonObject(ByteSpan bytes, uint64_t max_bytes, std::string_view what);

// The compact text with sorted keys. kInvalid, naming `what`, when some string is not UTF-8.
Result<Bytes> DumpJson(const nlohmann::json& value, std::string_view what);

// A checked view of an object's fields. The first error is kept in the reader that all views of one document share;
// after it, fields read as empty values. Check Status() once, at the end, before using what was read.
class JsonFields {
 public:
  // `error` and `value` outlive the view. `where` names the object in messages: "manifest", "manifest.edges[2]".
  JsonFields(const nlohmann::json& value, std::string where, std::optional<Error>& error);

  // Present and not null.
  bool Has(std::string_view name) const;
  // kUnsupported when the field "format" is larger than `supported`, kCorrupt when it is 0.
  void CheckFormat(uint64_t supported);

  uint64_t Unsigned(std::string_view name, uint64_t max = UINT64_MAX);
  std::string Text(std::string_view name, size_t max_size);
  // 1-128 letters, digits, '.', '_', '-' and ':'.
  std::string Token(std::string_view name);
  Digest Sha256(std::string_view name);
  Version VersionNumber(std::string_view name) { return Version(Unsigned(name, Version::kMax)); }
  RunId Run(std::string_view name);
  JsonFields Object(std::string_view name);
  std::vector<JsonFields> Objects(std::string_view name, size_t max_count);
  std::vector<std::string> Tokens(std::string_view name, size_t max_count);

  // Records an error of this object's meaning, if there is none yet.
  void Refuse(Code code, std::string message);
  void RefuseUnless(const Status& status, std::string_view name);
  Status status() const;
  const std::string& where() const { return where_; }

 private:
  // The field's value; a shared null when it is missing.
  const nlohmann::json& Field(std::string_view name) const;
  void RefuseField(std::string_view name, std::string_view wanted);
  const nlohmann::json* List(std::string_view name, size_t max_count);

  const nlohmann::json* value_;
  std::string where_;
  std::optional<Error>* error_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_JSON_FIELDS_H_
