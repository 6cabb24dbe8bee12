#include "skerry/patch/huffman_code.h"

#include <algorithm>

#include "skerry/patch/weight_stream.h"

namespace skerry {
namespace {

// A plain list of weights has a header of 127 + their number, and the last byte's weight goes without saying.
constexpr int kMostListed = 128;

// Depths of the leaves of a Huffman tree over rising weights: the two lightest nodes are joined until one is left. New
// nodes come in rising order as well, so both queues are sorted.
void TreeDepths(const uint64_t* leaves, size_t count, uint8_t* depths) {
  std::array<uint64_t, 512> weight;
  std::array<uint16_t, 512> parent;
  std::array<uint8_t, 512> depth;
  std::copy_n(leaves, count, weight.begin());
  size_t leaf = 0, node = count, made = count;
  const auto take = [&] { return leaf < count && (node == made || weight[leaf] <= weight[node]) ? leaf++ : node++; };
  for (; made < 2 * count - 1; ++made) {
    const size_t a = take(), b = take();
    weight[made] = weight[a] + weight[b];
    parent[a] = parent[b] = static_cast<uint16_t>(made);
  }
  depth[made - 1] = 0;
  for (size_t i = made - 1; i-- > 0;) depth[i] = static_cast<uint8_t>(depth[parent[i]] + 1);
  std::copy_n(depth.begin(), count, depths);
}

// Codes rise from the longest to the shortest, and with the bytes where they are equally long.
void AssignCodes(HuffmanCode& code) {
  std::array<uint16_t, kMaxCodeBits + 2> next{};
  for (const uint8_t bits : code.bits) next[bits] += bits != 0;
  uint16_t first = 0;
  for (int bits = code.longest; bits > 0; --bits) {
    const uint16_t count = next[static_cast<size_t>(bits)];
    next[static_cast<size_t>(bits)] = first;
    first = static_cast<uint16_t>((first + count) >> 1);
  }
  for (size_t s = 0; s < 256; ++s) {
    if (code.bits[s] != 0) code.code[s] = next[code.bits[s]]++;
  }
}

}  // namespace

HuffmanCode MakeHuffmanCode(const ByteCounts& counts) {
  HuffmanCode code;
  std::array<uint8_t, 256> order;
  size_t used = 0;
  uint64_t total = 0;
  for (size_t s = 0; s < 256; ++s) {
    if (counts[s] == 0) continue;
    order[used++] = static_cast<uint8_t>(s);
    total += counts[s];
    code.last = static_cast<int>(s);
  }
  std::sort(order.begin(), order.begin() + used,
            [&](uint8_t a, uint8_t b) { return std::pair(counts[a], a) < std::pair(counts[b], b); });
  // The tree is kept low by lifting the rarest bytes; where all are equal it has at most 8 levels.
  std::array<uint64_t, 256> leaves;
  std::array<uint8_t, 256> depths;
  for (uint64_t least = std::max<uint64_t>(1, total >> (kMaxCodeBits + 1));; least *= 2) {
    for (size_t i = 0; i < used; ++i) leaves[i] = std::max<uint64_t>(counts[order[i]], least);
    TreeDepths(leaves.data(), used, depths.data());
    code.longest = depths[0];
    if (code.longest <= kMaxCodeBits) break;
  }
  for (size_t i = 0; i < used; ++i) code.bits[order[i]] = depths[i];
  AssignCodes(code);
  return code;
}

bool WriteHuffmanCode(const HuffmanCode& code, Bytes& out) {
  std::array<uint8_t, 256> weights;
  for (int s = 0; s < code.last; ++s) weights[static_cast<size_t>(s)] = code.Weight(s);
  const auto listed = std::span<const uint8_t>(weights).first(static_cast<size_t>(code.last));
  const size_t list_bytes = (listed.size() + 1) / 2;
  const bool can_list = code.last <= kMostListed;
  const size_t start = out.size();
  out.push_back({});
  if (WriteWeightStream(listed, out)) {
    const size_t size = out.size() - start - 1;
    if (size < kMostListed && (!can_list || size < list_bytes)) {
      out[start] = static_cast<std::byte>(size);
      return true;
    }
  }
  out.resize(start);
  if (!can_list) return false;
  out.push_back(static_cast<std::byte>(127 + code.last));
  for (size_t i = 0; i < listed.size(); i += 2) {
    const int second = i + 1 < listed.size() ? listed[i + 1] : 0;
    out.push_back(static_cast<std::byte>(listed[i] << 4 | second));
  }
  return true;
}

}  // namespace skerry
