// The container: what a reader refuses, by hand and by exhaustive damage to a small file.
#include <set>

#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TestModel TinyModel() {
  Random random(1);
  return {.tensors = {RandomTensor("a", DType::kBF16, {40, 50}, random),
                      RandomTensor("b", DType::kF8E4M3, {64}, random), RandomTensor("c", DType::kF32, {64}, random)},
          .side_files = {}};
}

// A sparse block, a dense one, names and side files: about 700 bytes.
struct SmallPatch {
  TestModel base = TinyModel();
  TestModel target = base;
  ModelSource source{base};
  Bytes bytes;

  SmallPatch() {
    Random random(2);
    Nudge(target["a"], 0.02, random);
    target["b"].bytes = RandomBytes(64, random);
    target["c"].bytes[5] ^= std::byte{1};
    bytes = PatchBetween(source, ModelSource(target), {},
                         {{.path = "config.json", .content = ToBytes(AsBytes(R"({"a":1})"))},
                          {.path = "old.txt", .content = std::nullopt}});
  }
};

// Everything that a patch says, as one value; an error where any of it is refused.
Result<std::string> Meaning(const Bytes& bytes, const ModelSource& base) {
  SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(bytes));
  SKERRY_ASSIGN(const std::vector<Bytes> tensors, Decoded(patch, base, base.layout()));
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {}", patch.info().base_model.Hex(), patch.info().target_model.Hex(),
                  patch.info().base_layout.Hex(), patch.info().target_layout.Hex(), patch.info().base_tensors.Hex(),
                  patch.info().units, patch.info().changed, patch.info().blocks, patch.info().structural);
  for (const Bytes& tensor : tensors) text += AsText(tensor);
  for (const NamedTensor& named : patch.head().names)
    text += fmt::format("{} {} {}", named.ordinal, named.name, named.shape.size());
  for (const SideFileChange& file : patch.head().side_files) {
    text += file.path + (file.content ? ToString(*file.content) : "-");
  }
  return text;
}

TEST(PatchReader, ReadsWhatTheWriterWrote) {
  const SmallPatch small;
  EXPECT_LT(small.bytes.size(), 1024u);
  const Patch patch = Must(Patch::FromBytes(small.bytes));
  EXPECT_EQ(patch.size(), small.bytes.size());
  EXPECT_EQ(patch.head().blocks.size(), 3u);
  EXPECT_EQ(patch.head().blocks[2].method, Method::kDense) << "tensor b: cells are ordered by dtype";
  EXPECT_EQ(patch.head().side_files.size(), 2u);
  EXPECT_EQ(Must(Decoded(patch, small.source, small.source.layout())), TensorsOf(ModelSource(small.target)));
}

TEST(PatchReader, RefusesAModelOfU8WithoutItsFeatureBitAndTheOtherWayRound) {
  Random random(3);
  TestModel base{.tensors = {{"w", DType::kU8, {4000}, RandomBytes(4000, random)}}, .side_files = {}};
  TestModel target = base;
  for (size_t i = 0; i < 4000; i += 40) target["w"].bytes[i] ^= std::byte{0x10};
  PatchParts codes = PatchParts::Of(PatchBetween(base, target));
  ASSERT_EQ(codes.header[16], std::byte{kFeatureCodes});
  codes.header[16] = std::byte{0};
  EXPECT_THAT(Patch::FromBytes(codes.Sealed()), Fails(Code::kCorrupt, HasSubstr("U8")));
  PatchParts other = PatchParts::Of(SmallPatch().bytes);
  other.header[16] |= std::byte{kFeatureCodes};
  EXPECT_THAT(Patch::FromBytes(other.Sealed()), Fails(Code::kCorrupt, HasSubstr("U8")));
}

TEST(PatchReader, TakenApartAndSealedAgainAFileIsTheSame) {
  const SmallPatch small;
  EXPECT_EQ(PatchParts::Of(small.bytes).Sealed(), small.bytes);
}

TEST(PatchReader, RefusesEveryTruncation) {
  const SmallPatch small;
  for (size_t size = 0; size < small.bytes.size(); ++size) {
    EXPECT_THAT(Meaning(Bytes(small.bytes.begin(), small.bytes.begin() + static_cast<ptrdiff_t>(size)), small.source),
                Fails(Code::kCorrupt))
        << size;
  }
}

