#include "skerry/patch/change_stream.h"

#include <cmath>
#include <numeric>

#include "skerry/base/hash.h"
#include "skerry/patch/format.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A table that has a frequency for every symbol, mostly for the first two.
const SymbolTable& AllSymbols() {
  static const SymbolTable table = [] {
    std::array<uint64_t, kSymbols> counts;
    counts.fill(10);
    counts[0] = counts[1] = 1000;
    return SymbolTable(SymbolTable::Normalise(counts));
  }();
  return table;
}

// Nothing but steps to the next value.
const SymbolTable& OnlyUp() {
  static const SymbolTable table(SymbolTable::Frequencies{kProbabilityOne});
  return table;
}

// What goes into a stream, and what must come out of it.
struct Stream {
  struct Part {
    uint64_t members = 0;
    std::vector<uint32_t> changed;
    std::vector<StepToken> tokens;
    const SymbolTable* values = &AllSymbols();
  };
  std::vector<Part> parts;
  int value_bits = 16;

  Bytes Encoded() const {
    std::vector<Strand> strands;
    for (const Part& part : parts) {
      strands.push_back(
          {.members = part.members, .changed = part.changed, .tokens = part.tokens, .values = part.values});
    }
    Bytes payload;
    EncodeStrands(strands, payload);
    return payload;
  }
  std::vector<StrandShape> Shapes() const {
    std::vector<StrandShape> shapes;
    for (const Part& part : parts) {
      shapes.push_back({.members = part.members, .changed = part.changed.size(), .values = part.values});
    }
    return shapes;
  }
  Result<DecodedSteps> Decoded(ByteSpan payload, const std::vector<StrandShape>& shapes) const {
    DecodedSteps steps;
    SKERRY_TRY(DecodeStrands(payload, shapes, value_bits, steps));
    return steps;
  }
  Result<DecodedSteps> Decoded(ByteSpan payload) const { return Decoded(payload, Shapes()); }

  void ExpectRoundTrip() const {
    DecodedSteps expected;
    for (const Part& part : parts) {
      expected.members.insert(expected.members.end(), part.changed.begin(), part.changed.end());
      for (const StepToken& token : part.tokens) {
        if (token.symbol < 16) {
          expected.ranks.push_back(token.symbol);
        } else if (token.symbol < kStepEscape) {
          expected.ranks.push_back((1u << token.extra_bits) + static_cast<uint32_t>(token.extra));
        } else {
          expected.ranks.push_back(kEscapedStep + static_cast<uint32_t>(expected.escaped.size()));
          expected.escaped.push_back(token.extra);
        }
      }
    }
    const DecodedSteps steps = Must(Decoded(Encoded()));
    ASSERT_EQ(steps.members, expected.members);
    ASSERT_EQ(steps.ranks, expected.ranks);
    ASSERT_EQ(steps.escaped, expected.escaped);
  }
};

StepToken RandomToken(int value_bits, Random& random) {
  const auto symbol = static_cast<uint8_t>(random() % 3 != 0 ? random() % 2 : random() % kSymbols);
  if (symbol < 16) return {.symbol = symbol};
  if (symbol == kStepEscape) return EscapedToken(random() >> (64 - value_bits), value_bits);
  const int bits = symbol - 12;
  return {.extra = random() >> (64 - bits), .symbol = symbol, .extra_bits = static_cast<uint8_t>(bits)};
}

Stream::Part PartOf(uint64_t members, std::vector<uint32_t> changed, int value_bits, Random& random) {
  Stream::Part part{.members = members, .changed = std::move(changed), .tokens = {}};
  for (size_t i = 0; i < part.changed.size(); ++i) part.tokens.push_back(RandomToken(value_bits, random));
  return part;
}

std::vector<uint32_t> RandomMembers(uint64_t members, double density, Random& random) {
  std::vector<uint32_t> changed;
  for (uint32_t i = 0; i < members; ++i) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 < density) changed.push_back(i);
  }
  return changed;
}

std::vector<uint32_t> FirstMembers(uint32_t count) {
  std::vector<uint32_t> changed(count);
  std::iota(changed.begin(), changed.end(), 0);
  return changed;
}

