#include "skerry/relay/known_objects.h"

#include <utility>

#include "skerry/board/keys.h"

namespace skerry {

void KnownObjects::Add(std::string key, const Digest& sha256, std::optional<uint64_t> size) {
  if (key.empty()) return;  // an object outside of the board
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = known_.try_emplace(key, KnownObject{sha256, size});
  if (!is_new) {
    at->second = {sha256, size ? size : at->second.size};
    return;
  }
  order_.push_back(std::move(key));
  if (order_.size() <= kMost) return;
  known_.erase(order_.front());
  order_.pop_front();
}

void KnownObjects::Add(const ObjectRef& object) { Add(object.key, object.sha256, object.size); }

void KnownObjects::AddManifest(const RunId& run, Version version, const Digest& sha256) {
  Add(ManifestKey(run, version), sha256, std::nullopt);
  Add(StagedManifestKey(run, version, sha256), sha256, std::nullopt);
}

void KnownObjects::Learn(const Head& head) {
  Add(head.manifest.key, head.manifest.sha256, std::nullopt);
  AddManifest(head.run, head.version, head.manifest.sha256);
  for (const ViewHead& view : head.views) {
    Add(view.manifest.key, view.manifest.sha256, std::nullopt);
    if (const auto run = head.run.View(view.view)) AddManifest(*run, head.version, view.manifest.sha256);
  }
}

void KnownObjects::Learn(const Manifest& manifest) {
  Add(manifest.tensor_digests);
  for (const Edge& edge : manifest.edges) {
    for (const PatchPart& part : edge.parts) Add(part.object);
  }
  for (const AnchorRef& anchor : manifest.anchors) Add(anchor.object);
  if (manifest.parent) AddManifest(manifest.run, manifest.version.Previous(), *manifest.parent);
  if (manifest.fork) AddManifest(manifest.fork->run, manifest.fork->version, manifest.fork->manifest);
  for (const ViewManifest& view : manifest.views) {
    if (const auto run = manifest.run.View(view.view)) AddManifest(*run, manifest.version, view.manifest);
  }
}

void KnownObjects::Learn(const Anchor& anchor) {
  for (const AnchorFile& file : anchor.files) Add(file.object);
  for (const PatchPart& part : anchor.parts) Add(part.object);
}

std::optional<KnownObject> KnownObjects::Find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace skerry
