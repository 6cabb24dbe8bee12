// How a program that serves until it is told to stop waits for that.
#ifndef SKERRY_BASE_END_SIGNALS_H_
#define SKERRY_BASE_END_SIGNALS_H_

#include <csignal>

#include "skerry/base/log.h"

namespace skerry {

// SIGTERM and SIGINT, taken by sigwait on the main thread: blocked in all threads from the beginning, so made before
// any other thread is.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~EndSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Returns when one of them has come, and says so in the log.
  void Wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
    LogInfo("{}: stopping", signal == SIGTERM ? "SIGTERM" : "SIGINT");
  }

 private:
  sigset_t signals_{}, before_{};
};

}  // namespace skerry

#endif  // SKERRY_BASE_END_SIGNALS_H_