// `count` certain steps of all members of one strand.
Stream Certain(uint32_t count) {
  Stream stream;
  stream.parts = {
      {.members = count, .changed = FirstMembers(count), .tokens = std::vector<StepToken>(count), .values = &OnlyUp()}};
  return stream;
}

TEST(ChangeStream, GivesBackStrandsOfAnyNumberAndSize) {
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    Stream stream{.value_bits = std::array{4, 8, 16, 32, 64}[random() % 5]};
    for (uint64_t s = 1 + random() % 16; s > 0; --s) {
      const uint64_t members = random() % (uint64_t{1} << random() % 12);
      const double density = std::array{0.0, 0.003, 0.1, 0.49, 0.51, 0.9, 1.0}[random() % 7];
      stream.parts.push_back(PartOf(members, RandomMembers(members, density, random), stream.value_bits, random));
    }
    stream.ExpectRoundTrip();
  }
}

TEST(ChangeStream, GivesBackEveryNumberOfChangesAroundTheSecondPairOfStates) {
  Random random(2);
  for (uint32_t count = 0; count <= 2 * kTwoPairsFrom + 3; ++count) {
    for (const uint32_t first : {0u, 1u, count / 2, count}) {
      if (first > count) continue;
      Stream stream;
      stream.parts = {PartOf(3 * first + 1, RandomMembers(3 * first + 1, 0.3, random), 16, random),
                      PartOf(first, FirstMembers(first), 16, random), PartOf(9, {}, 16, random),
                      PartOf(2 * (count - first), FirstMembers(count - first), 16, random)};
      stream.ExpectRoundTrip();
    }
  }
}

TEST(ChangeStream, WhatIsCertainCostsNothingButTheStates) {
  EXPECT_EQ(ToHex(Certain(0).Encoded()), "000001000000010000");
  EXPECT_EQ(ToHex(Certain(63).Encoded()), "000001000000010000") << "one pair of states, no words, no raw bits";
  EXPECT_EQ(ToHex(Certain(64).Encoded()), "0000010000000100000001000000010000") << "two pairs";
  EXPECT_EQ(Certain(1'000'000).Encoded().size(), 17u);
  Certain(63).ExpectRoundTrip();
  Certain(64).ExpectRoundTrip();
}

TEST(ChangeStream, AnEmptyStreamIsNothingButTheStates) {
  Random random(3);
  Stream stream;
  stream.parts = {PartOf(0, {}, 16, random), PartOf(1000, {}, 16, random)};
  EXPECT_EQ(stream.Encoded().size(), 9u);
  const DecodedSteps steps = Must(stream.Decoded(stream.Encoded()));
  EXPECT_THAT(steps.members, IsEmpty());
}

