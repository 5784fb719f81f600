// backends/file/local_file.hpp: open files of this machine by their descriptors: how they are read,
// into host memory and device memory, and what kernels may do with them. file:// and the local
// files of plugins share it.
#pragma once

#include <atomic>
#include <memory>

#include "seams/store/store.hpp"

namespace tanada::port {

enum class file_direct { automatic, on, off };

inline constexpr uint64_t direct_alignment = 4096;        // bytes
inline constexpr uint64_t direct_size_min = 1024 * 1024;  // bytes; file_direct::automatic

// An open file. The descriptor closes when nobody uses it any more.
struct local_file {
  local_file(int fd_, bool writable_, bool asks_direct_ = false)
      : fd{fd_}, writable{writable_}, asks_direct{asks_direct_} {}
  ~local_file();
  local_file(const local_file &) = delete;
  local_file &operator=(const local_file &) = delete;

  int fd;
  bool writable;
  bool asks_direct;                         // store_open_flags::direct
  bool in_memory = false;                   // what is in the file is in memory and nowhere else
  int direct_fd = -1;                       // the same file with O_DIRECT, where that is possible
  std::atomic<bool> direct_refused{false};  // the file system took the open and refused a transfer
  direct_files *device_files = nullptr;     // who reads the file into device memory, or null
  uint64_t device_file = 0;                 // its handle there
  direct_offer device_offer;                // how well
};

// tmpfs, ramfs and huge pages.
bool lives_in_memory(int descriptor);

// Thread-safe, but for attach().
class local_reader {
 public:
  explicit local_reader(file_direct direct) : direct_{direct} {}

  // See store::attach() and store::access().
  void attach(const device_window &window, bool compatible_too);
  file_access access(const local_file &file) const;

  // A new handle finds out how it can be read; `size` in bytes. It may wait.
  void prepare(local_file &file, uint64_t size) const;

  // Blocks. `size` counts the bytes read, also before an error; short at the end of the file.
  status read(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) const;

  // Blocks. `size` counts the bytes that reached the file, also before an error.
  status write(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
               uint64_t &size) const;

  // Whether these buffers lie in device memory, which only read() reaches.
  bool on_device(std::span<const store_buffer> buffers) const {
    return window_.addr != nullptr && !window_.is_host_memory && !buffers.empty() &&
           window_.holds(buffers[0]);
  }

  // Whether to read this range through the handle's direct_fd.
  bool reads_direct(const local_file &file, uint64_t offset,
                    std::span<const store_buffer> buffers) const;
  bool writes_direct(const local_file &file, uint64_t offset,
                     std::span<const store_buffer> buffers) const;

 private:
  void open_direct(local_file &file, uint64_t size) const;
  void open_on_device(local_file &file) const;
  status read_to_device(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
                        uint64_t &size) const;

  file_direct direct_;
  device_window window_;
  direct_offer offer_{direct_kind::none, "direct reads are turned off"};
};

}  // namespace tanada::port
