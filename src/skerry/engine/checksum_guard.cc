#include "skerry/engine/checksum_guard.h"

namespace skerry {

Result<std::string> ChecksumGuard::Ask() {
  SKERRY_ASSIGN(const nlohmann::json reply, api_.Post(route_, {{"action", "checksum"}}, api_.timeouts().load));
  const auto sums = reply.find("checksums");
  if (sums == reply.end() || sums->empty()) return api_.Complain(Code::kIo, "POST", route_, "gave no checksums");
  return sums->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status ChecksumGuard::BeforeLoad() {
  if (!on_) return {};
  SKERRY_ASSIGN(before_, Ask());
  return {};
}

Status ChecksumGuard::AfterLoad(const Digest& model) {
  if (!on_) return {};
  SKERRY_ASSIGN(const std::string after, Ask());
  if (model_ && *model_ != model && after == before_) {
    return api_.Complain(Code::kMismatch, "POST", route_,
                         fmt::format("the engine's checksums are what they were before the load, but model {} differs "
                                     "from {}: it loaded old files",
                                     model.Short(), model_->Short()));
  }
  model_ = model;
  return {};
}

}  // namespace skerry
