#include "commands.h"

int main(int argc, char** argv) {
  skerry::CommandLine program;
  skerry::AddDiff(program);
  skerry::AddApply(program);
  skerry::AddShow(program);
  skerry::AddVerify(program);
  skerry::AddInit(program);
  skerry::AddPublish(program);
  skerry::AddPull(program);
  skerry::AddLog(program);
  skerry::AddHead(program);
  skerry::AddStatus(program);
  return program.Main(argc, argv);
}
