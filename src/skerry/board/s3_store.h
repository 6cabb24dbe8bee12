// A board in a bucket of S3 or of a server that speaks its language.
#ifndef SKERRY_BOARD_S3_STORE_H_
#define SKERRY_BOARD_S3_STORE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/board/store.h"
#include "skerry/s3/client.h"

namespace skerry {

// Objects are <prefix>/<key> in one bucket. A generation is the object's ETag verbatim (or Google's generation number).
// Thread-safe; operations of several threads run at once.
//
// Deviations: an object larger than S3Options::part_bytes is uploaded in parts, which no condition protects on most
// servers. Two writers of one such key with different bytes may both succeed, and the last one's bytes stay. Keys of
// big objects therefore hold the digest of their content.
class S3Store : public Store {
 public:
  // `prefix` is empty or a valid key. Asks the server nothing.
  static Result<std::shared_ptr<S3Store>> Open(S3Options options, std::string prefix);

  std::string Describe() const override;
  Result<Object> Get(std::string_view key, uint64_t limit) override;
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override;
  Status ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                          const std::function<void(uint64_t)>& told) override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override;
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override;
  Status Delete(std::string_view key) override;
  Result<std::vector<std::string>> List(std::string_view prefix) override;
  Result<std::vector<std::string>> ListNames(std::string_view prefix) override;
  // Aborts uploads below the prefix.
  Result<uint64_t> SweepLeftovers(std::chrono::seconds older_than) override;
  std::string DescribeTokens() const override;
  bool GenerationsRepeatWithContent() const override;

 private:
  // The form of an ETag that the server's If-Match takes. Amazon's is the quoted one, as it was sent; radosgw 16 never
  // matches it, only the text between the quotes.
  enum class TokenForm { kUnknown, kVerbatim, kBare };
  class Swap;

  S3Store(std::shared_ptr<S3Client> client, std::string prefix);

  Result<std::string> NameOf(std::string_view key) const;
  // Whether the object has these bytes: kConflict when not.
  Status CompareWithExisting(std::string_view key, const ByteSource& source);

  const std::shared_ptr<S3Client> client_;
  const std::string prefix_;  // empty, or ends in '/'
  std::atomic<TokenForm> token_form_ = TokenForm::kUnknown;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_S3_STORE_H_
