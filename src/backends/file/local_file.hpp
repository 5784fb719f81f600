// backends/file/local_file.hpp: open files of this machine by their descriptors: reads into host
// and device memory, and how kernels may access them. Shared by file:// and the local files of
// plugins.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "seams/store/store.hpp"

namespace tanada::backends {

enum class file_direct { automatic, on, off };

inline constexpr uint64_t direct_alignment = 4096;        // bytes
inline constexpr uint64_t direct_size_min = 1024 * 1024;  // bytes; file_direct::automatic

// An open file. The descriptor is closed with the last reference.
struct local_file {
  local_file(int fd_, bool writable_, bool is_direct_requested_ = false)
      : fd{fd_}, writable{writable_}, is_direct_requested{is_direct_requested_} {}
  ~local_file();
  local_file(const local_file &) = delete;
  local_file &operator=(const local_file &) = delete;

  // A descriptor of the same file for reads by the calling thread: threads that read by one
  // descriptor contend for the count of its users. It may be `fd`, and is valid as long.
  int thread_descriptor();

  int fd;
  bool writable;
  bool is_direct_requested;                     // store_open_flags::direct
  bool in_memory = false;                       // the file's bytes exist only in memory
  int direct_fd = -1;                           // the same file opened with O_DIRECT, or -1
  std::atomic<bool> direct_refused{false};      // the file system accepted the open and refused a
                                                // transfer
  seams::direct_files *device_files = nullptr;  // reads the file into device memory, or null
  uint64_t device_file = 0;                     // the file's handle in device_files
  seams::direct_offer device_offer;             // the kind of direct reads for this file

 private:
  static constexpr size_t thread_descriptor_count = 16;
  // Opened at their first use; 0: not yet, otherwise a descriptor + 1.
  std::array<std::atomic<int>, thread_descriptor_count> thread_descriptors_{};
};

// Reads from the page cache, or a file in memory, by a descriptor of the file. False: that would
// wait, or failed.
bool read_cached(const local_file &file, int fd, seams::store_read &read);

// Whether the file system is tmpfs, ramfs or hugetlbfs.
bool is_in_memory_file_system(int descriptor);

// Thread-safe, except attach().
class local_reader {
 public:
  explicit local_reader(file_direct direct) : direct_{direct} {}

  // See store::attach() and store::access().
  void attach(const seams::device_window &window, bool compatible_too);
  seams::file_access access(const local_file &file) const;

  // Determines how a new handle can be read; `size` in bytes. May block.
  void prepare(local_file &file, uint64_t size) const;

  // Blocks. `size` is the count of bytes read, also on error. It is short at the end of the file.
  status read(local_file &file,
              uint64_t offset,
              std::span<const seams::store_buffer> buffers,
              uint64_t &size) const;

  // Blocks. `size` is the count of bytes written, also on error.
  status write(local_file &file,
               uint64_t offset,
               std::span<const seams::store_buffer> buffers,
               uint64_t &size) const;

  // Whether these buffers are in device memory, where only read() can place bytes.
  bool on_device(std::span<const seams::store_buffer> buffers) const {
    return window_.addr != nullptr && !window_.is_host_memory && !buffers.empty() &&
           window_.contains(buffers[0]);
  }

  // Whether to read this range through `direct_fd`.
  bool reads_direct(const local_file &file,
                    uint64_t offset,
                    std::span<const seams::store_buffer> buffers) const;
  bool writes_direct(const local_file &file,
                     uint64_t offset,
                     std::span<const seams::store_buffer> buffers) const;

 private:
  void open_direct(local_file &file, uint64_t size) const;
  void open_on_device(local_file &file) const;
  status read_to_device(local_file &file,
                        uint64_t offset,
                        std::span<const seams::store_buffer> buffers,
                        uint64_t &size) const;

  file_direct direct_;
  seams::device_window window_;
  seams::direct_offer offer_{seams::direct_kind::unavailable, "direct reads are turned off"};
};

}  // namespace tanada::backends
