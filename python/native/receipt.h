// A publisher's receipt as a Python dict: the fields of `skerry publish --json`, as far as they are not derived.
#ifndef SKERRY_PYTHON_NATIVE_RECEIPT_H_
#define SKERRY_PYTHON_NATIVE_RECEIPT_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "skerry/publish/publisher.h"

inline nanobind::dict ReceiptAsDict(const skerry::PublishReceipt& receipt) {
  nanobind::dict out, seconds;
  out["version"] = receipt.version.number();
  out["published"] = receipt.published;
  out["step"] = receipt.step ? nanobind::cast(*receipt.step) : nanobind::none();
  out["model"] = receipt.model.Hex();
  out["elements"] = receipt.elements;
  out["changed"] = receipt.changed;
  out["tensors_changed"] = receipt.tensors_changed;
  out["patch_bytes"] = receipt.patch_bytes;
  out["shared_bytes"] = receipt.shared_bytes;
  out["checkpoint_bytes"] = receipt.checkpoint_bytes;
  out["parts"] = receipt.parts;
  out["skips"] = receipt.skips;
  out["skip_bytes"] = receipt.skip_bytes;
  out["anchor_bytes"] = receipt.anchor_bytes;
  out["warning"] = receipt.warning;
  seconds["snapshot"] = receipt.snapshot_seconds;
  seconds["diff"] = receipt.diff_seconds;
  seconds["encode"] = receipt.encode_seconds;
  seconds["publish"] = receipt.publish_seconds;
  seconds["advance"] = receipt.advance_seconds;
  seconds["anchor"] = receipt.anchor_seconds;
  out["seconds"] = seconds;
  nanobind::dict views;
  for (const auto& [view, of_view] : receipt.views) views[view.c_str()] = ReceiptAsDict(of_view);
  out["views"] = views;
  return out;
}

#endif  // SKERRY_PYTHON_NATIVE_RECEIPT_H_
