// bench/gfile/rivals.hpp: programs without gfile, and the hardware's limits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace bench {

// Seconds to read `size` bytes of a file to `target` (device memory) with one thread, by pread into
// pageable memory and a copy for each piece.
double read_naively(const std::string &path, void *target, uint64_t size);

// The same as most programs do it: a buffer for the whole file, read(2), one copy.
double read_whole_naively(const std::string &path, void *target, uint64_t size);

// The same by `threads` threads with two pinned buffers each: the best that a careful program does.
double read_by_hand(const std::string &path, void *target, uint64_t size, unsigned threads);

// Seconds for `threads` threads to open, read, copy to `target` (device memory) and close `count`
// files of `size` bytes each.
double read_files_by_hand(const std::function<std::string(uint32_t)> &path,
                          uint32_t count,
                          uint64_t size,
                          void *target,
                          unsigned threads);

// Seconds to write `size` bytes of device memory to a new file: threads with two pinned buffers
// each.
double write_by_hand(const std::string &path, const void *source, uint64_t size, unsigned threads);

// Seconds of a minimal kernel that copies the pages of an open file, mapped and registered, to
// `target` (device memory).
double zero_copy_read(int fd, void *target, uint64_t size);

// Seconds to copy `size` bytes from device memory to device memory.
double device_copy(uint64_t size);

// 4 KiB reads per second of a minimal kernel from random positions in `size` bytes of pinned host
// memory, one warp for each read.
double random_pinned_reads(uint64_t size, unsigned blocks, unsigned reads_a_warp);

// Seconds until a kernel's store to host memory is answered by a host thread and the kernel sees
// the answer.
double round_trip(unsigned rounds);

// The name of the device that kernels run on.
std::string device_name();

}  // namespace bench
