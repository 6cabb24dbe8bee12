// Inside http: what the sockets of an EventLoop need of Boost.Asio.
#ifndef SKERRY_HTTP_EVENT_LOOP_CORE_H_
#define SKERRY_HTTP_EVENT_LOOP_CORE_H_

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <thread>

#include "skerry/http/event_loop.h"

namespace skerry {

// Of a known executor, which costs less than one that could be any.
using LoopSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

class EventLoop::Core {
 public:
  Core() : thread_([this] { io.run(); }) {}
  ~Core() {
    io.stop();
    thread_.join();
  }
  bool IsThisThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  boost::asio::io_context io{1};  // for one thread

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io.get_executor()};
  std::thread thread_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_EVENT_LOOP_CORE_H_
