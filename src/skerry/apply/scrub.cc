#include "skerry/apply/scrub.h"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "skerry/apply/journal.h"

namespace skerry {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr int kPatientRestarts = 3;

// Tells one state file from the one that replaces it.
struct FileIdentity {
  uint64_t inode = 0;
  int64_t seconds = 0, nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity IdentityOf(const Path& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

}  // namespace

uint64_t ScrubPace::Due(std::chrono::steady_clock::time_point now) {
  const auto since = last_ ? now - *last_ : std::chrono::steady_clock::duration::zero();
  last_ = now;
  const double seconds = std::clamp(std::chrono::duration<double>(since).count(), 0.0, 1.0);
  return static_cast<uint64_t>(seconds * static_cast<double>(rate_));
}

struct Scrubber::Subject {
  FileIdentity identity;
  CheckpointState state;
  Checkpoint checkpoint;
  std::map<std::string, Digest> side_files;  // as seen first, or as expected
  std::vector<std::string> side_file_names;  // that are looked at: those that are there, or those that are expected
  size_t tensor = 0;                         // that is being read
  uint64_t offset = 0;                       // up to which it was read
  RunningDigest sum;
  size_t side_file = 0;  // the next one, after the tensors

  // A file that the manifest names and that is not there is a finding. What it does not name came from elsewhere and is
  // nobody's matter.
  void Expect(const std::map<std::string, Digest>& files) {
    side_files = files;
    side_file_names.clear();
    for (const auto& [path, digest] : files) side_file_names.push_back(path);
    side_file = 0;
  }

