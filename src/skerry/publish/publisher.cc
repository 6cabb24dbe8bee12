#include "skerry/publish/publisher.h"

#include <cstdlib>
#include <set>

#include "skerry/publish/version_publication.h"

namespace skerry {

struct Publisher::Impl {
  ViewState& own() const { return *views.front(); }

  // kInvalid names the views that there are.
  Result<ViewState*> Find(std::string_view view) const {
    for (const auto& one : views) {
      if (one->run.view() == view) return one.get();
    }
    return Fail(Code::kInvalid, "this publisher of run {} was not opened with a view '{}'", own().run, view);
  }

  // A target for each view.
  template <typename Source>
  Result<PublishReceipt> Publish(const Source& source,
                                 const std::map<std::string, const Source*, std::less<>>& of_views,
                                 const PublishOptions& options, const Clock& clock, Progress& progress) {
    std::vector<Target> targets = {Target(source)};
    for (const auto& [view, of_view] : of_views) {
      SKERRY_TRY(Find(view));
      targets.emplace_back(*of_view);
    }
    if (targets.size() != views.size()) {
      return Fail(Code::kInvalid, "run {}: weights for {} of its {} further views are given", own().run,
                  targets.size() - 1, views.size() - 1);
    }
    return VersionPublication(views, targets, options, clock, progress).Run();
  }

  std::vector<std::unique_ptr<ViewState>> views;  // first the run's own; the others sorted by name
};

Publisher::Publisher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Publisher::Publisher(Publisher&&) noexcept = default;
Publisher::~Publisher() = default;

Result<Publisher> Publisher::Open(const Board& board, const RunId& run, const Path& state_directory,
                                  const std::vector<std::string>& views) {
  if (run.IsView()) {
    return Fail(Code::kInvalid, "{} is a view of run {}: its versions are published with the run's", run, run.Whole());
  }
  auto impl = std::make_unique<Impl>();
  SKERRY_ASSIGN(impl->views.emplace_back(), ViewState::Open(board, run, state_directory));
  for (const std::string& view : std::set<std::string>(views.begin(), views.end())) {
    SKERRY_ASSIGN(const RunId of_view, run.View(view));
    if (!of_view.IsView()) return Fail(Code::kInvalid, "a further view of run {} has no name", run);
    SKERRY_ASSIGN(impl->views.emplace_back(), ViewState::Open(board, of_view, state_directory / "views" / view));
  }
  return Publisher(std::move(impl));
}

Result<PublishReceipt> Publisher::Publish(const Checkpoint& checkpoint, const ViewCheckpoints& views,
                                          const PublishOptions& options, const Clock& clock, Progress& progress) {
  return impl_->Publish(checkpoint, views, options, clock, progress);
}

Result<PublishReceipt> Publisher::Publish(const Capture& capture, const ViewCaptures& views,
                                          const PublishOptions& options, const Clock& clock, Progress& progress) {
  return impl_->Publish(capture, views, options, clock, progress);
}

Result<Capture> Publisher::BeginCapture(std::string_view view, int threads, bool takes_over, const Clock& clock,
                                        Progress& progress) {
  SKERRY_ASSIGN(ViewState* const state, impl_->Find(view));
  Snapshot& snapshot = state->snapshot;
  Release release(state->board, state->run, state->state, clock);
  SKERRY_TRY(release.Begin(/*look=*/false, takes_over));
  if (release.from_note() && !snapshot.IsAt(release.head())) {
    // Since it takes long anyway: not to a version that is not the head's any more.
    SKERRY_TRY(release.Begin(/*look=*/true, takes_over));
  }
  SKERRY_TRY(snapshot.Prepare(state->board, release.head(), /*from_scratch=*/false, threads, progress));
  SKERRY_TRY(release.Note());
  return Capture(snapshot.checkpoint(), snapshot.generation(), threads);
}

std::optional<Head> Publisher::head() const {
  const std::optional<Position>& position = impl_->own().state.position();
  return position ? std::optional<Head>(position->at.head) : std::nullopt;
}

Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const ViewCheckpoints& views, const PublishOptions& options, const Clock& clock,
                               Progress& progress) {
  std::vector<std::string> names;
  for (const auto& [view, of_view] : views) names.push_back(view);
  SKERRY_ASSIGN(Publisher publisher, Publisher::Open(board, run, options.state_directory, names));
  return publisher.Publish(checkpoint, views, options, clock, progress);
}

Result<Path> CacheDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache == nullptr && home == nullptr) {
    return Fail(Code::kInvalid, "neither XDG_CACHE_HOME nor HOME is set: say --state DIR");
  }
  return (cache != nullptr ? Path(cache) : Path(home) / ".cache") / "skerry";
}

Result<Path> DefaultPublisherState(const Board& board, const RunId& run) {
  SKERRY_ASSIGN(const Path cache, CacheDirectory());
  return cache / "publishers" / board.id() / run.str();
}

}  // namespace skerry
