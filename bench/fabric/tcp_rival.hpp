// bench/fabric/tcp_rival.hpp: the same transfers over a plain socket, an upper bound for the tcp
// provider.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

namespace bench {

// A process at the other end of a loopback connection, with memory of its own to write to and read
// from.
class tcp_rival {
 public:
  // size: bytes of its memory. looks: both sides poll all the time instead of sleeping.
  explicit tcp_rival(size_t size, bool looks = false);
  ~tcp_rival();
  tcp_rival(const tcp_rival &) = delete;
  tcp_rival &operator=(const tcp_rival &) = delete;

  // Stops the other process, so that it leaves the processors to others, until resume().
  void pause();
  void resume();

  // Returns when the bytes are in its memory and acknowledged. Throws if the connection ends.
  void write(std::span<const std::byte> bytes);
  void read(std::span<std::byte> bytes);

 private:
  bool looks_;
  int connection_ = -1;
  pid_t process_ = -1;
};

}  // namespace bench
