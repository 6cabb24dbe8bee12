// A stand-in for SGLang: its control routes with their replies and traps. It counts what a real one would die or lose
// requests of.
#ifndef SKERRY_ENGINE_SGLANG_CONTRACT_TESTING_H_
#define SKERRY_ENGINE_SGLANG_CONTRACT_TESTING_H_

#include "skerry/base/hash.h"
#include "skerry/engine/contract_server_testing.h"
#include "skerry/engine/fake_memory.h"

namespace skerry {

class SglangContract : public ContractServer {
 public:
  explicit SglangContract(Path boot) : boot_(std::move(boot)) {
    Boot();
    Start();
  }

  void Restart() {
    const std::lock_guard lock(mutex_);
    Boot();
  }
  std::string ServedModel() const {
    const std::lock_guard lock(mutex_);
    return memory_.Model();
  }
  bool paused() const {
    const std::lock_guard lock(mutex_);
    return paused_;
  }
  template <typename Change>
  void Set(Change change) {
    const std::lock_guard lock(mutex_);
    change(*this);
  }

  // Set and read under Set().
  int running = 0;  // requests that hold cache
  int aborted = 0;  // requests that were ended
  int crashes = 0;  // the scheduler would have died
  int flushes = 0;  // of the cache
  bool caches_files = false, knows_server_info = true;
  std::string device = "cuda", token, refusal;

 private:
  using Json = nlohmann::json;

  void Boot() {
    memory_ = {};
    if (!LoadWhole(boot_, memory_)) memory_ = {};
    label_ = "default";
    paused_ = false;
    files_.clear();
    ++starts_;
  }
  void AbortAll() {
    aborted += running;
    running = 0;
  }

  WireAnswer Route(const std::string&, const std::string& path, const std::string&, const Json& body) override {
    if (path == "/metrics") return Answer(200, fmt::format("process_start_time_seconds {}.25\n", starts_));
    if (path == "/model_info") return JsonAnswer({{"model_path", boot_.string()}, {"weight_version", label_}});
    if (path == "/server_info" && knows_server_info) {
      return JsonAnswer({{"version", "0.5"}, {"tp_size", 2}, {"device", device}});
    }
    if (path == "/pause_generation") {
      const std::string mode = body.is_object() ? body.value("mode", "abort") : "abort";
      if (mode == "abort") AbortAll();
      if (mode == "retract") running = 0;
      paused_ = true;
      return JsonAnswer({{"status", "ok"}, {"message", "Generation paused."}});
    }
    if (path == "/continue_generation") {
      paused_ = false;
      return JsonAnswer({{"status", "ok"}});
    }
    if (path == "/flush_cache") {
      if (running > 0) return Answer(400, "Cache not flushed because there are pending requests.");
      ++flushes;
      return Answer(200, "Cache flushed.\n");
    }
    if (path == "/update_weight_version") {
      if (body.value("abort_all_requests", true)) AbortAll();
      label_ = body.at("new_version").get<std::string>();
      return JsonAnswer({{"success", true}, {"message", "ok"}, {"new_version", label_}});
    }
    if (path == "/update_weights_from_disk") return Update(body);
    if (path == "/weights_checker") {
      Json sums;
      for (const auto& [name, tensor] : memory_.tensors) sums[name] = Sha256::Of(ByteSpan(tensor.bytes)).Hex();
      return JsonAnswer({{"success", true}, {"checksums", sums}});
    }
    return FaultyAnswer(WireFault::kNoRoute);
  }

  WireAnswer Update(const Json& body) {
    if (!refusal.empty()) return JsonAnswer({{"success", false}, {"message", refusal}}, 400);
    if (body.value("abort_all_requests", false)) AbortAll();
    if (body.value("flush_cache", true) && running > 0) ++crashes;
    const std::string path = body.at("model_path").get<std::string>();
    if (caches_files && files_.contains(path)) {
      memory_ = files_[path];
    } else {
      memory_ = {};
      if (const Status loaded = LoadWhole(path, memory_); !loaded) {
        return JsonAnswer({{"success", false}, {"message", loaded.error().message}}, 400);
      }
      files_[path] = memory_;
    }
    label_ = body.value("weight_version", label_);
    return JsonAnswer(
        {{"success", true}, {"message", "Succeeded to update model weights."}, {"num_paused_requests", 0}});
  }

  const Path boot_;
  FakeMemory memory_;
  std::string label_;
  bool paused_ = false;
  uint64_t starts_ = 0;
  std::map<std::string, FakeMemory> files_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_SGLANG_CONTRACT_TESTING_H_
