// bench/pool/pool_daemon.hpp: a pool only for the benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server.hpp"

namespace bench {

// The tanada-poold beside this program, in DRAM, on a free port.
class pool_daemon {
 public:
  explicit pool_daemon(uint64_t capacity, const std::vector<std::string> &more = {});
  std::string url(const std::string &space) const {
    return "pool://127.0.0.1:" + std::to_string(port_) + "/" + space;
  }
  pid_t process_id() const {
    return process_.process_id();
  }

 private:
  scratch_folder scratch_;
  uint16_t port_;
  server process_;
};

}  // namespace bench
