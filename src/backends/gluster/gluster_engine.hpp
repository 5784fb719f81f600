// backends/gluster/gluster_engine.hpp: GlusterFS through libgfapi, behind the blocking store.
#pragma once

#include "backends/gluster/gluster_volume.hpp"
#include "seams/store/handle_table.hpp"

namespace tanada::port {

// An open file; closed when nobody uses it any more. libgfapi's calls on one are thread-safe.
struct gluster_file {
  gluster_file(glfs_fd_t *opened, bool for_writing) : fd{opened}, writable{for_writing} {}
  ~gluster_file() {
    if (fd != nullptr)
      (void)glfs_close(fd);
  }
  gluster_file(const gluster_file &) = delete;
  gluster_file &operator=(const gluster_file &) = delete;

  glfs_fd_t *fd;
  bool const writable;  // libgfapi takes writes on a handle opened to read and loses them
};

// Reads larger than a piece are cut, and their pieces are in flight together: one synchronous
// reader gets a twelfth of what the disk gives. Writes are behind until sync or close, which alone
// tell their errors.
class gluster_engine final : public blocking_engine {
 public:
  explicit gluster_engine(const store_plugin_host &host) : volumes_{host} {}

  const char *scheme() const noexcept override {
    return "gluster";
  }
  status open(const std::string &url, store_open_flags flags, store_file &file,
              store_stat &stat) override;
  status close(store_file file, store_stat &stat) override;
  status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) override;
  status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
               uint64_t &size) override;
  status stat(store_file file, store_stat &stat) override;
  status truncate(store_file file, uint64_t size) override;
  status sync(store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;

 private:
  gluster_volumes volumes_;
  handle_table<gluster_file> files_;
};

}  // namespace tanada::port
