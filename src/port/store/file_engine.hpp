// port/store/file_engine.hpp: files by system calls that block, and what the ring needs of them.
#pragma once

#include <atomic>
#include <memory>

#include "port/store/blocking_store.hpp"
#include "port/store/handle_table.hpp"
#include "port/store/io_vectors.hpp"

namespace tanada::port {

enum class file_direct { automatic, on, off };

inline constexpr uint64_t direct_alignment = 4096;         // bytes
inline constexpr uint64_t direct_size_min = 1024 * 1024;   // bytes; file_direct::automatic

// An open file. The descriptor closes when nobody uses it any more.
struct file_handle {
  file_handle(int fd_, bool writable_) : fd{fd_}, writable{writable_} {}
  ~file_handle();
  file_handle(const file_handle &) = delete;
  file_handle &operator=(const file_handle &) = delete;

  int fd;
  bool writable;
  bool in_memory = false;                 // what is in the file is in memory and nowhere else
  int direct_fd = -1;                     // the same file with O_DIRECT, where that is possible
  std::atomic<bool> direct_refused{false};  // the file system took the open and refused a read
  direct_files *device_files = nullptr;   // who reads the file into device memory, or null
  uint64_t device_file = 0;               // its handle there
  direct_offer device_offer;              // how well
};

// tmpfs, ramfs and huge pages.
bool lives_in_memory(int descriptor);

// The path of a file URL or plain path; invalid for a host other than localhost or an empty path.
result<std::string> file_path(const std::string &url);

class file_engine final : public blocking_engine {
 public:
  explicit file_engine(file_direct direct) : direct_{direct} {}

  const char *scheme() const noexcept override { return "file"; }
  status open(const std::string &url, store_open_flags flags, store_file &file, store_stat &stat) override;
  status close(store_file file, store_stat &stat) override;
  status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size) override;
  status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size) override;
  status stat(store_file file, store_stat &stat) override;
  status truncate(store_file file, uint64_t size) override;
  status sync(store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;

  std::shared_ptr<file_handle> find(store_file file) const { return files_.find(file); }

  // See store::attach() and store::access().
  direct_offer attach(const device_window &window, bool compatible_too);
  file_access access(store_file file) const;

  // Whether these buffers lie in device memory, which only read() reaches.
  bool on_device(std::span<const store_buffer> buffers) const {
    return window_.addr != nullptr && !window_.is_host_memory && !buffers.empty() && window_.holds(buffers[0]);
  }

  // Whether to read this range through the handle's direct_fd.
  bool reads_direct(const file_handle &handle, uint64_t offset, std::span<const store_buffer> buffers) const;

 private:
  void open_direct(file_handle &handle, uint64_t size) const;
  void open_on_device(file_handle &handle) const;
  status read_to_device(file_handle &handle, uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size);

  file_direct direct_;
  device_window window_;
  direct_offer offer_{direct_kind::none, "direct reads are turned off"};
  handle_table<file_handle> files_;
};

}  // namespace tanada::port
