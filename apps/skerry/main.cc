#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "commands.h"

int main(int argc, char** argv) {
  // Memory is bounded by design; where even that is not to be had, say so and stop: every state on disk survives that.
  std::set_new_handler([] {
    std::fputs("skerry: out of memory (is the address space limited? ulimit -v)\n", stderr);
    ::_exit(1);
  });
  // Each thread's own malloc arena reserves 64 MiB of address space.
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);

  skerry::CommandLine program;
  skerry::AddDiff(program);
  skerry::AddApply(program);
  skerry::AddShow(program);
  skerry::AddSquash(program);
  skerry::AddInvert(program);
  skerry::AddVerify(program);
  skerry::AddAbsorb(program);
  skerry::AddInit(program);
  skerry::AddPublish(program);
  skerry::AddFork(program);
  skerry::AddPull(program);
  skerry::AddRollback(program);
  skerry::AddLog(program);
  skerry::AddHead(program);
  skerry::AddStatus(program);
  skerry::AddGc(program);
  skerry::AddProbe(program);
  skerry::AddKeygen(program);
  skerry::AddAgent(program);
  skerry::AddRelay(program);
  skerry::AddGateway(program);
  return program.Main(argc, argv);
}
