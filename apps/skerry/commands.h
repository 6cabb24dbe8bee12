// One function a subcommand; each lives in the file of its name, which holds parsing and printing only.
#ifndef SKERRY_APPS_SKERRY_COMMANDS_H_
#define SKERRY_APPS_SKERRY_COMMANDS_H_

#include "command_line.h"

namespace skerry {

// What --level is, wherever it is.
inline constexpr const char* kLevelHelp =
    "compact: smallest, decoding reads the base once; fast: decoding touches only what changed";

// On checkpoints and patches.
void AddDiff(CommandLine& program);
void AddApply(CommandLine& program);
void AddShow(CommandLine& program);
void AddSquash(CommandLine& program);
void AddInvert(CommandLine& program);
void AddVerify(CommandLine& program);
void AddAbsorb(CommandLine& program);

// On boards: the trainer's side, then the islands', then people's.
void AddInit(CommandLine& program);
void AddPublish(CommandLine& program);
void AddFork(CommandLine& program);
void AddPull(CommandLine& program);
void AddRollback(CommandLine& program);
void AddLog(CommandLine& program);
void AddHead(CommandLine& program);
void AddStatus(CommandLine& program);
void AddGc(CommandLine& program);
void AddProbe(CommandLine& program);
void AddKeygen(CommandLine& program);

// The island's process, and what is said to a running one.
void AddAgent(CommandLine& program);

// Processes of a region.
void AddRelay(CommandLine& program);

// Before many islands.
void AddGateway(CommandLine& program);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_COMMANDS_H_