TEST(PatchReader, RefusesABytePutInOrLeftOutAnywhere) {
  const SmallPatch small;
  for (size_t at = 0; at <= small.bytes.size(); ++at) {
    Bytes longer = small.bytes;
    longer.insert(longer.begin() + static_cast<ptrdiff_t>(at), std::byte{0});
    EXPECT_FALSE(Meaning(longer, small.source)) << at;
    if (at == small.bytes.size()) continue;
    Bytes shorter = small.bytes;
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(at));
    EXPECT_FALSE(Meaning(shorter, small.source)) << at;
  }
}

TEST(PatchReader, EveryFlippedBitIsRefusedOrChangesNothing) {
  const SmallPatch small;
  const std::string meaning = Must(Meaning(small.bytes, small.source));
  size_t harmless = 0;
  for (size_t bit = 0; bit < 8 * small.bytes.size(); ++bit) {
    Bytes damaged = small.bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Result<std::string> read = Meaning(damaged, small.source);
    if (!read) continue;
    ++harmless;
    EXPECT_EQ(*read, meaning) << "bit " << bit;
  }
  EXPECT_LT(harmless, small.bytes.size() / 4) << "checksums cover nearly everything";
}

// Small patches of one dtype and one method each: every flipped bit and every truncation, through the whole reader.
class DamagedPatchTest : public ::testing::TestWithParam<DType> {
 protected:
  // Changes of about every tenth unit to its neighbour, of those with small magnitudes only, or of all to anything.
  enum class Changes { kEvenly, kByMagnitude, kAll };

  static TestModel Changed(TestModel model, Changes kind) {
    Random random(5);
    const bool packed = GetParam() == DType::kF4 || GetParam() == DType::kU8;
    const auto upper_step = static_cast<std::byte>(packed ? 0x10 : 0x01);
    for (TestTensor& tensor : model.tensors) {
      const size_t unit = tensor.unit();
      if (kind == Changes::kAll) tensor.bytes = RandomBytes(tensor.bytes.size(), random);
      for (size_t i = 0; kind != Changes::kAll && i < tensor.units(); ++i) {
        std::byte* at = tensor.bytes.data() + i * unit;
        if (kind == Changes::kEvenly) {
          if (random() % 10 == 0) *at ^= std::byte{1};
          continue;
        }
        // All small magnitudes change, which a magnitude model says in no bits at all.
        if ((at[unit - 1] & std::byte{0x40}) == std::byte{0}) *at ^= upper_step;
        if (packed && (*at & std::byte{0x04}) == std::byte{0}) *at ^= std::byte{0x01};
      }
    }
    return model;
  }
  static std::set<Method> MethodsOf(const Patch& patch) {
    std::set<Method> methods;
    for (const BlockEntry& block : patch.head().blocks) methods.insert(block.method);
    return methods;
  }
  TestModel Model(uint64_t elements) const {
    Random random(4);
    TestModel model;
    for (int i = 0; i < 2; ++i) {  // a block of two runs
      const uint64_t bytes = elements * static_cast<uint64_t>(DTypeBits(GetParam())) / 8;
      model.tensors.push_back({fmt::format("t{}", i), GetParam(), {elements}, RandomBytes(bytes, random)});
    }
    return model;
  }

  static void ExpectNoDamageUnnoticed(const TestModel& base_model, const TestModel& target, Level level) {
    const ModelSource base(base_model);
    const Bytes bytes = PatchBetween(base, ModelSource(target), {.level = level, .with_names = false});
    const std::string meaning = Must(Meaning(bytes, base));
    size_t harmless = 0;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      Bytes damaged = bytes;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const Result<std::string> read = Meaning(damaged, base);
      if (!read) continue;
      ++harmless;
      ASSERT_EQ(*read, meaning) << "bit " << bit;
    }
    EXPECT_LE(harmless, bytes.size() / 8) << "checksums cover nearly everything";
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(Meaning(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)), base)) << size;
    }
  }
  static Patch Encoded(const TestModel& base, const TestModel& target, Level level) {
    return Must(Patch::FromBytes(PatchBetween(base, target, {.level = level, .with_names = false})));
  }
};

