// The one thread on which a server and all that goes through it without blocking run. Boost.Asio stays behind it.
#ifndef SKERRY_HTTP_EVENT_LOOP_H_
#define SKERRY_HTTP_EVENT_LOOP_H_

#include <chrono>
#include <functional>
#include <memory>

namespace skerry {

class EventLoop {
 public:
  EventLoop();
  // Ends the thread; what was posted and not begun is dropped.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // From any thread: runs the function on the loop's thread, in the order of the calls.
  void Post(std::function<void()> function);
  // The same, and waits for its end. Not from the loop's thread.
  void Do(const std::function<void()>& function);
  // Again and again with this time between, until the returned handle is gone, on whichever thread. A call that has
  // begun when the handle goes is waited for, unless it is the call itself that lets it go.
  std::shared_ptr<void> Every(std::chrono::milliseconds time, std::function<void()> function);

  bool IsThisThread() const;

  class Core;  // event_loop_core.h
  Core& core() { return *core_; }

 private:
  const std::unique_ptr<Core> core_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_EVENT_LOOP_H_
