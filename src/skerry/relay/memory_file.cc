#include "skerry/relay/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace skerry {

Result<File> MakeMemoryFile(uint64_t size) {
  const int descriptor = ::memfd_create("skerry-object", MFD_CLOEXEC);
  if (descriptor < 0) return ErrnoFailure(errno, "make", "a file in memory");
  // A descriptor of its own that File owns.
  auto file = File::OpenForWriting(fmt::format("/proc/self/fd/{}", descriptor));
  ::close(descriptor);
  if (!file) return file;
  SKERRY_TRY(file->Truncate(size));
  return file;
}

}  // namespace skerry
