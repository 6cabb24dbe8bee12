// Kills the writer at each of its numbered steps and looks at what the next one finds; and lets each system call fail.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "skerry/base/failpoint.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/file_store.h"

namespace skerry {
namespace {

class FileStoreDeathTest : public testing::Test {
 protected:
  ~FileStoreDeathTest() override { SetFailpoints(""); }
  std::string Text(std::string_view key) {
    const Result<Object> object = store_->Get(key, 1 << 20);
    return object ? ToString(object->bytes) : "<" + CodeOf(object) + ">";
  }
  // Runs `step` in a process that dies at `failpoint`.
  template <typename Step>
  void DieAt(std::string_view failpoint, Step step) {
    EXPECT_EXIT(
        {
          SetFailpoints(std::string(failpoint) + ":kill");
          step();
          std::exit(0);
        },
        testing::KilledBySignal(SIGKILL), "");
  }
  ScratchDirectory scratch_;
  std::shared_ptr<FileStore> store_ = FileStore::Open(scratch_.path(), false).value();
};

TEST_F(FileStoreDeathTest, WriterKilledBeforeTheLinkLeavesNoObject) {
  DieAt("store.temp_written", [&] { (void)store_->PutIfAbsent("k", MemorySource("bytes")); });
  EXPECT_EQ(Text("k"), "<not_found>");
  EXPECT_TRUE(store_->List("").value().empty());
  EXPECT_FALSE(std::filesystem::is_empty(scratch_.path())) << "the stray temporary file";
  EXPECT_TRUE(store_->PutIfAbsent("k", MemorySource("other bytes")));
  EXPECT_EQ(Text("k"), "other bytes");
}

TEST_F(FileStoreDeathTest, WriterKilledAfterTheLinkLeavesTheWholeObject) {
  DieAt("store.object_linked", [&] { (void)store_->PutIfAbsent("k", MemorySource("bytes")); });
  EXPECT_EQ(Text("k"), "bytes");
  EXPECT_EQ(store_->List("").value(), std::vector<std::string>{"k"});
  EXPECT_TRUE(store_->PutIfAbsent("k", MemorySource("bytes")));
  EXPECT_EQ(CodeOf(store_->PutIfAbsent("k", MemorySource("other"))), "conflict");
}

TEST_F(FileStoreDeathTest, SwapKilledBeforeTheRenameLeavesTheOldPointerAndNoLock) {
  const Generation old = store_->CompareAndSwap("head", std::nullopt, AsBytes("old")).value();
  for (const std::string_view failpoint : {"store.cas_locked", "store.cas_temp_written"}) {
    DieAt(failpoint, [&] { (void)store_->CompareAndSwap("head", old, AsBytes("new")); });
    EXPECT_EQ(Text("head"), "old") << failpoint;
  }
  EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("newer"))), "ok") << "the lock went with its holder";
}

TEST_F(FileStoreDeathTest, SwapKilledAfterTheRenameLeavesTheNewPointer) {
  const Generation old = store_->CompareAndSwap("head", std::nullopt, AsBytes("old")).value();
  DieAt("store.cas_renamed", [&] { (void)store_->CompareAndSwap("head", old, AsBytes("new")); });
  EXPECT_EQ(Text("head"), "new");
  EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("newer"))), "conflict");
}

class FileStoreFailure : public FileStoreDeathTest {};

TEST_F(FileStoreFailure, OfAPutLeavesNothingAndNamesTheReason) {
  const std::string block(10'000, 'x');
  for (const std::string_view failpoint : {"file.write", "file.sync", "file.link", "store.temp_written"}) {
    SetFailpoints(std::string(failpoint) + ":errno=28");
    EXPECT_EQ(CodeOf(store_->PutIfAbsent("k", MemorySource(block))), "no_space") << failpoint;
    SetFailpoints("");
    EXPECT_EQ(Text("k"), "<not_found>") << failpoint;
    EXPECT_TRUE(std::filesystem::is_empty(scratch_.path())) << failpoint;
  }
}

TEST_F(FileStoreFailure, OfASwapBeforeTheRenameKeepsTheOldPointer) {
  const Generation old = store_->CompareAndSwap("head", std::nullopt, AsBytes("old")).value();
  for (const std::string_view failpoint :
       {"file.lock", "file.write", "file.rename", "store.cas_locked", "store.cas_temp_written"}) {
    SetFailpoints(std::string(failpoint) + ":errno=28");
    EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("new"))), "no_space") << failpoint;
    SetFailpoints("");
    EXPECT_EQ(Text("head"), "old") << failpoint;
    EXPECT_EQ(store_->List("").value().size(), 1u) << failpoint;
  }
}

// The n-th fsync fails: what is visible then tells what was synced before what.
TEST_F(FileStoreFailure, ShowsThatTheFileIsSyncedBeforeItsNameAndTheDirectoryAfter) {
  const Generation old = store_->CompareAndSwap("head", std::nullopt, AsBytes("old")).value();
  const std::string block(10'000, 'x');
  SetFailpoints("file.sync:errno=5@1");
  EXPECT_EQ(CodeOf(store_->PutIfAbsent("k", MemorySource(block))), "io");
  EXPECT_EQ(Text("k"), "<not_found>");
  SetFailpoints("file.sync:errno=5@2");
  EXPECT_EQ(CodeOf(store_->PutIfAbsent("k", MemorySource(block))), "io");
  EXPECT_EQ(Text("k"), block);
  SetFailpoints("file.sync:errno=5@1");
  EXPECT_EQ(CodeOf(store_->PutIfAbsent("k", MemorySource(block))), "io") << "a repeat makes the name durable, too";
  SetFailpoints("file.sync:errno=5@1");
  EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("new"))), "io");
  EXPECT_EQ(Text("head"), "old");
  SetFailpoints("file.sync:errno=5@2");
  EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("new"))), "io");
  EXPECT_EQ(Text("head"), "new");
  SetFailpoints("file.sync:errno=5@3");
  EXPECT_EQ(CodeOf(store_->PutIfAbsent("new/k", MemorySource(block))), "io") << "the new directory's name is the first";
  EXPECT_EQ(Text("new/k"), block);
}

TEST_F(FileStoreFailure, AfterTheRenameIsReportedAlthoughThePointerMoved) {
  const Generation old = store_->CompareAndSwap("head", std::nullopt, AsBytes("old")).value();
  SetFailpoints("store.cas_renamed:error");
  EXPECT_EQ(CodeOf(store_->CompareAndSwap("head", old, AsBytes("new"))), "io");
  EXPECT_EQ(Text("head"), "new");
}

}  // namespace
}  // namespace skerry