TEST(ChangeStream, LongGapsAreEscapedAsOftenAsNeeded) {
  Random random(4);
  const auto expect = [&](uint64_t members, uint32_t crowded, std::vector<uint32_t> more) {
    std::vector<uint32_t> changed = FirstMembers(crowded);
    changed.insert(changed.end(), more.begin(), more.end());
    Stream stream;
    stream.parts = {PartOf(members, changed, 16, random)};
    stream.ExpectRoundTrip();
  };
  // More than half: an escape subtracts 7. Gaps of 6, 7, 8, 14 and 40.
  for (const uint32_t gap : {6u, 7u, 8u, 14u, 40u}) expect(100, 59, {59 + gap});
  // At most half: an escape subtracts 31.
  for (const uint32_t gap : {30u, 31u, 32u, 62u, 93u, 400u}) expect(1000, 300, {300 + gap});
  // The longest gap there is, in a crowded block.
  expect(uint64_t{kMaxCellsPerBlock} * kCellUnits, 200'000, {kMaxCellsPerBlock * kCellUnits - 1});
}

TEST(ChangeStream, ValuesThatAreNoStepsTravelWhole) {
  for (const int bits : {4, 8, 16, 32, 64}) {
    const uint64_t ones = ~uint64_t{0} >> (64 - bits);
    Stream stream{.value_bits = bits};
    stream.parts = {{.members = 10, .changed = {3, 4, 9}, .tokens = {}}};
    stream.parts[0].tokens = {EscapedToken(ones, bits), {.symbol = 1}, EscapedToken(0, bits)};
    stream.ExpectRoundTrip();
    EXPECT_THAT(Must(stream.Decoded(stream.Encoded())).escaped, ElementsAre(ones, 0));
  }
}

TEST(ChangeStream, EveryStrandHasItsOwnTable) {
  SymbolTable::Frequencies only_down{};
  only_down[1] = kProbabilityOne;
  const SymbolTable down(only_down);
  Stream stream;
  stream.parts = {
      {.members = 5, .changed = {0, 1, 2, 3, 4}, .tokens = std::vector<StepToken>(5), .values = &OnlyUp()},
      {.members = 2, .changed = {0, 1}, .tokens = std::vector<StepToken>(2, StepToken{.symbol = 1}), .values = &down}};
  EXPECT_EQ(stream.Encoded().size(), 9u);
  EXPECT_THAT(Must(stream.Decoded(stream.Encoded())).ranks, ElementsAre(0, 0, 0, 0, 0, 1, 1));
}

Stream SomeStream(uint64_t members, Random& random) {
  Stream stream;
  stream.parts = {PartOf(members, RandomMembers(members, 0.05, random), 16, random),
                  PartOf(members / 4, RandomMembers(members / 4, 0.8, random), 16, random)};
  return stream;
}

TEST(ChangeStream, RefusesEveryTruncationAndWhatFollowsTheEnd) {
  Random random(5);
  for (const uint64_t members : {40u, 400u}) {  // with one pair of states and with two
    const Stream stream = SomeStream(members, random);
    const Bytes payload = stream.Encoded();
    for (size_t size = 0; size < payload.size(); ++size) {
      EXPECT_THAT(stream.Decoded(ByteSpan(payload).first(size)), Fails(Code::kCorrupt)) << size;
    }
    Bytes longer = payload;
    for (int i = 0; i < 9; ++i) {
      longer.push_back(std::byte{0});
      EXPECT_THAT(stream.Decoded(longer), Fails(Code::kCorrupt, HasSubstr("does not end"))) << i;
    }
  }
}

TEST(ChangeStream, RefusesRawBitsBehindTheLastOne) {
  Stream stream;
  // Mean 100: 4 raw bits of the gap, then 5 of the step: one bit in the last byte.
  stream.parts = {{.members = 100, .changed = {50}, .tokens = {{.extra = 5, .symbol = 17, .extra_bits = 5}}}};
  const Bytes payload = stream.Encoded();
  Must(stream.Decoded(payload));
  for (int bit = 1; bit < 8; ++bit) {
    Bytes damaged = payload;
    damaged.back() |= static_cast<std::byte>(1 << bit);
    EXPECT_THAT(stream.Decoded(damaged), Fails(Code::kCorrupt, HasSubstr("does not end"))) << bit;
  }
}

TEST(ChangeStream, EveryStateEndsWhereTheEncoderBegan) {
  for (const uint32_t count : {10u, 80u}) {
    const Stream stream = Certain(count);
    const Bytes payload = stream.Encoded();
    for (size_t state = 0; state + 4 < payload.size(); state += 4) {
      Bytes damaged = payload;
      damaged[state] = std::byte{1};  // 65537: it stays so, since nothing here costs anything
      EXPECT_THAT(stream.Decoded(damaged), Fails(Code::kCorrupt, HasSubstr("does not end"))) << state;
      damaged = payload;
      damaged[state + 2] = std::byte{0};  // below 65536: no state at all
      EXPECT_THAT(stream.Decoded(damaged), Fails(Code::kCorrupt, HasSubstr("malformed start"))) << state;
    }
  }
}

TEST(ChangeStream, RefusesWordsThatAreNotThere) {
  const Stream stream = Certain(10);
  Bytes payload = stream.Encoded();
  payload.back() = std::byte{1};  // one word of none
  EXPECT_THAT(stream.Decoded(payload), Fails(Code::kCorrupt, HasSubstr("malformed start")));
  payload.insert(payload.end(), 2, std::byte{0});
  EXPECT_THAT(stream.Decoded(payload), Fails(Code::kCorrupt, HasSubstr("does not end")));
  payload.resize(8);
  ByteWriter(payload).Varint(uint64_t{1} << 63);  // twice as many bytes would be none
  EXPECT_THAT(stream.Decoded(payload), Fails(Code::kCorrupt, HasSubstr("malformed start")));
  payload.resize(8);
  payload.insert(payload.end(), {std::byte{0x80}, std::byte{0}});  // an over-long varint
  EXPECT_THAT(stream.Decoded(payload), Fails(Code::kCorrupt, HasSubstr("malformed start")));
}

TEST(ChangeStream, RefusesMembersBeyondTheirStrand) {
  for (const uint32_t beyond : {100u, 101u, 4000u}) {
    for (const uint32_t crowd : {0u, 70u}) {
      Stream stream;
      std::vector<uint32_t> changed = FirstMembers(crowd);
      changed.push_back(beyond);
      stream.parts = {{.members = 100, .changed = changed, .tokens = std::vector<StepToken>(crowd + 1)}};
      EXPECT_THAT(stream.Decoded(stream.Encoded()), Fails(Code::kCorrupt, HasSubstr("beyond its 100 members")))
          << beyond << " behind " << crowd;
    }
  }
}

TEST(ChangeStream, RefusesOtherShapesThanTheEncoderHad) {
  Random random(6);
  const Stream stream = SomeStream(300, random);
  const Bytes payload = stream.Encoded();
  for (const size_t s : {0u, 1u}) {
    for (const int difference : {-1, 1}) {
      std::vector<StrandShape> shapes = stream.Shapes();
      shapes[s].changed += static_cast<uint64_t>(difference);
      EXPECT_THAT(stream.Decoded(payload, shapes), Fails(Code::kCorrupt)) << s << " " << difference;
    }
  }
}

TEST(ChangeStream, AFlippedBitIsRefusedOrGivesMembersOfItsStrands) {
  Random random(7);
  const Stream stream = SomeStream(400, random);
  const Bytes payload = stream.Encoded();
  const size_t first = stream.parts[0].changed.size();
  for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
    Bytes damaged = payload;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Result<DecodedSteps> steps = stream.Decoded(damaged);
    if (!steps) continue;
    ASSERT_EQ(steps->members.size(), first + stream.parts[1].changed.size());
    for (size_t i = 0; i < steps->members.size(); ++i) {
      ASSERT_LT(steps->members[i], stream.parts[i < first ? 0 : 1].members);
      ASSERT_TRUE(i == 0 || i == first || steps->members[i] > steps->members[i - 1]);
      ASSERT_TRUE(steps->ranks[i] < kEscapedStep || steps->ranks[i] - kEscapedStep < steps->escaped.size());
    }
  }
}

