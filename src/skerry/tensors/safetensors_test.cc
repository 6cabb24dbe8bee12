#include "skerry/tensors/safetensors.h"

#include "skerry/base/mapped_file.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<SafetensorsHeader> Parse(std::string_view json) { return ParseSafetensorsHeader(json); }

Result<SafetensorsFile> ReadBytes(std::string_view bytes) {
  const TempDir directory;
  WriteText(directory / "m.safetensors", bytes);
  SKERRY_ASSIGN(const FileReader reader, FileReader::Open(directory / "m.safetensors"));
  return ReadSafetensorsHeader(reader);
}
std::string FileText(std::string_view header, size_t data_bytes) {
  return ToString(SafetensorsBytes(header, Bytes(data_bytes)));
}

constexpr std::string_view kW = R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheFile) {
  const SafetensorsHeader header =
      Must(Parse(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                 R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})"));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype, DType::kBF16);
  EXPECT_EQ(header.tensors[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 4u);
  EXPECT_EQ(header.data_bytes, 16u);
}

TEST(SafetensorsHeader, KnowsEveryDtypeByItsSize) {
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    const int bytes = 8 * DTypeBits(dtype) / 8;
    const auto header = [&](int size) {
      return Parse(
          fmt::format(R"({{"w":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}}}})", DTypeName(dtype), size));
    };
    EXPECT_EQ(Must(header(bytes)).tensors[0].dtype, dtype);
    EXPECT_THAT(header(bytes + 1), Fails(Code::kCorrupt, HasSubstr("'w'"))) << DTypeName(dtype);
    EXPECT_THAT(header(bytes - 1), Fails(Code::kCorrupt, HasSubstr("'w'"))) << DTypeName(dtype);
  }
}

TEST(SafetensorsHeader, RefusesPackedElementsThatDoNotFillBytes) {
  EXPECT_THAT(Parse(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})"),
              Fails(Code::kCorrupt, HasSubstr("whole bytes")));
  EXPECT_THAT(Parse(R"({"w":{"dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2]}})"),
              Fails(Code::kCorrupt, HasSubstr("whole bytes")));
  EXPECT_THAT(Parse(R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})"), Succeeds());
  EXPECT_THAT(Parse(R"({"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})"), Succeeds());
}

TEST(SafetensorsHeader, RefusesHolesAndOverlaps) {
  const auto two = [](int begin, int end) {
    return Parse(fmt::format(
        R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},"b":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})",
        begin, end));
  };
  EXPECT_THAT(two(4, 8), Succeeds());
  EXPECT_THAT(two(5, 9), Fails(Code::kCorrupt, AllOf(HasSubstr("'b'"), HasSubstr("hole"))));
  EXPECT_THAT(two(3, 7), Fails(Code::kCorrupt, AllOf(HasSubstr("'b'"), HasSubstr("overlap"))));
  EXPECT_THAT(two(0, 4), Fails(Code::kCorrupt, HasSubstr("overlap")));
  EXPECT_THAT(Parse(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})"),
              Fails(Code::kCorrupt, HasSubstr("hole")));
}

TEST(SafetensorsHeader, RefusesEveryTruncationOfItsText) {
  for (size_t size = 0; size < kW.size(); ++size) EXPECT_THAT(Parse(kW.substr(0, size)), Fails(Code::kCorrupt)) << size;
  EXPECT_THAT(Parse(kW), Succeeds());
}

TEST(SafetensorsHeader, RefusesWhatIsNotTheShapeOfAHeader) {
  for (const char* text : {"[]",
                           "null",
                           "{}{}",
                           "{} x",
                           R"({"w":1})",
                           R"({"w":null})",
                           R"({"w":[]})",
                           R"({"w":{}})",
                           R"({"w":{"dtype":"U8","shape":[4]}})",
                           R"({"w":{"dtype":"U8","data_offsets":[0,4]}})",
                           R"({"w":{"shape":[4],"data_offsets":[0,4]}})",
                           R"({"w":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})",
                           R"({"w":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})",
                           R"({"w":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})",
                           R"({"w":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}})",
                           R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})",
                           R"({"w":{"dtype":"U8","shape":[true],"data_offsets":[0,4]}})",
                           R"({"__metadata__":1})",
                           R"({"__metadata__":{"a":1}})",
                           R"({"__metadata__":{"a":{}}})",
                           R"({"__metadata__":[]})"}) {
    EXPECT_THAT(Parse(text), Fails(Code::kCorrupt)) << text;
  }
  EXPECT_THAT(Parse("{\"w\xFF\":{}}"), Fails(Code::kCorrupt)) << "not UTF-8";
}

