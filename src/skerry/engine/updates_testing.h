// A small model that moves from version to version, as updates for an engine.
#ifndef SKERRY_ENGINE_UPDATES_TESTING_H_
#define SKERRY_ENGINE_UPDATES_TESTING_H_

#include <string>
#include <vector>

#include "skerry/board/names.h"
#include "skerry/engine/engine.h"
#include "skerry/tensors/tensor_source.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {

inline Digest ModelOf(const Path& checkpoint) {
  const Checkpoint opened = Must(Checkpoint::Open(checkpoint));
  const std::vector<RunningDigest> digests = Must(DigestTensors(opened, 1, Progress::None()));
  return ModelDigest(opened.layout().tensors_digest(), digests);
}

// Versions 0, 1, 2, … lie in directories of their own below a temporary one.
class MovingModel {
 public:
  explicit MovingModel(const std::string& config = R"({"tie_word_embeddings": false})") : random_(7) {
    model_ = SmallModel(random_);
    std::erase_if(model_.tensors, [](const TestTensor& t) { return t.name.find(".experts.") != std::string::npos; });
    model_.side_files["config.json"] = config;
    Write();
  }

  const Path& boot() const { return directories_.front(); }
  const Path& directory() const { return home_.path(); }
  // The newest version, loaded whole.
  WeightUpdate Whole() const {
    const Version version(directories_.size() - 1);
    return {.label = WeightLabel(RunId::Parse("grpo").value(), version),
            .version = version,
            .model = ModelOf(directories_.back()),
            .checkpoint = directories_.back()};
  }
  // A new version.
  WeightUpdate Step() {
    before_ = model_;
    model_.Nudge(0.01, random_);
    Write();
    return Whole();
  }
  // A new version, as changes to the one before it.
  WeightUpdate StepWithChanges() {
    const std::string from = Whole().label;
    WeightUpdate update = Step();
    std::vector<TestTensor> positions;
    for (const TestTensor& now : model_.tensors) {
      const TestTensor& old = before_[now.name];
      std::vector<uint32_t> indices;
      for (size_t unit = 0; unit < now.units(); ++unit) {
        const auto at = [&](const TestTensor& tensor) {
          return ByteSpan(tensor.bytes).subspan(unit * now.unit(), now.unit());
        };
        if (AsText(at(now)) != AsText(at(old))) indices.push_back(static_cast<uint32_t>(unit));
      }
      const uint64_t count = indices.size();
      if (count > 0) positions.push_back(BitsTensor<uint32_t>(now.name, DType::kU32, {count}, indices));
    }
    update.changes = ChangedElements{.from = from, .positions = home_ / "positions", .tensors = positions.size()};
    WriteSafetensors(update.changes->positions, positions);
    return update;
  }

 private:
  void Write() {
    directories_.push_back(home_ / fmt::format("v{}", directories_.size()));
    WriteCheckpoint(model_, directories_.back());
  }

  TempDir home_;
  Random random_;
  TestModel model_, before_;
  std::vector<Path> directories_;
};

// All calls of an update in their order.
inline Status Move(Engine& engine, const WeightUpdate& update, PausePolicy policy = PausePolicy::kInPlace) {
  SKERRY_TRY(engine.Prepare(update));
  SKERRY_TRY(engine.Pause(policy));
  SKERRY_TRY(engine.Load(update));
  SKERRY_TRY(engine.ResetCache());
  SKERRY_TRY(engine.Verify(update));
  return engine.Resume();
}

// What has to be asked before the first update.
inline Status Attach(Engine& engine, const Path& checkpoint) {
  SKERRY_TRY(engine.Probe());
  SKERRY_ASSIGN(const Checkpoint opened, Checkpoint::Open(checkpoint));
  return engine.Check(opened);
}

}  // namespace skerry

#endif  // SKERRY_ENGINE_UPDATES_TESTING_H_
