#include "peers.h"

namespace skerry {
namespace {

// For each tensor: u32 count, u32 positions, new bits.
class Positions : public Peer {
 public:
  ByteSpan Encode(const Model& before, const Model& after) override {
    wire_.clear();
    for (size_t i = 0; i < after.tensors.size(); ++i) {
      const ByteSpan old = before.tensors[i], now = after.tensors[i];
      positions_.clear();
      values_.clear();
      WithUnit(DTypeUnit(after.layout->tensors()[i].dtype), [&]<typename T>(T) {
        ForChanges(old, now, sizeof(T), [&](size_t first, std::span<const uint32_t> positions) {
          const size_t start = positions_.size();
          positions_.resize(start + positions.size());
          values_.resize(positions_.size() * sizeof(T));
          for (size_t j = 0; j < positions.size(); ++j) {
            const size_t position = first + positions[j];
            positions_[start + j] = static_cast<uint32_t>(position);
            StoreLe(values_.data() + (start + j) * sizeof(T), LoadLe<T>(now.data() + position * sizeof(T)));
          }
        });
      });
      ByteWriter writer(wire_);
      writer.Int(static_cast<uint32_t>(positions_.size()));
      writer.Raw(std::as_bytes(std::span(positions_)));
      writer.Raw(values_);
    }
    return wire_;
  }

  void Apply(ByteSpan wire, const Layout& layout, WorkingCopy& model) override {
    ByteReader reader(wire);
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const size_t count = reader.Int<uint32_t>();
      const std::byte* positions = reader.Raw(count * sizeof(uint32_t)).data();
      std::byte* const tensor = model.tensors[i].data();
      WithUnit(DTypeUnit(layout.tensors()[i].dtype), [&]<typename T>(T) {
        const std::byte* values = reader.Raw(count * sizeof(T)).data();
        for (size_t j = 0; j < count; ++j) {
          const size_t position = LoadLe<uint32_t>(positions + j * sizeof(uint32_t));
          StoreLe(tensor + position * sizeof(T), LoadLe<T>(values + j * sizeof(T)));
        }
      });
    }
  }

 private:
  std::vector<uint32_t> positions_;
  Bytes values_, wire_;
};

}  // namespace

std::unique_ptr<Peer> MakePositions() { return std::make_unique<Positions>(); }

}  // namespace skerry