  void NextTensor() {
    offset = 0;
    sum = {};
    ++tensor;
  }
};

Scrubber::Scrubber(Path directory, Path state_directory)
    : directory_(std::move(directory)), state_directory_(std::move(state_directory)) {}

void Scrubber::ExpectSideFiles(const VersionLabel& label, const std::vector<SideFile>& files) {
  expected_label_ = label;
  expected_.clear();
  for (const SideFile& file : files) expected_[file.path] = file.sha256;
  if (subject_ && subject_->state.label == label) subject_->Expect(expected_);
}

// Whether the files are still those that `subject_` was opened for. A writer commits its journal before it writes, and
// replaces the state before it removes the journal: so no journal and the same state mean that nothing was written
// since. In this order.
bool Scrubber::Unmoved() const {
  return !JournalExists(state_directory_) && IdentityOf(state_directory_ / kStateName) == subject_->identity;
}

Status Scrubber::Open() {
  const auto last = std::move(subject_);
  subject_ = nullptr;
  if (JournalExists(state_directory_)) {
    return Fail(Code::kUnavailable, "{}: an apply is at work or was interrupted", directory_.string());
  }
  auto subject = std::make_shared<Subject>();
  subject->identity = IdentityOf(state_directory_ / kStateName);
  SKERRY_ASSIGN(std::optional<CheckpointState> state, ReadState(state_directory_));
  if (!state) return Fail(Code::kNotFound, "{} holds no checkpoint with a state", directory_.string());
  subject->state = *std::move(state);
  auto checkpoint = Checkpoint::Open(directory_);
  subject_ = subject;
  const bool unmoved = Unmoved();
  subject_ = nullptr;
  if (!unmoved) return Fail(Code::kUnavailable, "{} moves just now", directory_.string());
  if (!checkpoint) {
    return Fail(Code::kCorrupt, "{}: {}", directory_.string(), checkpoint.error().message);
  }
  subject->checkpoint = *std::move(checkpoint);
  const Layout& layout = subject->checkpoint.layout();
  if (layout.digest() != subject->state.layout || layout.tensors().size() != subject->state.tensors.size()) {
    return Fail(Code::kCorrupt, "{}: headers and index give layout {}, but its state says {}", directory_.string(),
                layout.digest().Short(), subject->state.layout.Short());
  }
  for (const SideFileInfo& file : subject->checkpoint.side_files()) subject->side_file_names.push_back(file.path);
  if (expected_label_ == subject->state.label) subject->Expect(expected_);
  if (last) GoOn(*last, *subject);
  subject_ = std::move(subject);
  return {};
}

// Where the last one was, so that a checkpoint that moves often is seen whole too.
void Scrubber::GoOn(const Subject& last, Subject& next) {
  const bool same_version = last.state.label == next.state.label && last.state.model == next.state.model;
  if (next.side_files.empty() && same_version) next.side_files = last.side_files;
  if (last.state.layout != next.state.layout) return;
  next.tensor = last.tensor;
  if (same_version) next.side_file = last.side_file;
  if (next.tensor == next.state.tensors.size()) return;
  if (last.state.tensors[last.tensor] == next.state.tensors[next.tensor]) {
    next.offset = last.offset;
    next.sum = last.sum;
  } else if (last.offset > 0) {
    ++restarts_;
  }
}

// The rest of the tensor at hand, up to `bytes`; at its end, the comparison.
Status Scrubber::ReadTensor(uint64_t bytes, ScrubStep& step) {
  Subject& subject = *subject_;
  const LayoutTensor& tensor = subject.checkpoint.layout().tensors()[subject.tensor];
  if (restarts_ > kPatientRestarts) bytes = tensor.bytes;
  Bytes scratch;
  while (subject.offset < tensor.bytes && bytes > 0) {
    const uint64_t length = std::min(kChunkBytes, tensor.bytes - subject.offset);
    SKERRY_ASSIGN(const ByteSpan read, subject.checkpoint.Read(subject.tensor, subject.offset, length, scratch));
    subject.sum += DigestWords(read, subject.offset / 8);
    subject.offset += length;
    step.bytes += length;
    bytes -= std::min(bytes, length);
  }
  if (subject.offset < tensor.bytes) return {};
  const Status there = subject.checkpoint.Check();
  if (!Unmoved()) return {};  // the next call opens what is there then
  const size_t ordinal = subject.tensor;
  const RunningDigest sum = subject.sum;
  subject.NextTensor();
  restarts_ = 0;
  const RunningDigest& known = subject.state.tensors[ordinal];
  if (there && sum == known) return {};
  return Fail(Code::kCorrupt, "{}: tensor '{}' in {} has digest {:016x}{:016x}, but its state says {:016x}{:016x}{}",
              directory_.string(), tensor.name, subject.checkpoint.layout().files()[tensor.file].name, sum.a, sum.b,
              known.a, known.b, there ? "" : ": " + there.error().message);
}

Status Scrubber::ReadSideFile(ScrubStep& step) {
  Subject& subject = *subject_;
  const std::string name = subject.side_file_names[subject.side_file];
  const auto content = ReadFile(directory_ / name, kMaxSideFileBytes);
  if (!Unmoved()) return {};
  ++subject.side_file;
  if (!content) return Fail(Code::kCorrupt, "{}", content.error().message);
  step.bytes += content->size();
  const Digest digest = Sha256::Of(*content);
  const bool from_manifest = expected_label_ == subject.state.label;
  const auto known = subject.side_files.emplace(name, digest).first;
  if (known->second == digest) return {};
  return Fail(Code::kCorrupt, "{}: SHA-256 is {}, but {} {}", (directory_ / name).string(), digest.Hex(),
              from_manifest ? "its version's manifest says" : "it was", known->second.Hex());
}

Result<ScrubStep> Scrubber::ScrubSome(uint64_t bytes) {
  ScrubStep step;
  if (!subject_ || !Unmoved()) SKERRY_TRY(Open());
  while (step.bytes < bytes) {
    const size_t tensors = subject_->checkpoint.layout().tensors().size();
    if (subject_->tensor < tensors) {
      SKERRY_TRY(ReadTensor(bytes - step.bytes, step));
    } else if (subject_->side_file < subject_->side_file_names.size()) {
      SKERRY_TRY(ReadSideFile(step));
    } else {
      subject_->tensor = 0;
      subject_->side_file = 0;
      ++rounds_;
      step.round_done = true;
      return step;
    }
    if (!Unmoved()) return step;
  }
  return step;
}

}  // namespace skerry
