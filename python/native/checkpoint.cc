#include "checkpoint.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/tensors/running_digest.h"
#include "work.h"

using namespace nb::literals;

namespace {

using skerry::Checkpoint;
using Source = HeldCheckpoint::Source;
using Row = std::tuple<std::string, std::string, std::vector<uint64_t>, uint64_t>;

HeldCheckpoint* OpenDirectory(const skerry::Path& directory) {
  auto opened = Unlocked([&] { return skerry::OpenSettledCheckpoint(directory); });
  return new HeldCheckpoint(Unwrap(std::move(opened)), Source::kDirectory);
}

HeldCheckpoint* OpenFile(const skerry::Path& file) {
  auto opened = Unlocked([&] { return Checkpoint::OpenFile(file); });
  return new HeldCheckpoint(Unwrap(std::move(opened)), Source::kFile);
}

HeldCheckpoint* FromBuffer(nb::handle object) {
  auto buffer = std::make_unique<PythonBuffer>(object);
  Checkpoint checkpoint = Unwrap(Checkpoint::FromBytes(buffer->bytes()));
  return new HeldCheckpoint(std::move(checkpoint), Source::kMemory, std::move(buffer));
}

std::vector<Row> Tensors(const HeldCheckpoint& held) {
  std::vector<Row> rows;
  for (const skerry::LayoutTensor& tensor : held.checkpoint().layout().tensors()) {
    rows.emplace_back(tensor.name, std::string(skerry::DTypeName(tensor.dtype)), tensor.shape, tensor.bytes);
  }
  return rows;
}

// Without a copy where the bytes are in memory or mapped.
nb::object Read(nb::handle_t<HeldCheckpoint> self, size_t ordinal) {
  const Checkpoint& checkpoint = nb::cast<const HeldCheckpoint&>(self).checkpoint();
  const auto& tensors = checkpoint.layout().tensors();
  if (ordinal >= tensors.size()) throw nb::index_error();
  skerry::Bytes scratch;
  const skerry::ByteSpan bytes =
      Unwrap(Unlocked([&] { return checkpoint.Read(ordinal, 0, tensors[ordinal].bytes, scratch); }));
  if (!scratch.empty() && bytes.data() == scratch.data()) return FlatArrayOf<const uint8_t>(std::move(scratch));
  return FlatArray(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), self);
}

std::string ModelDigest(const HeldCheckpoint& held, int64_t threads, const nb::object& progress) {
  const int count = ThreadsOf(threads);
  return Call(progress, [&](skerry::Progress& account) -> skerry::Result<std::string> {
    SKERRY_ASSIGN(const auto digests, skerry::DigestTensors(held.checkpoint(), count, account));
    return skerry::ModelDigest(held.checkpoint().layout().tensors_digest(), digests).Hex();
  });
}

}  // namespace

void BindCheckpoint(nb::module_& m) {
  nb::class_<HeldCheckpoint>(m, "Checkpoint", "Native part of skerry.Checkpoint.")
      .def_static("open_directory", &OpenDirectory, "directory"_a)
      .def_static("open_file", &OpenFile, "file"_a)
      .def_static("from_buffer", &FromBuffer, "buffer"_a,
                  "Over the bytes of an object with a contiguous buffer, which is kept and must not be written to.")
      .def("tensors", &Tensors, "(name, dtype, shape, bytes) of each, ascending by name.")
      .def("read", &Read, "ordinal"_a, "The tensor's bytes, uint8, flat, read-only.")
      .def("model_digest", &ModelDigest, "threads"_a, "progress"_a.none())
      .def("check", [](const HeldCheckpoint& held) { Unwrap(held.checkpoint().Check()); })
      .def_prop_ro("layout_digest", [](const HeldCheckpoint& h) { return h.checkpoint().layout().digest().Hex(); })
      .def_prop_ro("tensors_digest",
                   [](const HeldCheckpoint& h) { return h.checkpoint().layout().tensors_digest().Hex(); })
      .def_prop_ro("nbytes", [](const HeldCheckpoint& h) { return h.checkpoint().layout().total_bytes(); })
      .def_prop_ro("side_files",
                   [](const HeldCheckpoint& h) {
                     std::vector<std::string> paths;
                     for (const auto& file : h.checkpoint().side_files()) paths.push_back(file.path);
                     return paths;
                   })
      .def_prop_ro("warnings", [](const HeldCheckpoint& h) { return h.checkpoint().warnings(); });
}