TEST_P(DamagedPatchTest, OfFlatBlocksIsNoticed) {
  const TestModel base = Model(120), target = Changed(base, Changes::kEvenly);
  ASSERT_EQ(MethodsOf(Encoded(base, target, Level::kFast)), std::set<Method>{Method::kSparseFlat});
  ExpectNoDamageUnnoticed(base, target, Level::kFast);
}

class DamagedMagnitudePatchTest : public DamagedPatchTest {};

TEST_P(DamagedMagnitudePatchTest, IsNoticed) {
  const TestModel base = Model(400), target = Changed(base, Changes::kByMagnitude);
  ASSERT_EQ(MethodsOf(Encoded(base, target, Level::kCompact)), std::set<Method>{Method::kSparseMagnitude});
  ExpectNoDamageUnnoticed(base, target, Level::kCompact);
}

TEST_P(DamagedPatchTest, OfDenseBlocksIsNoticed) {
  const TestModel base = Model(DTypeUnit(GetParam()) == 8 ? 40 : 80), target = Changed(base, Changes::kAll);
  ASSERT_EQ(MethodsOf(Encoded(base, target, Level::kCompact)), std::set<Method>{Method::kDense});
  ExpectNoDamageUnnoticed(base, target, Level::kCompact);
}

std::vector<DType> DTypes(bool all) {
  std::vector<DType> dtypes;
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    if (all || MagnitudeViewOf(dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}
INSTANTIATE_TEST_SUITE_P(EveryDtype, DamagedPatchTest, ::testing::ValuesIn(DTypes(true)),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });
INSTANTIATE_TEST_SUITE_P(EveryDtypeWithAnExponent, DamagedMagnitudePatchTest, ::testing::ValuesIn(DTypes(false)),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST(PatchReader, NamesFeatureBitsAndVersionsThatItDoesNotKnow) {
  PatchParts parts = PatchParts::Of(SmallPatch().bytes);
  parts.header[16] = std::byte{0x1C};
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kUnsupported, HasSubstr("0x18")));
  parts = PatchParts::Of(SmallPatch().bytes);
  parts.header[8] = std::byte{2};
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kUnsupported, HasSubstr("version 2")));
  parts = PatchParts::Of(SmallPatch().bytes);
  parts.header[12] = std::byte{1};
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kCorrupt, HasSubstr("reserved")));
  parts = PatchParts::Of(SmallPatch().bytes);
  parts.header[0] = std::byte{'P'};
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kCorrupt, HasSubstr("not a Skerry patch")));
}

TEST(PatchReader, RefusesSectionsThatAreUnknownRepeatedMissingOrOutOfOrder) {
  const Bytes bytes = SmallPatch().bytes;
  PatchParts parts = PatchParts::Of(bytes);
  parts.sections.emplace_back(8, Bytes(3));
  EXPECT_FALSE(Patch::FromBytes(parts.Sealed()));
  parts = PatchParts::Of(bytes);
  parts.sections.emplace_back(parts.sections.back());
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kCorrupt));
  parts = PatchParts::Of(bytes);
  std::swap(parts.sections[1], parts.sections[2]);
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kCorrupt));
  for (const Section kind : {Section::kInfo, Section::kTables, Section::kDirectory}) {
    parts = PatchParts::Of(bytes);
    std::erase_if(parts.sections, [&](const auto& section) { return section.first == static_cast<uint8_t>(kind); });
    EXPECT_THAT(Meaning(parts.Sealed(), SmallPatch().source), Fails(Code::kCorrupt)) << static_cast<int>(kind);
  }
  parts = PatchParts::Of(bytes);
  parts.sections.clear();
  EXPECT_THAT(Patch::FromBytes(parts.Sealed()), Fails(Code::kCorrupt, HasSubstr("info section")));
}

TEST(PatchReader, RefusesTrailingBytesInEverySection) {
  const SmallPatch small;
  for (size_t i = 0; i < PatchParts::Of(small.bytes).sections.size(); ++i) {
    PatchParts parts = PatchParts::Of(small.bytes);
    parts.sections[i].second.push_back(std::byte{0});
    EXPECT_THAT(Meaning(parts.Sealed(), small.source), Fails(Code::kCorrupt)) << "section " << i;
    parts = PatchParts::Of(small.bytes);
    parts.sections[i].second.pop_back();
    EXPECT_THAT(Meaning(parts.Sealed(), small.source), Fails(Code::kCorrupt)) << "section " << i;
  }
}

