#include "skerry/publish/publisher.h"

#include <cstdlib>

#include "skerry/publish/publication.h"

namespace skerry {

struct Publisher::Impl {
  Impl(const Board& b, const RunId& r, const Path& directory, FileLock l, PublisherState s)
      : board(b),
        run(r),
        state_directory(directory),
        lock(std::move(l)),
        state(std::move(s)),
        snapshot(directory / "snapshot") {}

  Result<PublishReceipt> Publish(const Target& target, const PublishOptions& options, const Clock& clock,
                                 Progress& progress) {
    return Publication(board, run, state_directory, state, snapshot, target, options, clock, progress).Run();
  }

  const Board board;
  const RunId run;
  const Path state_directory;
  const FileLock lock;
  PublisherState state;
  Snapshot snapshot;
};

Publisher::Publisher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Publisher::Publisher(Publisher&&) noexcept = default;
Publisher::~Publisher() = default;

Result<Publisher> Publisher::Open(const Board& board, const RunId& run, const Path& state_directory) {
  SKERRY_ASSIGN(FileLock lock, TakeStateDirectory(state_directory));
  SKERRY_ASSIGN(PublisherState state, PublisherState::Open(state_directory, board.id(), run));
  return Publisher(std::make_unique<Impl>(board, run, state_directory, std::move(lock), std::move(state)));
}

Result<PublishReceipt> Publisher::Publish(const Checkpoint& checkpoint, const PublishOptions& options,
                                          const Clock& clock, Progress& progress) {
  return impl_->Publish(Target(checkpoint), options, clock, progress);
}

Result<PublishReceipt> Publisher::Publish(const Capture& capture, const PublishOptions& options, const Clock& clock,
                                          Progress& progress) {
  return impl_->Publish(Target(capture), options, clock, progress);
}

Result<Capture> Publisher::BeginCapture(int threads, bool takes_over, const Clock& clock, Progress& progress) {
  Release release(impl_->board, impl_->run, impl_->state, clock);
  SKERRY_TRY(release.Begin(/*look=*/false, takes_over));
  if (release.from_note() && !impl_->snapshot.IsAt(release.head())) {
    // Since it takes long anyway: not to a version that is not the head's any more.
    SKERRY_TRY(release.Begin(/*look=*/true, takes_over));
  }
  SKERRY_TRY(impl_->snapshot.Prepare(impl_->board, release.head(), /*from_scratch=*/false, threads, progress));
  SKERRY_TRY(release.Note());
  return Capture(impl_->snapshot.checkpoint(), impl_->snapshot.generation(), threads);
}

std::optional<Head> Publisher::head() const {
  const std::optional<Position>& position = impl_->state.position();
  return position ? std::optional<Head>(position->at.head) : std::nullopt;
}

Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const PublishOptions& options, const Clock& clock, Progress& progress) {
  SKERRY_ASSIGN(Publisher publisher, Publisher::Open(board, run, options.state_directory));
  return publisher.Publish(checkpoint, options, clock, progress);
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
