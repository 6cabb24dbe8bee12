// How many clients' connections a server may take.
#ifndef SKERRY_HTTP_CONNECTION_LIMIT_H_
#define SKERRY_HTTP_CONNECTION_LIMIT_H_

#include <cstddef>

namespace skerry {

// Raises the process's limit of open files to what `wanted` connections may need (two files each: one to the client,
// one to where its requests go), and lessens their number to what is left, with a warning in the log.
size_t ConnectionLimit(size_t wanted);

}  // namespace skerry

#endif  // SKERRY_HTTP_CONNECTION_LIMIT_H_
