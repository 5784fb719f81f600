// bench/fabric/tcp_rival.hpp: the same transfers over a plain socket, as the best that tcp could
// be.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

namespace bench {

// A process at the other end of a connection over loopback, with memory of its own to write to and
// read from.
class tcp_rival {
 public:
  // size: bytes of its memory. looks: both sides look all the time instead of sleeping.
  explicit tcp_rival(size_t size, bool looks = false);
  ~tcp_rival();
  tcp_rival(const tcp_rival &) = delete;
  tcp_rival &operator=(const tcp_rival &) = delete;

  // The other process stands still, and leaves the processors to others, until resume().
  void pause();
  void resume();

  // The bytes are in its memory, and it has said so. Throws where the connection ends.
  void write(std::span<const std::byte> bytes);
  void read(std::span<std::byte> bytes);

 private:
  bool looks_;
  int connection_ = -1;
  pid_t process_ = -1;
};

}  // namespace bench
