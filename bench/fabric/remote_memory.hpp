// bench/fabric/remote_memory.hpp: memory of another process of this machine, reached over a fabric.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>

#include "seams/fabric/fabric.hpp"

namespace bench {

// What the owner of the memory does meanwhile: sleeps in a wait, looks all the time, or computes
// and never calls.
enum class owner_does { wait, look, compute };

class remote_memory {
 public:
  // Starts the process. Whoever uses the memory looks all the time too, but for an owner that
  // waits. Throws what fails.
  remote_memory(const std::string &provider, owner_does what, size_t size);
  ~remote_memory();
  remote_memory(const remote_memory &) = delete;
  remote_memory &operator=(const remote_memory &) = delete;

  // The other process stands still, and leaves the processors to others, until resume().
  void pause();
  void resume();

  void move(tanada::port::fabric_op_kind kind, std::span<std::byte> bytes, bool copied = false);
  void fetch_add(uint64_t operand);
  // So many writes of 8 bytes, as many under way as the endpoint takes.
  void flood(size_t count);

 private:
  tanada::port::fabric_op aimed(tanada::port::fabric_op op) const;
  void run(const tanada::port::fabric_op &op);

  bool looks_;
  tanada::port::fabric_remote remote_{};
  pid_t process_ = -1;
  std::unique_ptr<tanada::port::fabric_endpoint> endpoint_;
  tanada::port::fabric_peer peer_ = tanada::port::no_fabric_peer;
};

}  // namespace bench
