// bench/fabric/remote_memory.hpp: memory of another process of this machine, accessed over a
// fabric.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>

#include "seams/fabric/fabric.hpp"

namespace bench {

// The activity of the memory's owner: it sleeps in a wait, polls all the time, or computes and
// never calls the fabric.
enum class owner_does { wait, look, compute };

class remote_memory {
 public:
  // Starts the process. The user of the memory also polls all the time, unless the owner waits.
  // Throws on failure.
  remote_memory(const std::string &provider, owner_does what, size_t size);
  ~remote_memory();
  remote_memory(const remote_memory &) = delete;
  remote_memory &operator=(const remote_memory &) = delete;

  // Stops the other process, so that it leaves the processors to others, until resume().
  void pause();
  void resume();

  void move(tanada::seams::fabric_op_kind kind, std::span<std::byte> bytes, bool copied = false);
  void fetch_add(uint64_t operand);
  // This many writes of 8 bytes, with as many in flight as the endpoint accepts.
  void flood(size_t count);

 private:
  tanada::seams::fabric_op aimed(tanada::seams::fabric_op op) const;
  void run(const tanada::seams::fabric_op &op);

  bool looks_;
  tanada::seams::fabric_remote remote_{};
  pid_t process_ = -1;
  std::unique_ptr<tanada::seams::fabric_endpoint> endpoint_;
  tanada::seams::fabric_peer peer_ = tanada::seams::no_fabric_peer;
};

}  // namespace bench
