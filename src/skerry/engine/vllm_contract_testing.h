// A stand-in for vLLM 0.32: its control routes with their replies and traps, and the tensors in memory. With `plugin`
// each worker answers the plugin's calls (vllm_plugin.h), else they are a 500, as for any unknown method.
#ifndef SKERRY_ENGINE_VLLM_CONTRACT_TESTING_H_
#define SKERRY_ENGINE_VLLM_CONTRACT_TESTING_H_

#include <optional>

#include "skerry/base/hash.h"
#include "skerry/engine/contract_server_testing.h"
#include "skerry/engine/fake_memory.h"

namespace skerry {

class VllmContract : public ContractServer {
 public:
  struct Worker {
    FakeMemory memory, staged;
    std::string label, prepared, state = "idle", error;
    bool stays_behind = false;  // a worker whose host has other files: commits, but to another label
  };

  VllmContract(Path boot, bool plugin, size_t count = 1) : workers(count), boot_(std::move(boot)), plugin_(plugin) {
    Boot();
    Start();
  }

  void Restart() {
    const std::lock_guard lock(mutex_);
    Boot();
  }
  std::string ServedModel() const {
    const std::lock_guard lock(mutex_);
    return workers.front().memory.Model();
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

  // Set under Set().
  bool dev_mode = true, asleep = false, caches_files = false, blocks_held = false;
  std::string device_type = "cpu", refusal, unsupported;
  std::optional<size_t> answering_workers;
  std::vector<Worker> workers;

 private:
  using Json = nlohmann::json;

  void Boot() {
    for (Worker& worker : workers) {
      worker = {};
      if (!LoadWhole(boot_, worker.memory)) worker.state = "broken";
    }
    label_ = "default";
    paused_ = asleep = false;
    files_.clear();
    ++starts_;
  }

  WireAnswer Route(const std::string& method, const std::string& path, const std::string& query,
                   const Json& body) override {
    if (path == "/version") return JsonAnswer({{"version", "0.32.0"}});
    if (path == "/v1/models") return JsonAnswer({{"data", {{{"id", "m"}, {"root", boot_.string()}}}}});
    if (path == "/metrics") {
      return Answer(200,
                    fmt::format("# HELP x y\nprocess_start_time_seconds {}.5\nother 1\n", 1'700'000'000 + starts_));
    }
    if (!dev_mode) return FaultyAnswer(WireFault::kNoRoute);
    if (path == "/is_paused") return JsonAnswer({{"is_paused", paused_}});
    if (path == "/is_sleeping") return JsonAnswer({{"is_sleeping", asleep}});
    if (path == "/weight_info") return JsonAnswer({{"weight_version", label_}});
    if (path == "/get_world_size") return JsonAnswer({{"world_size", workers.size()}});
    if (path == "/server_info") {
      return JsonAnswer({{"vllm_config", {{"device_config", {{"device_type", device_type}}}}}});
    }
    if (method != "POST") return Answer(405, R"({"detail":"Method Not Allowed"})");
    return Control(path, query, body);
  }

  WireAnswer Control(const std::string& path, const std::string& query, const Json& body) {
    if (path == "/pause") {
      paused_ = true;
      if (query != "mode=keep") blocks_held = false;
      return JsonAnswer({{"status", "paused"}});
    }
    if (path == "/resume") {
      paused_ = false;
      return JsonAnswer({{"status", "resumed"}});
    }
    if (path == "/reset_prefix_cache") {
      return JsonAnswer({{"success", !blocks_held || query == "reset_running_requests=true"}});
    }
    if (path == "/reset_encoder_cache") return Answer(200);
    if (path == "/update_weight_version") {
      label_ = body.at("new_version").get<std::string>();
      return JsonAnswer({{"success", true}, {"new_version", label_}});
    }
    if (path == "/weight_checker") return Checksums();
    if (path == "/collective_rpc") return Rpc(body);
    return FaultyAnswer(WireFault::kNoRoute);
  }

  WireAnswer Checksums() const {
    Json sums;
    for (const auto& [name, tensor] : workers.front().memory.tensors) {
      sums["dp0:pp0:pcp0:tp0:" + name] = Sha256::Of(ByteSpan(tensor.bytes)).Hex();
    }
    return JsonAnswer({{"checksums", sums}});
  }

  WireAnswer Rpc(const Json& body) {
    const std::string method = body.at("method").get<std::string>();
    const Json arguments = body.value("kwargs", Json::object());
    const bool ours = method.starts_with("skerry_");
    if ((ours && !plugin_) || (!ours && method != "reload_weights") || !refusal.empty()) {
      return JsonAnswer({{"error", refusal.empty() ? "no method " + method : refusal}}, 500);
    }
    Json results = Json::array();
    for (Worker& worker : workers) {
      if (results.size() == answering_workers.value_or(workers.size())) break;
      if (!ours) {
        if (!Reload(worker, arguments.at("weights_path").get<std::string>()))
          return FaultyAnswer(WireFault::kStatus500);
        results.push_back(nullptr);
      } else {
        results.push_back(PluginCall(worker, method, arguments, results.size()));
      }
    }
    return JsonAnswer({{"results", results}});
  }

  bool Reload(Worker& worker, const std::string& path) {
    if (caches_files && files_.contains(path)) {
      worker.memory = files_[path];
      return true;
    }
    worker.memory = {};
    const bool loaded = LoadWhole(path, worker.memory).has_value();
    files_[path] = worker.memory;
    return loaded;
  }

  Json PluginCall(Worker& worker, const std::string& method, const Json& arguments, size_t rank) {
    const std::string label = arguments.value("label", "");
    const auto answer = [&](const std::string& error, const std::string& its_label) {
      return Json{{"ok", error.empty()},
                  {"error", error},
                  {"label", its_label},
                  {"state", worker.state},
                  {"rank", rank},
                  {"device", "cpu"},
                  {"unsupported", unsupported},
                  {"prepared", worker.prepared},
                  {"instance", fmt::format("{}-{}", starts_, rank)}};
    };
    if (method == "skerry_status") return answer("", worker.label);
    if (method == "skerry_prepare") return answer(PrepareWorker(worker, arguments), label);
    if (method == "skerry_prepared") {
      return worker.prepared == label ? answer("", label) : answer("nothing is prepared as " + label, label);
    }
    if (method == "skerry_commit") {
      if (worker.label == label) return answer("", label);
      if (worker.prepared != label) return answer("nothing is prepared as " + label, worker.label);
      if (!worker.error.empty()) {
        worker.state = "uncertain";
        worker.label = "?";
        return answer(worker.error, "?");
      }
      worker.memory = worker.staged;
      worker.label = worker.stays_behind ? "old@1" : label;
      worker.state = "idle";
      worker.prepared.clear();
      return answer("", worker.label);
    }
    return answer(worker.label == label ? "" : "serves " + worker.label, worker.label);
  }

  std::string PrepareWorker(Worker& worker, const Json& arguments) {
    const std::string base = arguments.at("base").get<std::string>(),
                      positions = arguments.at("positions").get<std::string>(),
                      checkpoint = arguments.at("checkpoint").get<std::string>();
    worker.prepared.clear();
    worker.staged = {};
    Status staged;
    if (positions.empty()) {
      staged = LoadWhole(checkpoint, worker.staged);
    } else if (base != worker.label) {
      return "changes to '" + base + "', but it serves '" + worker.label + "'";
    } else {
      worker.staged = worker.memory;
      staged = LoadElements(checkpoint, positions, worker.staged);
    }
    if (!staged) return staged.error().message;
    worker.prepared = arguments.at("label").get<std::string>();
    worker.state = "prepared";
    return "";
  }

  const Path boot_;
  std::string label_;
  bool paused_ = false;
  uint64_t starts_ = 0;
  std::map<std::string, FakeMemory> files_;

  const bool plugin_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_VLLM_CONTRACT_TESTING_H_
