// onesided/swap/trace.hpp: writes the states of a node's processes over time to a file for
// chrome://tracing or Perfetto.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "onesided/swap/node_table.hpp"

namespace tanada::onesided::swap {

// Each rank is a row, and each of its states a bar. Bytes moved are a counter. Used by the agent.
class trace_writer {
 public:
  // Returns the error of open(2), with a message.
  static result<std::unique_ptr<trace_writer>> open(const std::string &path,
                                                    uint32_t node,
                                                    const node_table &table);
  ~trace_writer();  // calls close()

  // Writes the events since the last call.
  void write(node_table &table);
  // Completes the file. Returns `io`, with a message, if some of it did not reach the file.
  status close(uint64_t now_ns);

 private:
  trace_writer() = default;
  void write_bar(uint32_t rank, uint64_t end_ns);

  std::FILE *file_ = nullptr;
  std::string path_;
  uint32_t node_ = 0;
  uint64_t begin_ns_ = 0, moved_ = ~uint64_t{0};
  struct rank_row {
    rank_state state = rank_state::inactive;
    uint64_t since_ns = 0;
  };
  std::vector<rank_row> rows_;
};

}  // namespace tanada::onesided::swap
