#include "skerry/publish/publisher.h"

#include <cstdlib>

#include "skerry/base/temporary.h"
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
  SKERRY_TRY(MakeDirectories(state_directory));
  auto lock = FileLock::TryAcquire(state_directory / "lock");
  if (!lock && lock.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "another publisher is at work with state directory {}", state_directory.string());
  }
  if (!lock) return tl::unexpected<Error>(std::move(lock).error());
  SweepTemporaries(state_directory);
  SKERRY_ASSIGN(PublisherState state, PublisherState::Open(state_directory, board.id(), run));
  return Publisher(std::make_unique<Impl>(board, run, state_directory, *std::move(lock), std::move(state)));
}

Result<PublishReceipt> Publisher::Publish(const Checkpoint& checkpoint, const PublishOptions& options,
                                          const Clock& clock, Progress& progress) {
  return Publication(impl_->board, impl_->run, impl_->state_directory, impl_->state, impl_->snapshot, checkpoint,
                     options, clock, progress)
      .Run();
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
