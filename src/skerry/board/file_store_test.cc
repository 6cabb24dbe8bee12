#include "skerry/board/file_store.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skerry/base/failpoint.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/store_conformance.h"

namespace skerry {
namespace {

struct DirectoryBackend {
  ScratchDirectory scratch;
  std::shared_ptr<Store> store = FileStore::Open(scratch.path() / "board", true).value();
  static constexpr int kRaceThreads = 32;
  static constexpr int kRaceRounds = 200;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Directory, StoreConformance, DirectoryBackend);

// A file system that answers link() with EPERM, as FAT and some FUSE mounts do.
std::shared_ptr<FileStore> OpenWithoutHardLinks(const Path& path) {
  SetFailpoints("file.link:errno=1");
  std::shared_ptr<FileStore> store = FileStore::Open(path, true).value();
  return store;
}
struct NoHardLinksBackend {
  NoHardLinksBackend() : store(OpenWithoutHardLinks(scratch.path())) {}
  ~NoHardLinksBackend() { SetFailpoints(""); }
  ScratchDirectory scratch;
  std::shared_ptr<Store> store;
  static constexpr int kRaceThreads = 8;
  static constexpr int kRaceRounds = 10;
};
INSTANTIATE_TYPED_TEST_SUITE_P(DirectoryWithoutHardLinks, StoreConformance, NoHardLinksBackend);

class FileStoreTest : public testing::Test {
 protected:
  ~FileStoreTest() override { SetFailpoints(""); }
  std::shared_ptr<FileStore> Open() { return FileStore::Open(scratch_.path(), false).value(); }
  size_t FilesIn(const Path& directory) {
    const std::filesystem::directory_iterator files(directory);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  ino_t Inode(const Path& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_ino;
  }
  ScratchDirectory scratch_;
};

TEST_F(FileStoreTest, OpensNoDirectoryThatIsNotThere) {
  EXPECT_EQ(CodeOf(FileStore::Open(scratch_.path() / "missing", false)), "not_found");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "missing"));
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() / "file", AsBytes("x")));
  EXPECT_EQ(CodeOf(FileStore::Open(scratch_.path() / "file", true)), "invalid");
}

TEST_F(FileStoreTest, TakesAPathWithATrailingSlashOrDots) {
  const std::string odd = scratch_.path().string() + "/a/./b/../";
  const auto store = FileStore::Open(odd, true).value();
  ASSERT_TRUE(store->PutIfAbsent("k/l", MemorySource("x")));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "a/k/l"));
}

TEST_F(FileStoreTest, LeavesNothingBesideTheObject) {
  const auto store = Open();
  ASSERT_TRUE(store->PutIfAbsent("k", MemorySource("x")));
  EXPECT_EQ(FilesIn(scratch_.path()), 1u);
  ASSERT_TRUE(store->PutIfAbsent("k", MemorySource("x")));
  ASSERT_FALSE(store->PutIfAbsent("k", MemorySource("y")));
  EXPECT_EQ(FilesIn(scratch_.path()), 1u);
}

TEST_F(FileStoreTest, NeverShowsTemporaryOrLockFiles) {
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() / ".tmp-1-stray", AsBytes("half an obj")));
  const auto store = Open();
  ASSERT_TRUE(store->CompareAndSwap("head", std::nullopt, AsBytes("1")));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / ".head.lock"));
  EXPECT_EQ(store->List("").value(), std::vector<std::string>{"head"});
  EXPECT_EQ(store->ListNames("").value(), std::vector<std::string>{"head"});
  EXPECT_EQ(CodeOf(store->Get(".tmp-1-stray", 100)), "invalid");
}

TEST_F(FileStoreTest, CopiesAFileUnlessItMayBeShared) {
  const Path source = scratch_.path() / ".source";
  ASSERT_TRUE(WriteFileAtomically(source, AsBytes("patch")));
  const auto store = Open();
  ASSERT_TRUE(store->PutIfAbsent("copied", FileSource::Open(source).value()));
  ASSERT_TRUE(store->PutIfAbsent("shared", FileSource::Open(source, true).value()));
  EXPECT_NE(Inode(scratch_.path() / "copied"), Inode(source));
  EXPECT_EQ(Inode(scratch_.path() / "shared"), Inode(source));
  EXPECT_EQ(AsText(store->Get("copied", 10)->bytes), "patch");
  EXPECT_TRUE(store->PutIfAbsent("shared", FileSource::Open(source, true).value()));
  ASSERT_TRUE(WriteFileAtomically(source, AsBytes("other")));
  EXPECT_EQ(CodeOf(store->PutIfAbsent("shared", FileSource::Open(source, true).value())), "conflict");
  EXPECT_EQ(CodeOf(store->PutIfAbsent("copied", FileSource::Open(source).value())), "conflict");
}

