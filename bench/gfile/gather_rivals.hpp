// bench/gfile/gather_rivals.hpp: gathers of rows without gfile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// A file that is mapped and, for a GPU, registered.
class gather_source {
 public:
  gather_source(const std::string &path, uint64_t size);
  gather_source(const gather_source &) = delete;
  ~gather_source();
  const void *pages() const {
    return pages_;
  }

 private:
  void *pages_;
  uint64_t size_;
};

struct gathered {
  const std::vector<unsigned long long> &rows;  // u64 of kernels
  uint64_t row_size;                            // bytes, a multiple of 16
};

// Seconds of a kernel whose warps copy rows from the mapped file to memory of the device.
double gather_by_uva(const gather_source &source, const gathered &what);

// Seconds of `threads` threads that copy rows to pinned buffers, two each, and these to the device.
double gather_by_threads(const gather_source &source, const gathered &what, unsigned threads);

}  // namespace bench
