// A file that has no name and lies in memory.
#ifndef SKERRY_RELAY_MEMORY_FILE_H_
#define SKERRY_RELAY_MEMORY_FILE_H_

#include <cstdint>

#include "skerry/base/file.h"

namespace skerry {

// Of full length; the memory is taken as it is written to.
Result<File> MakeMemoryFile(uint64_t size);

}  // namespace skerry

#endif  // SKERRY_RELAY_MEMORY_FILE_H_
