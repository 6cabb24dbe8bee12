// The islands that a gateway is told of, instead of being told by them: addresses, files of addresses, names in DNS.
#ifndef SKERRY_GATEWAY_ISLAND_LIST_H_
#define SKERRY_GATEWAY_ISLAND_LIST_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

// One of them.
struct IslandSource {
  enum class Kind { kUrl, kFile, kName };
  Kind kind = Kind::kUrl;
  std::string text;   // canonical URL; path; name
  uint16_t port = 0;  // of a name
};

// "http://HOST:PORT"; "dns://NAME:PORT", each address of the name; anything else is a path. Several with commas
// between. kInvalid, naming the text.
Result<std::vector<IslandSource>> ParseIslandSources(const std::vector<std::string>& texts);

// The lines of such a file as canonical URLs; empty ones, and what is behind '#', are passed over.
Result<std::vector<std::string>> ParseIslandFile(std::string_view text);

// Looks at all sources again and again, on a thread of its own, as names are looked up by calls that block.
class IslandList {
 public:
  using Told = std::function<void(const std::vector<std::string>& urls)>;

  // `told` gets all URLs, each once, at first and whenever they have changed. A source that can't be read keeps what it
  // last had, and is told of in the log.
  IslandList(std::vector<IslandSource> sources, std::chrono::milliseconds every, Told told);
  ~IslandList();

 private:
  void Run();

  const std::vector<IslandSource> sources_;
  const std::chrono::milliseconds every_;
  const Told told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_ISLAND_LIST_H_