TEST_F(FileStoreTest, CopiesWhereSharingIsNotPossible) {
  const Path source = scratch_.path() / ".source";
  ASSERT_TRUE(WriteFileAtomically(source, AsBytes("patch")));
  const auto store = OpenWithoutHardLinks(scratch_.path());
  ASSERT_TRUE(store->PutIfAbsent("k", FileSource::Open(source, true).value()));
  EXPECT_NE(Inode(scratch_.path() / "k"), Inode(source));
}

TEST_F(FileStoreTest, RefusesToPutAnObjectBelowAnother) {
  const auto store = Open();
  ASSERT_TRUE(store->PutIfAbsent("a", MemorySource("x")));
  EXPECT_EQ(CodeOf(store->PutIfAbsent("a/b", MemorySource("x"))), "conflict");
}

TEST_F(FileStoreTest, WorksOnAfterSomebodyRemovedItsDirectories) {
  const auto store = Open();
  ASSERT_TRUE(store->PutIfAbsent("runs/a/1", MemorySource("x")));
  std::filesystem::remove_all(scratch_.path() / "runs");
  EXPECT_EQ(CodeOf(store->PutIfAbsent("runs/a/2", MemorySource("x"))), "ok");
}

TEST_F(FileStoreTest, HoldsNoDescriptorBetweenCalls) {
  const auto store = Open();
  const size_t before = FilesIn("/proc/self/fd");
  ASSERT_TRUE(store->PutIfAbsent("k", MemorySource("x")));
  ASSERT_TRUE(store->CompareAndSwap("head", std::nullopt, AsBytes("1")));
  ASSERT_TRUE(store->Get("k", 10));
  EXPECT_EQ(FilesIn("/proc/self/fd"), before);
}

TEST_F(FileStoreTest, SweepsTemporaryFilesOfDeadWritersAndAncientOnes) {
  const auto store = Open();
  ASSERT_TRUE(store->PutIfAbsent("runs/a/1", MemorySource("x")));
  ASSERT_TRUE(store->CompareAndSwap("head", std::nullopt, AsBytes("1")));
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const auto leave = [&](const std::string& name, std::chrono::hours age) {
    const Path path = scratch_.path() / name;
    ASSERT_TRUE(WriteFileAtomically(path, AsBytes("half")));
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
  };
  leave(fmt::format("runs/a/.tmp-{}-aa", dead), std::chrono::hours(2));
  leave(fmt::format("runs/a/.tmp-{}-bb", dead), std::chrono::hours(0));
  leave(fmt::format("runs/.tmp-{}-cc", ::getpid()), std::chrono::hours(2));
  leave(fmt::format("runs/.tmp-{}-dd", ::getpid()), std::chrono::hours(25));
  leave("runs/.tmp-x-ee", std::chrono::hours(100));
  leave("runs/.hidden", std::chrono::hours(100));
  EXPECT_EQ(store->SweepLeftovers(std::chrono::hours(1)).value(), 2u);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / fmt::format("runs/a/.tmp-{}-aa", dead)));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / fmt::format("runs/a/.tmp-{}-bb", dead)));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / fmt::format("runs/.tmp-{}-cc", ::getpid())));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / fmt::format("runs/.tmp-{}-dd", ::getpid())));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "runs/.tmp-x-ee"));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "runs/.hidden"));
  EXPECT_EQ(store->List("").value(), (std::vector<std::string>{"head", "runs/a/1"}));
  EXPECT_EQ(store->SweepLeftovers(std::chrono::hours(1)).value(), 0u);
}

TEST_F(FileStoreTest, CountsEveryIncrementOfSeveralProcesses) {
  constexpr int kProcesses = 4, kIncrements = 25;
  ASSERT_TRUE(Open()->CompareAndSwap("counter", std::nullopt, AsBytes("0")));
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto store = Open();
      for (int done = 0; done < kIncrements;) {
        const Result<Object> now = store->Get("counter", 100);
        if (!now) ::_exit(1);
        const std::string next = std::to_string(std::stoi(ToString(now->bytes)) + 1);
        const Result<Generation> swapped = store->CompareAndSwap("counter", now->generation, AsBytes(next));
        if (swapped) ++done;
        if (!swapped && swapped.error().code != Code::kConflict) ::_exit(2);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(AsText(Open()->Get("counter", 100)->bytes), std::to_string(kProcesses * kIncrements));
}

}  // namespace
}  // namespace skerry
