#include "skerry/publish/version_publication.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace skerry {
namespace {

template <typename Names>
std::string Listed(const Names& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

VersionPublication::VersionPublication(const std::vector<std::unique_ptr<ViewState>>& views,
                                       const std::vector<Target>& targets, const PublishOptions& options,
                                       const Clock& clock, Progress& progress)
    : views_(views), targets_(targets), options_(options), clock_(clock), progress_(progress) {}

bool VersionPublication::AllAtTheSameHead() const {
  return std::all_of(all_.begin(), all_.end(),
                     [this](const auto& one) { return one->release().head().nonce == own().release().head().nonce; });
}

// A version comes in all views that the run has.
Status VersionPublication::CheckViews() const {
  std::vector<std::string> has, given;
  for (const ViewHead& view : own().release().head().views) has.push_back(view.view);
  for (size_t i = 1; i < views_.size(); ++i) given.emplace_back(views_[i]->run.view());
  if (has == given) return {};
  return Fail(Code::kInvalid, "a version of run {} must come in all of its further views: {}; given: {}",
              views_.front()->run, Listed(has), Listed(given));
}

Status VersionPublication::Begin(bool look) {
  all_.clear();
  for (size_t i = 0; i < views_.size(); ++i) {
    all_.push_back(std::make_unique<Publication>(*views_[i], targets_[i], options_, clock_, progress_));
    SKERRY_TRY(all_.back()->Begin(look));
    if (i == 0) SKERRY_TRY(CheckViews());
  }
  if (AllAtTheSameHead()) return {};
  if (!look) return Begin(/*look=*/true);
  return Fail(Code::kConflict, "run {}: its head moved while it was read; publish again", views_.front()->run);
}

Result<bool> VersionPublication::TakenAlready() {
  bool taken = false;
  for (const auto& one : all_) {
    SKERRY_ASSIGN(taken, one->TakenAlready());
  }
  return taken;
}

// Tensors of the same name, dtype and shape in all views, in the same order, by their ordinals in each; none where they
// would be all of a view, or where some view changes how its tensors lie in files (parts can't).
std::vector<std::vector<size_t>> VersionPublication::SharedTensors() const {
  std::vector<std::vector<size_t>> shared(all_.size());
  if (all_.size() == 1) return shared;
  for (const auto& one : all_) {
    if (one->snapshot_layout().digest() != one->target_layout().digest()) return shared;
  }
  std::vector<std::map<std::string_view, size_t>> ordinals(all_.size());
  for (size_t view = 1; view < all_.size(); ++view) {
    const std::vector<LayoutTensor>& tensors = all_[view]->target_layout().tensors();
    for (size_t i = 0; i < tensors.size(); ++i) ordinals[view].emplace(tensors[i].name, i);
  }
  const std::vector<LayoutTensor>& own_tensors = own().target_layout().tensors();
  for (size_t i = 0; i < own_tensors.size(); ++i) {
    std::vector<size_t> at = {i};
    for (size_t view = 1; view < all_.size(); ++view) {
      const auto found = ordinals[view].find(own_tensors[i].name);
      if (found == ordinals[view].end()) break;
      const LayoutTensor& tensor = all_[view]->target_layout().tensors()[found->second];
      const bool alike = tensor.dtype == own_tensors[i].dtype && tensor.shape == own_tensors[i].shape;
      if (!alike || (!shared[view].empty() && shared[view].back() >= found->second)) break;
      at.push_back(found->second);
    }
    if (at.size() < all_.size()) continue;
    for (size_t view = 0; view < all_.size(); ++view) shared[view].push_back(at[view]);
  }
  for (size_t view = 0; view < all_.size(); ++view) {
    if (shared[view].size() == all_[view]->target_layout().tensors().size())
      return {all_.size(), std::vector<size_t>()};
  }
  return shared;
}

// What changed in one view makes a version in all, and whether something did is known at the end: objects that nobody
// names do no harm.
Status VersionPublication::Make() {
  for (size_t i = 0; i < all_.size(); ++i) {
    const Status prepared = all_[i]->Prepare();
    if (!prepared) return InView(i, prepared.error());
  }
  const std::vector<std::vector<size_t>> shared = SharedTensors();
  bool wanted = options_.allow_empty || options_.version.has_value();
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!shared[i].empty()) all_[i]->Share(shared[i], i == 0 ? nullptr : own().shared_part());
    const Status made = all_[i]->Make(/*wanted=*/all_.size() > 1);
    if (!made) return InView(i, made.error());
    wanted = wanted || all_[i]->changed();
  }
  if (all_.size() > 1) {
    for (const auto& one : all_) one->receipt().published = wanted;
  }
  return {};
}

Status VersionPublication::InView(size_t view, const Error& error) const {
  if (view == 0) return tl::unexpected<Error>(error);
  return Annotate(error, fmt::format("view {}", views_[view]->run.view()));
}

Status VersionPublication::Release() {
  std::vector<StagedManifest> staged;
  for (size_t i = 1; i < all_.size(); ++i) {
    SKERRY_TRY(all_[i]->Stage({}));
    staged.push_back(all_[i]->staged());
  }
  SKERRY_TRY(own().Stage(staged));
  Stopwatch watch;
  SKERRY_TRY(own().release().MoveHead(own().staged(), staged));
  own().receipt().publish_seconds += watch.Lap();
  for (size_t i = 1; i < all_.size(); ++i) SKERRY_TRY(all_[i]->release().Join(own().release()));
  for (const auto& one : all_) one->Follow();
  for (const auto& one : all_) one->Sweep();
  return {};
}

PublishReceipt VersionPublication::Receipt() {
  PublishReceipt receipt = std::move(own().receipt());
  for (size_t i = 1; i < all_.size(); ++i) {
    PublishReceipt& of_view = all_[i]->receipt();
    if (!of_view.warning.empty() && receipt.warning.empty()) {
      receipt.warning = fmt::format("view {}: {}", views_[i]->run.view(), of_view.warning);
    }
    receipt.views.emplace_back(views_[i]->run.view(), std::move(of_view));
  }
  return receipt;
}

Result<std::optional<PublishReceipt>> VersionPublication::Try(bool look) {
  SKERRY_TRY(Begin(look));
  SKERRY_ASSIGN(const bool taken, TakenAlready());
  if (taken) return Receipt();
  SKERRY_TRY(Make());
  if (own().is_other_writer()) {
    SKERRY_TRY(own().FinishAsOther());
  } else if (own().receipt().published) {
    SKERRY_TRY(Release());
  } else {
    // Nothing will prove that a note is still true but looking.
    if (own().release().from_note()) {
      SKERRY_ASSIGN(const bool there, own().release().IsStillThere());
      if (!there) return std::nullopt;
    }
    for (const auto& one : all_) SKERRY_TRY(one->StayAtHead());
  }
  return Receipt();
}

Result<PublishReceipt> VersionPublication::Run() {
  if (views_.size() > 1 && options_.writer) {
    return Fail(Code::kUnsupported, "run {}: versions in several views are made by one writer, not by {}",
                views_.front()->run, options_.writer->of);
  }
  // A caller that asks for a number is to be told how things are, not how they were.
  SKERRY_ASSIGN(std::optional<PublishReceipt> receipt, Try(/*look=*/options_.version.has_value()));
  while (!receipt) {
    SKERRY_ASSIGN(receipt, Try(/*look=*/true));
  }
  return *std::move(receipt);
}

}  // namespace skerry
