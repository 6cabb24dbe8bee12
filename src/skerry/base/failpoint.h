// Named places where a test can make the process die or an operation fail.
//
//   SKERRY_FAILPOINTS="apply.journal_committed:kill,file.rename:errno=28@3"   (the third time only)
//
// Actions: `kill` (SIGKILL, as a power cut of the process), `error` (an Error of code kIo), `errno=N` (what the
// operating system would have said). `@K` waits for the K-th hit, `@K-L` acts from the K-th to the L-th; without it
// every hit acts. Unset, a hit costs one load.
#ifndef SKERRY_BASE_FAILPOINT_H_
#define SKERRY_BASE_FAILPOINT_H_

#include <span>
#include <string_view>

#include "skerry/base/result.h"

namespace skerry {

// Every failpoint of the program, in the order of the data's path; a hit on any other name aborts, so that the list
// that the crash tests walk through can't fall behind the code.
std::span<const std::string_view> FailpointNames();

// Does what SKERRY_FAILPOINTS asks for at `name`: returns the error, kills the process, or (usually) neither.
Status Failpoint(std::string_view name);

// For wrappers of system calls: the errno to pretend, or 0.
int FailpointErrno(std::string_view name);

// Replaces the environment's setting, for tests within one process; "" switches all off. Not thread-safe.
void SetFailpoints(std::string_view specification);

}  // namespace skerry

#endif  // SKERRY_BASE_FAILPOINT_H_
