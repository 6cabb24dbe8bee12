// The making of one version in all views of a run at once.
#ifndef SKERRY_PUBLISH_VERSION_PUBLICATION_H_
#define SKERRY_PUBLISH_VERSION_PUBLICATION_H_

#include <memory>
#include <vector>

#include "skerry/publish/publication.h"

namespace skerry {

// One call of Publisher::Publish; publisher.h says its steps. Each is taken in all views before the next one, and there
// is one head: readers of all views see the version at the same instant, or never.
class VersionPublication {
 public:
  // `views[i]` is published as `targets[i]`: first the run's own, then its further views, sorted by name. Refers to
  // all.
  VersionPublication(const std::vector<std::unique_ptr<ViewState>>& views, const std::vector<Target>& targets,
                     const PublishOptions& options, const Clock& clock, Progress& progress);

  Result<PublishReceipt> Run();

 private:
  // Nothing, when the note of where the head is turned out to be untrue: then it is to be tried again with a `look`.
  Result<std::optional<PublishReceipt>> Try(bool look);
  Status Begin(bool look);
  bool AllAtTheSameHead() const;
  Status CheckViews() const;
  Result<bool> TakenAlready();
  std::vector<std::vector<size_t>> SharedTensors() const;
  Status Make();
  Status InView(size_t view, const Error& error) const;
  Status Release();
  PublishReceipt Receipt();

  const std::vector<std::unique_ptr<ViewState>>& views_;
  const std::vector<Target>& targets_;
  const PublishOptions& options_;
  const Clock& clock_;
  Progress& progress_;
  std::vector<std::unique_ptr<Publication>> all_;  // own() first
  Publication& own() const { return *all_.front(); }
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_VERSION_PUBLICATION_H_
