#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <filesystem>

#include "peers.h"
#include "zstd_frames.h"

extern char** environ;

namespace skerry {
namespace {

// As `zstd --patch-from` sets it up: a window over both files, long-distance matching.
Result<uint64_t> PatchFrom(const Path& before, const Path& after, int level) {
  SKERRY_ASSIGN(const FileReader old, FileReader::Open(before));
  SKERRY_ASSIGN(const FileReader now, FileReader::Open(after));
  Bytes old_scratch, now_scratch;
  SKERRY_ASSIGN(const ByteSpan prefix, old.Read(0, old.size(), old_scratch));
  SKERRY_ASSIGN(const ByteSpan bytes, now.Read(0, now.size(), now_scratch));
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const int window = static_cast<int>(std::bit_width(std::max(prefix.size(), bytes.size()))) + 1;
  CheckZstd(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level));
  CheckZstd(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, std::clamp(window, 10, 31)));
  CheckZstd(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_enableLongDistanceMatching, 1));
  CheckZstd(ZSTD_CCtx_refPrefix(context.get(), prefix.data(), prefix.size()));
  Bytes packed(ZSTD_compressBound(bytes.size()));
  return CheckZstd(ZSTD_compress2(context.get(), packed.data(), packed.size(), bytes.data(), bytes.size()));
}

// The exit status, or -1 when the program could not be started.
int RunProgram(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace

Result<uint64_t> ZstdPatchFromBytes(const Checkpoint& before, const Checkpoint& after, int level) {
  uint64_t sum = 0;
  for (const LayoutFile& file : after.layout().files()) {
    SKERRY_ASSIGN(const uint64_t bytes,
                  PatchFrom(before.directory() / file.name, after.directory() / file.name, level));
    sum += bytes;
  }
  return sum;
}

Result<std::optional<uint64_t>> BsdiffBytes(const Checkpoint& before, const Checkpoint& after, const Path& scratch) {
  uint64_t sum = 0;
  const Path patch = scratch / fmt::format("skerry-bench-{}.bsdiff", ::getpid());
  for (const LayoutFile& file : after.layout().files()) {
    if (RunProgram({"bsdiff", before.directory() / file.name, after.directory() / file.name, patch}) != 0) {
      return std::optional<uint64_t>();
    }
    std::error_code error;
    sum += std::filesystem::file_size(patch, error);
    std::filesystem::remove(patch, error);
  }
  return sum;
}

}  // namespace skerry
