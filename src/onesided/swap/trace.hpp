// onesided/swap/trace.hpp: states of a node's processes over time, as a file for chrome://tracing
// or Perfetto.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "onesided/swap/board.hpp"

namespace tanada::comex::swap {

// Each rank is a line of its own, each state it was in a bar; bytes that moved are a counter. The
// agent's.
class trace_writer {
 public:
  // Or what open(2) says, with a message.
  static result<std::unique_ptr<trace_writer>> open(const std::string &path, uint32_t node,
                                                    const board &of);
  ~trace_writer();  // close()

  // What has happened since the last time.
  void write(board &of);
  // The file is whole. io, with a message: not all of it reached the file.
  status close(uint64_t now_ns);

 private:
  trace_writer() = default;
  void write_bar(uint32_t rank, uint64_t end_ns);

  std::FILE *file_ = nullptr;
  std::string path_;
  uint32_t node_ = 0;
  uint64_t begin_ns_ = 0, moved_ = ~uint64_t{0};
  struct line {
    rank_state state = rank_state::gone;
    uint64_t since_ns = 0;
  };
  std::vector<line> lines_;
};

}  // namespace tanada::comex::swap
