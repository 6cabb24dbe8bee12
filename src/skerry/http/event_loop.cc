#include "skerry/http/event_loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <mutex>
#include <utility>

#include "skerry/http/event_loop_core.h"

namespace skerry {

namespace {

class Repeater : public std::enable_shared_from_this<Repeater> {
 public:
  Repeater(boost::asio::io_context& io, std::chrono::milliseconds time, std::function<void()> function)
      : timer_(io), time_(time), function_(std::move(function)) {}

  void Start() {
    const std::lock_guard lock(mutex_);
    Wait();
  }
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    timer_.cancel();
  }

 private:
  void Wait() {
    timer_.expires_after(time_);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) { self->Run(); });
  }
  void Run() {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    function_();
    if (!ended_) Wait();
  }

  std::recursive_mutex mutex_;  // the function may let its own handle go
  boost::asio::steady_timer timer_;
  const std::chrono::milliseconds time_;
  const std::function<void()> function_;
  bool ended_ = false;
};

}  // namespace

EventLoop::EventLoop() : core_(std::make_unique<Core>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::Post(std::function<void()> function) { boost::asio::post(core_->io, std::move(function)); }

void EventLoop::Do(const std::function<void()>& function) {
  std::promise<void> done;
  Post([&] {
    function();
    done.set_value();
  });
  done.get_future().wait();
}

std::shared_ptr<void> EventLoop::Every(std::chrono::milliseconds time, std::function<void()> function) {
  const auto repeater = std::make_shared<Repeater>(core_->io, time, std::move(function));
  repeater->Start();
  return {repeater.get(), [repeater](void*) { repeater->End(); }};
}

bool EventLoop::IsThisThread() const { return core_->IsThisThread(); }

}  // namespace skerry
