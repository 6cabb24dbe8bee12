// The documents of a board, each fetched once, checked and read: what they say about other objects is known from then
// on.
#ifndef SKERRY_RELAY_DOCUMENTS_H_
#define SKERRY_RELAY_DOCUMENTS_H_

#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "skerry/relay/board_object.h"
#include "skerry/relay/digest_list.h"
#include "skerry/relay/disk_cache.h"
#include "skerry/relay/known_objects.h"
#include "skerry/relay/upstreams.h"

namespace skerry {

struct Document {
  using Time = std::chrono::steady_clock::time_point;
  Bytes bytes;
  Digest sha256;
  Time expires = Time::max();  // when it is to be asked for again
};
using SharedDocument = std::shared_ptr<const Document>;

// Which bytes are the right ones:
//   - by the SHA-256 that a head, manifest or anchor names which was itself found so, else by the digits of its key;
//   such a
//     document is good for ever
//   - an alias of a manifest that nothing has led to must be one of this run and version; it is good for kShortTime, as
//     are board.json and run.json, which have no digest. These are given stale while no upstream answers
// A manifest or anchor that this program is too old for is passed on, but nothing is learned from it. Thread-safe.
class Documents {
 public:
  static constexpr std::chrono::seconds kShortTime{30};

  Documents(Upstreams& upstreams, DiskCache& disk, RelayMetrics& metrics);

  // `object` is of a kind that is a document, and no head. Blocks while it is fetched, once for all who ask.
  Result<SharedDocument> Get(const std::string& key, const BoardObject& object);
  // A head was seen, which names manifests.
  void Learn(const Head& head);
  // What is known about an object; where nothing is, the manifest or anchor of its version is read first.
  std::optional<KnownObject> WhatIsKnown(const std::string& key, const BoardObject& object);

 private:
  using Pending = std::shared_future<Result<SharedDocument>>;
  static constexpr size_t kMostInMemory = 256;
  static constexpr size_t kLargestInMemory = 1 << 20;

  SharedDocument InMemory(const std::string& key) const;
  Result<SharedDocument> Look(const std::string& key, const BoardObject& object);
  Result<SharedDocument> OnDisk(const std::string& key, const BoardObject& object);
  Result<SharedDocument> Fetch(const std::string& key, const BoardObject& object);
  // Checks and reads it: the document, or what is wrong with the bytes (kCorrupt).
  Result<SharedDocument> Read(const std::string& key, const BoardObject& object, Bytes bytes);
  Status ReadManifest(const BoardObject& object, ByteSpan bytes, bool certain);
  Status ReadAnchor(const BoardObject& object, ByteSpan bytes, bool certain);
  Status ReadBoardInfo(ByteSpan bytes);
  void LearnFromOwner(const BoardObject& object);
  void Keep(const std::string& key, bool named_by_content, const Document& document);

  Upstreams& upstreams_;
  DiskCache& disk_;
  RelayMetrics& metrics_;
  KnownObjects known_;
  DigestList kept_;  // of what lies on the disk under a name that says nothing of the bytes

  mutable std::mutex mutex_;
  std::map<std::string, Pending> pending_;           // guarded by mutex_, like all below
  std::map<std::string, SharedDocument> documents_;  // those that came last
  std::deque<std::string> order_;
  std::map<RunId, Head> heads_;
  std::string board_id_;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_DOCUMENTS_H_