TEST(SafetensorsHeader, LimitsNamesAndRanks) {
  const auto with_name = [](size_t size) {
    return Parse(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}})", std::string(size, 'n')));
  };
  EXPECT_THAT(with_name(kMaxTensorNameBytes), Succeeds());
  EXPECT_THAT(with_name(kMaxTensorNameBytes + 1), Fails(Code::kCorrupt));
  const auto with_rank = [](size_t rank) {
    std::string shape = "4";
    for (size_t i = 1; i < rank; ++i) shape += ",1";
    return Parse(fmt::format(R"({{"w":{{"dtype":"U8","shape":[{}],"data_offsets":[0,4]}}}})", shape));
  };
  EXPECT_THAT(with_rank(kMaxRank), Succeeds());
  EXPECT_THAT(with_rank(kMaxRank + 1), Fails(Code::kCorrupt, HasSubstr("axes")));
}

TEST(SafetensorsHeader, DeepNestingIsRefusedWithoutDescending) {
  EXPECT_THAT(Parse("{\"w\":" + std::string(1'000'000, '[')), Fails(Code::kCorrupt));
  EXPECT_THAT(Parse("{\"w\":" + std::string(1'000'000, '{')), Fails(Code::kCorrupt));
}

TEST(FieldCase, B1_DuplicateKeysAreRefusedByName) {
  const std::string w4 = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_THAT(Parse("{" + w4 + R"(,"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Fails(Code::kCorrupt, HasSubstr("'w'")));
  EXPECT_THAT(Parse("{" + w4 + "," + w4 + "}"), Fails(Code::kCorrupt, HasSubstr("'w'")));
  EXPECT_THAT(Parse("{" + w4 + R"(,"w":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})"),
              Fails(Code::kCorrupt, HasSubstr("'w'")));
  EXPECT_THAT(Parse("{" + w4 + R"(,"\u0077":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Fails(Code::kCorrupt, HasSubstr("'w'")));
  EXPECT_THAT(Parse(R"({"__metadata__":{},"__metadata__":{}})"), Fails(Code::kCorrupt, HasSubstr("__metadata__")));
  EXPECT_THAT(Parse(R"({"__metadata__":{"a":"1","a":"2"}})"), Fails(Code::kCorrupt, HasSubstr("'a'")));
  EXPECT_THAT(Parse(R"({"w":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})"),
              Fails(Code::kCorrupt, AllOf(HasSubstr("'w'"), HasSubstr("'dtype'"))));
  EXPECT_THAT(Parse(R"({"w":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})"),
              Fails(Code::kCorrupt, HasSubstr("'shape'")));
}

TEST(FieldCase, B3_WhiteSpaceBehindTheHeaderIsFineAndBeforeItIsRefused) {
  EXPECT_EQ(Must(ReadBytes(FileText("{}\r \t\n", 0))).header.tensors.size(), 0u);
  EXPECT_EQ(Must(ReadBytes(FileText("{}\r \t\n", 0))).json, "{}\r \t\n") << "kept verbatim";
  EXPECT_THAT(ReadBytes(FileText("\t\n{}\r ", 0)), Fails(Code::kCorrupt, HasSubstr("begin with '{'")));
  EXPECT_THAT(Parse(std::string("{}\0", 3)), Fails(Code::kCorrupt, HasSubstr("NUL")));
  EXPECT_THAT(Parse(std::string("{}\0\xFF garbage", 12)), Fails(Code::kCorrupt, HasSubstr("NUL")));
  EXPECT_THAT(Parse("\xEF\xBB\xBF{}"), Fails(Code::kCorrupt)) << "a byte order mark";
}

TEST(FieldCase, B4_BytesAfterTheLastTensorAreRefusedWithBothSizes) {
  EXPECT_THAT(ReadBytes(FileText(kW, 4)), Succeeds());
  const size_t right = 8 + kW.size() + 4;
  for (const size_t extra : {size_t{1}, size_t{1} << 20}) {
    EXPECT_THAT(
        ReadBytes(FileText(kW, 4 + extra)),
        Fails(Code::kCorrupt, AllOf(HasSubstr(std::to_string(right)), HasSubstr(std::to_string(right + extra)))));
  }
}

TEST(FieldCase, B5_EveryKindOfTruncationHasItsOwnError) {
  const std::string whole = FileText(kW, 4);
  EXPECT_THAT(ReadBytes(whole.substr(0, whole.size() - 1)), Fails(Code::kCorrupt, HasSubstr("truncated")));
  EXPECT_THAT(ReadBytes(whole.substr(0, 20)), Fails(Code::kCorrupt, HasSubstr("only 12 follow")));
  EXPECT_THAT(ReadBytes(whole.substr(0, 7)), Fails(Code::kCorrupt, HasSubstr("7 bytes")));
  EXPECT_THAT(ReadBytes(""), Fails(Code::kCorrupt, HasSubstr("0 bytes")));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ReadBytes(whole.substr(0, size)), Fails(Code::kCorrupt, HasSubstr("m.safetensors"))) << size;
  }
}

TEST(FieldCase, B6_OffsetsThatAreNotTheShapesAreRefused) {
  const auto with = [](std::string_view shape, std::string_view offsets) {
    return Parse(fmt::format(R"({{"w":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets));
  };
  EXPECT_THAT(with("[1000,1000]", "[0,4]"),
              Fails(Code::kCorrupt, AllOf(HasSubstr("'w'"), HasSubstr("4000000"), HasSubstr("4"))));
  EXPECT_THAT(with("[1]", "[4,0]"), Fails(Code::kCorrupt, HasSubstr("begin at 4 but end at 0")));
  EXPECT_THAT(with("[1]", "[-4,0]"), Fails(Code::kCorrupt, HasSubstr("-4")));
  EXPECT_THAT(with("[1]", "[0.0,4.0]"), Fails(Code::kCorrupt, HasSubstr("0.0")));
  EXPECT_THAT(with("[1]", "[0,4e0]"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("[1]", "[0,4,8]"), Fails(Code::kCorrupt, HasSubstr("more than 2")));
  EXPECT_THAT(with("[1]", "[0]"), Fails(Code::kCorrupt, HasSubstr("1 numbers")));
  EXPECT_THAT(with("[-1]", "[0,4]"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("[1.5]", "[0,4]"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("[1]", "[0,18446744073709551616]"), Fails(Code::kCorrupt));
}

TEST(FieldCase, B8_AShapeWhoseProductOverflowsIsRefusedAndNotWrapped) {
  const auto with = [](std::string_view shape) {
    return Parse(fmt::format(R"({{"w":{{"dtype":"I32","shape":{},"data_offsets":[0,16]}}}})", shape));
  };
  EXPECT_THAT(with("[2,18446744073709551614]"), Fails(Code::kCorrupt, HasSubstr("overflows")));
  EXPECT_THAT(with("[2,9223372036854775807]"), Fails(Code::kCorrupt, HasSubstr("overflows")));
  EXPECT_THAT(with("[4294967296,4294967297]"), Fails(Code::kCorrupt, HasSubstr("overflows")));
  EXPECT_THAT(with("[4611686018427387908]"), Fails(Code::kCorrupt, HasSubstr("overflows")))
      << "2^62 + 4 elements of 4 bytes wrap to 16";
  EXPECT_THAT(with("[4]"), Succeeds());
}

TEST(FieldCase, B10_OtherKindsOfFilesAreCalledByTheirName) {
  const std::string lfs =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 123456\n";
  EXPECT_THAT(ReadBytes(lfs), Fails(Code::kCorrupt, HasSubstr("LFS pointer")));
  EXPECT_THAT(ReadBytes(R"(<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>)"),
              Fails(Code::kCorrupt, HasSubstr("XML error body")));
  EXPECT_THAT(ReadBytes("<!DOCTYPE html><html>"), Fails(Code::kCorrupt, HasSubstr("HTML")));
  EXPECT_THAT(ReadBytes("PK\x03\x04" + std::string(100, 'x')), Fails(Code::kCorrupt, HasSubstr("zip")));
  EXPECT_THAT(ReadBytes(std::string(100, '\xFF')), Fails(Code::kCorrupt, HasSubstr("over the limit")));
  EXPECT_THAT(ReadBytes(std::string(100, 'x')), Fails(Code::kCorrupt, Not(HasSubstr("LFS"))));
}

TEST(FieldCase, B11_MetadataMayBeEmptyAbsentOrLookLikeATensorsName) {
  EXPECT_THAT(Parse(R"({"__metadata__":{}})"), Succeeds());
  EXPECT_THAT(Parse("{}"), Succeeds());
  const SafetensorsHeader header =
      Must(Parse(R"({"__metadata__x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{}})"));
  ASSERT_EQ(header.tensors.size(), 1u);
  EXPECT_EQ(header.tensors[0].name, "__metadata__x");
}

TEST(FieldCase, A19_EmptyAndScalarTensorsAreRead) {
  const SafetensorsHeader header = Must(Parse(
      R"({"a":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]},)"
      R"("c":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"d":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}})"));
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].shape, std::vector<uint64_t>{0});
  EXPECT_EQ(header.tensors[1].shape, (std::vector<uint64_t>{2, 0}));
  EXPECT_EQ(header.tensors[2].shape, std::vector<uint64_t>());
  EXPECT_EQ(header.data_bytes, 6u);
  // An empty one may stand between and behind others as well.
  EXPECT_THAT(
      Parse(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"z":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})"),
      Succeeds());
  EXPECT_THAT(
      Parse(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})"),
      Fails(Code::kCorrupt));
}

TEST(FieldCase, A21_AnUnknownDtypeIsNamedWithFileAndTensor) {
  EXPECT_THAT(ReadBytes(FileText(R"({"w.x":{"dtype":"F8_E3M4","shape":[4],"data_offsets":[0,4]}})", 4)),
              Fails(Code::kCorrupt, AllOf(HasSubstr("m.safetensors"), HasSubstr("'w.x'"), HasSubstr("'F8_E3M4'"))));
}

}  // namespace
}  // namespace skerry
