#include "skerry/base/failpoint.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

namespace skerry {
namespace {

constexpr std::string_view kNames[] = {
    // system calls (errno=N)
    "file.open",
    "file.write",
    "file.sync",
    "file.rename",
    "file.link",
    "file.lock",
    "file.map",
    // publish, in order
    "publish.snapshot_ready",
    "publish.part_announced",
    "shard.encoded",
    "shard.stored",
    "shard.combined",
    "shard.followed",
    "publish.encoded",
    "publish.patch_stored",
    "publish.skip_stored",
    "publish.manifest_stored",
    "publish.head_moved",
    "publish.undo_kept",
    "publish.snapshot_advanced",
    "publish.position_kept",
    // an anchor, after that
    "anchor.part_stored",
    "anchor.document_stored",
    // the directory board
    "store.temp_written",
    "store.object_linked",
    "store.cas_locked",
    "store.cas_temp_written",
    "store.cas_renamed",
    // init
    "init.anchor_stored",
    "init.manifest_stored",
    "init.head_stored",
    // fork
    "fork.objects_stored",
    "fork.manifest_stored",
    "fork.head_stored",
    // gc, in order
    "gc.marked",
    "gc.manifests_deleted",
    "gc.deleted_some",
    "gc.mark_cleared",
    // pull and apply, in order
    "seed.copied",
    "seed.renamed",
    "pull.fetched",
    "pull.part_filled",
    "rebuild.files_copied",
    "rebuild.patched",
    "rebuild.renamed",
    "apply.journal_begun",
    "undo.begun",
    "rollback.begun",
    "apply.journal_written",
    "rollback.proved",
    "undo.durable",
    "apply.journal_committed",
    "apply.tensors_half_written",
    "apply.tensors_written",
    "apply.files_written",
    "apply.state_written",
    "apply.journal_removed",
    "undo.pruned",
    // the agent, in order
    "agent.staged",
    "agent.prepared",
    "agent.uncertain_noted",
    "agent.paused",
    "agent.loaded",
    "agent.verified",
    "agent.resumed",
    "agent.certain_noted",
};

struct Rule {
  std::string name;
  std::string action;
  int first_hit = 0;  // 0: every hit
  int last_hit = 0;
  int hits = 0;
};

struct Registry {
  std::mutex mutex;
  std::vector<Rule> rules;
  bool active = false;

  Registry() {
    if (const char* env = std::getenv("SKERRY_FAILPOINTS")) Parse(env);
  }

  void Parse(std::string_view text) {
    rules.clear();
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      std::string_view part = text.substr(0, comma);
      text.remove_prefix(std::min(comma + 1, text.size()));
      const size_t colon = part.find(':');
      if (colon == std::string_view::npos) continue;
      Rule rule{.name = std::string(part.substr(0, colon)), .action = std::string(part.substr(colon + 1))};
      if (const size_t at = rule.action.find('@'); at != std::string::npos) {
        const std::string hits = rule.action.substr(at + 1);
        const size_t dash = hits.find('-');
        rule.first_hit = std::atoi(hits.c_str());
        rule.last_hit = dash == std::string::npos ? rule.first_hit : std::atoi(hits.c_str() + dash + 1);
        rule.action.resize(at);
      }
      rules.push_back(std::move(rule));
    }
    active = !rules.empty();
  }
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

// The action due at this hit, or "".
std::string Due(std::string_view name) {
  Registry& registry = TheRegistry();
  if (!registry.active) [[likely]]
    return {};
  bool known = false;
  for (const std::string_view candidate : kNames) known = known || candidate == name;
  if (!known) {
    std::fprintf(stderr, "failpoint %.*s is not in the list\n", static_cast<int>(name.size()), name.data());
    std::abort();
  }
  const std::lock_guard lock(registry.mutex);
  for (Rule& rule : registry.rules) {
    if (rule.name != name) continue;
    ++rule.hits;
    if (rule.first_hit != 0 && (rule.hits < rule.first_hit || rule.hits > rule.last_hit)) continue;
    if (rule.action == "kill") {
      ::kill(::getpid(), SIGKILL);
      ::pause();
    }
    return rule.action;
  }
  return {};
}

}  // namespace

std::span<const std::string_view> FailpointNames() { return kNames; }

int FailpointErrno(std::string_view name) {
  const std::string action = Due(name);
  if (action.starts_with("errno=")) return std::atoi(action.c_str() + 6);
  return action == "error" ? EIO : 0;
}

Status Failpoint(std::string_view name) {
  const int number = FailpointErrno(name);
  if (number == 0) return {};
  const Code code = number == ENOSPC ? Code::kNoSpace : Code::kIo;
  return Fail(code, "failpoint {}: {}", name, std::strerror(number));
}

void SetFailpoints(std::string_view specification) { TheRegistry().Parse(specification); }

}  // namespace skerry
