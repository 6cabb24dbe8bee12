#include <nlohmann/json.hpp>

#include "peers.h"
#include "zstd_frames.h"

namespace skerry {
namespace {

constexpr uint64_t kChunkBytes = 256 << 20;

template <typename To>
void AppendAs(std::span<const uint32_t> gaps, Bytes& out) {
  const size_t start = out.size();
  out.resize(start + gaps.size() * sizeof(To));
  std::byte* const to = out.data() + start;
  for (size_t i = 0; i < gaps.size(); ++i) StoreLe(to + i * sizeof(To), static_cast<To>(gaps[i]));
}

template <typename Gap, typename T>
void ScatterXor(const std::byte* gaps, const std::byte* values, size_t count, std::byte* tensor) {
  std::byte* at = tensor;
  for (size_t i = 0; i < count; ++i) {
    at += LoadLe<Gap>(gaps + i * sizeof(Gap)) * sizeof(T);
    StoreLe<T>(at, static_cast<T>(LoadLe<T>(at) ^ LoadLe<T>(values + i * sizeof(T))));
    at += sizeof(T);
  }
}

// Tensors of 2^32 elements or more, whose gaps may need 64 bits, are left out.
class Nemo : public Peer {
 public:
  ByteSpan Encode(const Model& before, const Model& after) override {
    const auto& tensors = after.layout->tensors();
    wire_.clear();
    for (size_t i = 0; i < tensors.size();) {
      gaps_.clear();
      for (Bytes& values : values_) values.clear();
      records_ = nlohmann::ordered_json::array();
      uint64_t chunk = 0;
      do {
        AddTensor(tensors[i], before.tensors[i], after.tensors[i]);
        chunk += tensors[i++].bytes;
      } while (i < tensors.size() && chunk + tensors[i].bytes <= kChunkBytes);
      if (records_.empty()) continue;
      // gaps, values by width, records, u32 size of the records
      const std::string records = records_.dump();
      for (const Bytes& values : values_) gaps_.insert(gaps_.end(), values.begin(), values.end());
      ByteWriter writer(gaps_);
      writer.Raw(AsBytes(records));
      writer.Int(static_cast<uint32_t>(records.size()));
      const ByteSpan frame = zstd_.Compress(gaps_);
      wire_.insert(wire_.end(), frame.begin(), frame.end());
    }
    return wire_;
  }

  void Apply(ByteSpan wire, const Layout& layout, WorkingCopy& model) override {
    while (!wire.empty()) {
      const size_t size = CheckZstd(ZSTD_findFrameCompressedSize(wire.data(), wire.size()));
      const ByteSpan chunk = zstd_.Decompress(wire.first(size));
      wire = wire.subspan(size);
      const size_t records_size = LoadLe<uint32_t>(chunk.data() + chunk.size() - 4);
      const size_t records_at = chunk.size() - 4 - records_size;
      const auto records = nlohmann::json::parse(AsText(chunk.subspan(records_at, records_size)));
      // Where the values of each width begin.
      size_t ends[9] = {}, gaps_end = 0;
      for (const auto& record : records) {
        size_t& end = ends[record["value_group"].get<size_t>()];
        end = std::max(end, record["value_end"].get<size_t>());
        gaps_end = std::max(gaps_end, record["index_end"].get<size_t>());
      }
      size_t begins[9] = {};
      for (size_t unit = 1, at = gaps_end; unit <= 8; unit *= 2) {
        begins[unit] = at;
        at += ends[unit] * unit;
      }
      for (const auto& record : records) {
        const size_t unit = record["value_group"], first = record["value_start"];
        const size_t count = record["value_end"].get<size_t>() - first;
        const std::byte* values = chunk.data() + begins[unit] + first * unit;
        std::byte* tensor = model.tensors[static_cast<size_t>(layout.Find(record["name"].get<std::string>()))].data();
        const size_t index = record["index_start"], index_bytes = record["index_end"].get<size_t>() - index;
        WithUnit(static_cast<int>(unit), [&]<typename T>(T) {
          if (record["index_encoding"] == "range") {
            tensor += record["range_start"].get<size_t>() * sizeof(T);
            for (size_t i = 0; i < count * sizeof(T); ++i) tensor[i] ^= values[i];
          } else if (index_bytes == count * sizeof(uint16_t)) {
            ScatterXor<uint16_t, T>(chunk.data() + index, values, count, tensor);
          } else {
            ScatterXor<uint32_t, T>(chunk.data() + index, values, count, tensor);
          }
        });
      }
    }
  }

 private:
  void AddTensor(const LayoutTensor& tensor, ByteSpan old, ByteSpan now) {
    const auto unit = static_cast<size_t>(DTypeUnit(tensor.dtype));
    if (tensor.units() >> 32 != 0) std::abort();
    tensor_gaps_.clear();
    Bytes& values = values_[unit];
    const size_t value_start = values.size() / unit;
    size_t next = 0;  // first unit after the last change
    uint32_t widest = 0, widest_but_first = 0;
    WithUnit(static_cast<int>(unit), [&]<typename T>(T) {
      ForChanges(old, now, sizeof(T), [&](size_t first, std::span<const uint32_t> positions) {
        const size_t start = tensor_gaps_.size(), value_at = values.size();
        tensor_gaps_.resize(start + positions.size());
        values.resize(value_at + positions.size() * sizeof(T));
        uint32_t* const gaps = tensor_gaps_.data() + start;
        std::byte* const bits = values.data() + value_at;
        gaps[0] = static_cast<uint32_t>(first + positions[0] - next);
        for (size_t i = 1; i < positions.size(); ++i) gaps[i] = positions[i] - positions[i - 1] - 1;
        for (size_t i = 0; i < positions.size(); ++i) {
          const size_t offset = (first + positions[i]) * sizeof(T);
          StoreLe<T>(bits + i * sizeof(T),
                     static_cast<T>(LoadLe<T>(old.data() + offset) ^ LoadLe<T>(now.data() + offset)));
        }
        next = first + positions.back() + 1;
      });
    });
    if (tensor_gaps_.empty()) return;
    for (const uint32_t gap : tensor_gaps_) widest |= gap;
    for (size_t i = 1; i < tensor_gaps_.size(); ++i) widest_but_first |= tensor_gaps_[i];
    const size_t index_start = gaps_.size();
    const bool range = widest_but_first == 0;
    if (!range && widest <= 0xFFFF) AppendAs<uint16_t>(tensor_gaps_, gaps_);
    if (!range && widest > 0xFFFF) AppendAs<uint32_t>(tensor_gaps_, gaps_);
    nlohmann::ordered_json record = {{"name", tensor.name},
                                     {"shape", tensor.shape},
                                     {"dtype", DTypeName(tensor.dtype)},
                                     {"operation", "xor"},
                                     {"index_start", index_start},
                                     {"index_end", gaps_.size()},
                                     {"value_group", unit},
                                     {"value_start", value_start},
                                     {"value_end", value_start + tensor_gaps_.size()},
                                     {"index_encoding", range ? "range" : "deltas"}};
    if (range) record["range_start"] = tensor_gaps_[0];
    records_.push_back(std::move(record));
  }

  ZstdFrames zstd_{1};
  std::vector<uint32_t> tensor_gaps_;  // of the tensor at hand
  Bytes gaps_, values_[9];             // of the chunk; values by their width in bytes
  nlohmann::ordered_json records_;
  Bytes wire_;
};

}  // namespace

std::unique_ptr<Peer> MakeNemo() { return std::make_unique<Nemo>(); }

}  // namespace skerry
