// Whole patches: two models of a few tensors, from the input, encoded and decoded again.
#include "blocks.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/patch.h"

namespace skerry {
namespace {

class Model : public TensorSource {
 public:
  explicit Model(const Layout& layout) : layout_(layout) {}
  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes&) const override {
    return ByteSpan(tensors[ordinal]).subspan(offset, length);
  }
  Status Check() const override { return {}; }

  std::vector<Bytes> tensors;

 private:
  const Layout& layout_;
};

// One to five tensors of one or two dtypes.
Layout SomeLayout(FuzzedDataProvider& input) {
  std::string header = "{";
  uint64_t at = 0;
  const auto first = input.ConsumeIntegralInRange<uint8_t>(0, kDTypeCount - 1);
  const auto second = input.ConsumeIntegralInRange<uint8_t>(0, kDTypeCount - 1);
  const int count = input.ConsumeIntegralInRange<int>(1, 5);
  for (int i = 0; i < count; ++i) {
    const DType dtype = *DTypeFromCode(input.ConsumeBool() ? first : second);
    // Now and then a little more than a cell.
    const uint64_t elements =
        DTypeBits(dtype) < 8 ? 4 * input.ConsumeIntegralInRange<uint64_t>(0, 100) : SomeUnits(input, 70'000);
    const uint64_t bytes = elements * static_cast<uint64_t>(DTypeBits(dtype)) / 8;
    header += fmt::format(R"({}"t{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", i,
                          DTypeName(dtype), elements, at, at + bytes);
    at += bytes;
  }
  auto layout = Layout::FromHeaders({{"model.safetensors", header + "}"}});
  FUZZ_CHECK(layout);
  return *std::move(layout);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const Layout layout = SomeLayout(input);
  const EncodeOptions options{
      .threads = 1, .level = input.ConsumeBool() ? Level::kCompact : Level::kFast, .with_names = false};
  UseSimd(input);
  Model base(layout), target(layout);
  const std::string pattern = input.ConsumeRandomLengthString(500);
  size_t byte = 0;
  for (const LayoutTensor& tensor : layout.tensors()) {
    Bytes before(tensor.bytes);
    for (std::byte& one : before) {
      one = pattern.empty() ? static_cast<std::byte>(byte * 131 >> 3)
                            : static_cast<std::byte>(pattern[byte % pattern.size()] + byte / 4096);
      ++byte;
    }
    target.tensors.push_back(SomeChanges(input, before, static_cast<size_t>(DTypeUnit(tensor.dtype))));
    base.tensors.push_back(std::move(before));
  }
  MemorySink sink;
  const auto receipt = EncodePatch(base, target, {}, options, sink, Progress::None());
  FUZZ_CHECK(receipt);
  FUZZ_CHECK(sink.bytes().size() <= layout.total_bytes() + layout.total_bytes() / 100 + 1024);
  FUZZ_CHECK(SetSimd("best"));
  const auto patch = Patch::FromBytes(std::move(sink.bytes()));
  FUZZ_CHECK(patch);
  FUZZ_CHECK(options.level == Level::kCompact || patch->head().magnitudes.empty());
  const auto blocks = patch->Place(layout);
  FUZZ_CHECK(blocks);
  std::vector<Bytes> tensors = base.tensors;
  for (const PlacedBlock& block : *blocks) {
    const auto unit = static_cast<uint64_t>(DTypeUnit(block.dtype));
    std::vector<ByteSpan> before;
    for (const BlockRun& run : block.runs) {
      before.push_back(ByteSpan(tensors[run.tensor]).subspan(run.first_unit * unit, run.units * unit));
    }
    const auto parts = patch->Decode(block, layout, before);
    FUZZ_CHECK(parts);
    for (const RunChanges& part : *parts) {
      ApplyBlock(part.changes, tensors[part.run.tensor].data() + part.run.first_unit * unit);
    }
  }
  FUZZ_CHECK(tensors == target.tensors);
  return 0;
}
