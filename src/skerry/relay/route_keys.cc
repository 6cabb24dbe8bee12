#include "skerry/relay/route_keys.h"

#include "skerry/base/log.h"
#include "skerry/board/board.h"
#include "skerry/board/keys.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

// The documents as a store, for who reads manifests.
class DocumentStore : public Store {
 public:
  explicit DocumentStore(Documents& documents) : documents_(documents) {}

  std::string Describe() const override { return "the relay's documents"; }
  Result<Object> Get(std::string_view key, uint64_t limit) override {
    SKERRY_ASSIGN(const SharedDocument document, Read(key));
    if (document->bytes.size() > limit) return Fail(Code::kCorrupt, "{} has more than {} bytes", key, limit);
    return Object{document->bytes, Generation(document->sha256.Hex())};
  }
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override {
    SKERRY_ASSIGN(const SharedDocument document, Read(key));
    if (offset > document->bytes.size() || out.size() > document->bytes.size() - offset) {
      return Fail(Code::kCorrupt, "{} has {} bytes, but {} at {} were asked for", key, document->bytes.size(),
                  out.size(), offset);
    }
    std::copy_n(document->bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    SKERRY_ASSIGN(const SharedDocument document, Read(key));
    return ObjectInfo{.size = document->bytes.size()};
  }
  Status PutIfAbsent(std::string_view, const ByteSource&) override { return ReadOnly(); }
  Result<Generation> CompareAndSwap(std::string_view, const std::optional<Generation>&, ByteSpan) override {
    return ReadOnly();
  }
  Status Delete(std::string_view) override { return ReadOnly(); }
  Result<std::vector<std::string>> List(std::string_view) override { return ReadOnly(); }

 private:
  Result<SharedDocument> Read(std::string_view key) {
    const auto object = ReadBoardKey(key);
    if (!object || object->kind == ObjectKind::kData || object->kind == ObjectKind::kHead) {
      return Fail(Code::kNotFound, "{} is no document", key);
    }
    return documents_.Get(std::string(key), *object);
  }
  static tl::unexpected<Error> ReadOnly() { return Fail(Code::kUnsupported, "a relay only reads"); }

  Documents& documents_;
};

Result<std::vector<std::string>> Keys(Documents& documents, const Head& head, const RunId& run) {
  const Board board = Board::Known(std::make_shared<DocumentStore>(documents), BoardInfo{.id = "relay"});
  SKERRY_ASSIGN(const Head seen, head.OfView(run.view()));
  SKERRY_ASSIGN(const Manifest newest, board.ReadManifest(seen, seen.version));
  std::vector<std::string> keys{BoardKey(), seen.manifest.key, LayoutKey(run, newest.layout)};
  const auto add = [&](const ObjectRef& object) {
    if (!object.key.empty()) keys.push_back(object.key);
  };
  for (const Edge& edge : newest.edges) {
    if (edge.kind != "delta") continue;
    for (const PatchPart& part : edge.parts) add(part.object);
  }
  const auto route = PlanRoute(board, seen, seen.version, std::nullopt, RouteCosts{});
  if (!route) return keys;  // told by who asks for it
  for (auto hop = route->hops.rbegin(); hop != route->hops.rend(); ++hop) {
    keys.push_back(ManifestKey(hop->to.run, hop->to.version));
    for (const PatchPart& part : hop->edge.parts) add(part.object);
  }
  if (!route->anchor) return keys;
  keys.push_back(ManifestKey(route->anchor->manifest.run, route->anchor->manifest.version));
  add(route->anchor->anchor.object);
  const auto anchor = board.ReadAnchor(route->anchor->manifest.run, route->anchor->anchor);
  if (!anchor) return keys;
  for (const AnchorFile& file : anchor->files) add(file.object);
  for (const PatchPart& part : anchor->parts) add(part.object);
  return keys;
}

}  // namespace

std::vector<std::string> RouteKeys(Documents& documents, const Head& head, const RunId& run) {
  auto keys = Keys(documents, head, run);
  if (!keys && keys.error().code != Code::kInterrupted) {
    LogWarning("the way to version {} of run {} is not known: {}", head.version, run, keys.error().message);
  }
  return keys ? *std::move(keys) : std::vector<std::string>{};
}

}  // namespace skerry