TEST(ChangeStream, CostsAboutTheEntropyAtEveryDensity) {
  Random random(8);
  const uint64_t members = 65'536;
  for (const double p : {0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99}) {
    const std::vector<uint32_t> changed = RandomMembers(members, p, random);
    Stream stream;
    stream.parts = {{.members = members,
                     .changed = changed,
                     .tokens = std::vector<StepToken>(changed.size()),
                     .values = &OnlyUp()}};
    const double q = static_cast<double>(changed.size()) / members;
    const double entropy = members * (-q * std::log2(q) - (1 - q) * std::log2(1 - q)) / 8;
    const auto bytes = static_cast<double>(stream.Encoded().size());
    EXPECT_LT(bytes, 1.02 * entropy + 40) << p;
    EXPECT_GT(bytes, 0.98 * entropy) << p;
  }
}

RC_GTEST_PROP(ChangeStream, GivesBackWhateverChangedInWhateverOrderOfGaps,
              (const std::vector<std::vector<uint16_t>>& gaps, uint64_t seed)) {
  Random random(seed);
  Stream stream;
  for (const std::vector<uint16_t>& strand : gaps) {
    std::vector<uint32_t> changed;
    uint32_t next = 0;
    for (const uint16_t gap : strand) {
      changed.push_back(next + gap);
      next = changed.back() + 1;
    }
    stream.parts.push_back(PartOf(next + seed % 3, changed, 16, random));
  }
  stream.ExpectRoundTrip();
}

}  // namespace
}  // namespace skerry