// Every byte of every section set to a few telling values, with all checksums made right: no crash, and the blocks stay
// inside the model.
TEST(PatchReader, SectionsDamagedUnderRightChecksumsNeverLeadOutsideTheModel) {
  const SmallPatch small;
  const PatchParts whole = PatchParts::Of(small.bytes);
  for (size_t section = 0; section < whole.sections.size(); ++section) {
    for (size_t at = 0; at < whole.sections[section].second.size(); ++at) {
      for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        PatchParts parts = whole;
        parts.sections[section].second[at] = static_cast<std::byte>(value);
        const Result<Patch> patch = Patch::FromBytes(parts.Sealed());
        if (!patch) continue;
        const auto blocks = patch->Place(small.source.layout());
        if (!blocks) continue;
        for (const PlacedBlock& block : *blocks) {
          for (const BlockRun& run : block.runs) {
            ASSERT_LE(run.first_unit + run.units, small.source.layout().tensors()[run.tensor].units());
          }
        }
        (void)Decoded(*patch, small.source, small.source.layout());
      }
    }
  }
}

Bytes DirectoryEntry(uint64_t skip, int cells, int method, uint64_t changed, uint64_t size, uint32_t checksum = 0) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.Varint(skip);
  writer.Int<uint8_t>(static_cast<uint8_t>(cells - 1));
  writer.Int<uint8_t>(static_cast<uint8_t>(method));
  writer.Varint(changed);
  writer.Varint(size);
  writer.Int<uint32_t>(checksum);
  return bytes;
}

Bytes WithOneBlock(const Bytes& entry, size_t payload, uint64_t announced_changes, uint64_t announced_blocks = 1) {
  PatchParts parts = PatchParts::Of(SmallPatch().bytes);
  parts.payloads.assign(payload, std::byte{0});
  parts.section(Section::kDirectory) = entry;
  std::erase_if(parts.sections,
                [](const auto& section) { return section.first == static_cast<uint8_t>(Section::kNames); });
  Bytes& info = parts.section(Section::kInfo);
  info.resize(5 * Digest::kSize);
  ByteWriter writer(info);
  writer.Varint(ModelSource(TinyModel()).layout().total_units());
  writer.Varint(announced_changes);
  writer.Varint(announced_blocks);
  return parts.Sealed();
}

TEST(PatchReader, RefusesDirectoriesThatDoNotAddUp) {
  ASSERT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 20, 5)), Succeeds())
      << "the rest differs by one thing";
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 20, 6)),
              Fails(Code::kCorrupt, HasSubstr("5 changes")));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 21, 5)),
              Fails(Code::kCorrupt, HasSubstr("20 bytes of 21")));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 19, 5)), Fails(Code::kCorrupt));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 20, 5, 2)), Fails(Code::kCorrupt));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 3, 5, 20), 20, 5)),
              Fails(Code::kCorrupt, HasSubstr("method 3")));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 65, 1, 5, 20), 20, 5)),
              Fails(Code::kCorrupt, HasSubstr("65 cells")));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 0, 20), 20, 0)),
              Fails(Code::kCorrupt, HasSubstr("0 changes")));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(~uint64_t{0}, 1, 1, 5, 20), 20, 5)), Fails(Code::kCorrupt));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, ~uint64_t{0}), 20, 5)), Fails(Code::kCorrupt));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 20, ~uint64_t{0})), Fails(Code::kCorrupt));
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(DirectoryEntry(0, 1, 1, 5, 20), 20, 5, ~uint64_t{0})),
              Fails(Code::kCorrupt));
  // Over-long varints: 0 as 80 00.
  Bytes over_long = DirectoryEntry(0, 1, 1, 5, 20);
  over_long[0] = std::byte{0x80};
  over_long.insert(over_long.begin() + 1, std::byte{0});
  EXPECT_THAT(Patch::FromBytes(WithOneBlock(over_long, 20, 5)), Fails(Code::kCorrupt));
}

