// bench/gfile/rivals.hpp: what people do without gfile, and the bare machine.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

// Seconds to bring `size` bytes of a file to `target` (device memory) with one thread, pread into pageable memory and a
// copy, a piece at a time.
double read_naively(const std::string &path, void *target, uint64_t size);

// The same by `threads` threads with two pinned buffers each: the best that a careful program does.
double read_by_hand(const std::string &path, void *target, uint64_t size, unsigned threads);

// 4 KiB reads a second of a bare kernel from random places in `size` bytes of pinned host memory, a warp a read.
double random_pinned_reads(uint64_t size, unsigned blocks, unsigned reads_a_warp);

// Seconds for a kernel's store to host memory to be answered by a host thread and seen by the kernel.
double round_trip(unsigned rounds);

// The name of the device that kernels run on.
std::string device_name();

}  // namespace bench