TEST(PatchReader, RefusesBlocksThatLeaveTheModelOrTheirDtype) {
  const Layout layout = ModelSource(TinyModel()).layout();
  const auto placed = [&](const Bytes& bytes) { return Must(Patch::FromBytes(bytes)).Place(layout); };
  EXPECT_THAT(placed(WithOneBlock(DirectoryEntry(2, 1, 1, 5, 20), 20, 5)), Succeeds()) << "the third tensor";
  EXPECT_THAT(placed(WithOneBlock(DirectoryEntry(3, 1, 1, 5, 20), 20, 5)), Fails(Code::kCorrupt))
      << "there is no fourth";
  EXPECT_THAT(placed(WithOneBlock(DirectoryEntry(0, 2, 1, 5, 20), 20, 5)),
              Fails(Code::kCorrupt, HasSubstr("cells 0 to 2 are of BF16 and F32")));
  EXPECT_THAT(placed(WithOneBlock(DirectoryEntry(1, 1, 1, 65, 20), 20, 65)),
              Fails(Code::kCorrupt, HasSubstr("65 changes among 64 units")));
}

TEST(PatchReader, PlacesNothingInALayoutWithAnotherNumberOfUnits) {
  TestModel other = TinyModel();
  other.tensors.pop_back();
  EXPECT_THAT(Must(Patch::FromBytes(SmallPatch().bytes)).Place(ModelSource(other).layout()), Fails(Code::kCorrupt));
}

TEST(PatchReader, RefusesUnsafeSideFilePaths) {
  const ModelSource source(TinyModel());
  const auto with_path = [&](std::string_view path) {
    return Patch::FromBytes(PatchBetween(source, source, {}, {{.path = std::string(path), .content = Bytes(1)}}));
  };
  EXPECT_THAT(with_path("folder/config.json"), Succeeds());
  for (const char* path : {"", "/etc/passwd", "../x", "a/../x", "a//b", ".hidden", "a/.git/config", "a\\b", "a\"b",
                           "a\nb", "model.safetensors", "./a", "a/"}) {
    EXPECT_THAT(with_path(path), Fails(Code::kCorrupt)) << path;
  }
  EXPECT_THAT(with_path(std::string(1025, 'x')), Fails(Code::kCorrupt));
  EXPECT_THAT(with_path(std::string("a\0b", 3)), Fails(Code::kCorrupt));
}

TEST(PatchReader, RefusesSideFilesTwiceOrOutOfOrder) {
  const ModelSource source(TinyModel());
  const auto with_paths = [&](std::string first, std::string second) {
    return Patch::FromBytes(PatchBetween(
        source, source, {},
        {{.path = std::move(first), .content = Bytes(1)}, {.path = std::move(second), .content = std::nullopt}}));
  };
  EXPECT_THAT(with_paths("a", "b"), Succeeds());
  EXPECT_THAT(with_paths("a", "a"), Fails(Code::kCorrupt, HasSubstr("'a'")));
  EXPECT_THAT(with_paths("b", "a"), Fails(Code::kCorrupt, HasSubstr("'a'")));
}

TEST(PatchReader, AWrongBaseShowsInTheBlocksChecksum) {
  SmallPatch small;
  TestModel other = small.base;
  other.Nudge(1, *std::make_unique<Random>(3));
  EXPECT_THAT(Decoded(Must(Patch::FromBytes(small.bytes)), ModelSource(other), small.source.layout()),
              Fails(Code::kCorrupt, AnyOf(HasSubstr("checksum"), HasSubstr("step is wider"))));
}

TEST(Patch, OpensAFileLikeItsBytesAndNamesItInErrors) {
  const SmallPatch small;
  const TempDir directory;
  WriteText(directory / "p.skerry", AsText(small.bytes));
  for (const char* failpoints : {"", "file.map:errno=12"}) {
    const WithFailpoints with(failpoints);
    const Patch patch = Must(Patch::Open(directory / "p.skerry"));
    EXPECT_EQ(Must(Decoded(patch, small.source, small.source.layout())), TensorsOf(ModelSource(small.target)));
  }
  WriteText(directory / "bad.skerry", AsText(small.bytes).substr(1));
  EXPECT_THAT(Patch::Open(directory / "bad.skerry"), Fails(Code::kCorrupt, HasSubstr("bad.skerry")));
  EXPECT_THAT(Patch::Open(directory / "none.skerry"), Fails(Code::kNotFound, HasSubstr("none.skerry")));
}

}  // namespace
}  // namespace skerry
