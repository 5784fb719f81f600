// backends/gluster/gluster_engine.hpp: GlusterFS through libgfapi, as an engine of the blocking
// store.
#pragma once

#include "core/base/assert.hpp"
#include "backends/gluster/gluster_volume.hpp"
#include "seams/store/handle_table.hpp"

namespace tanada::backends {

// An open file, closed with the last reference. libgfapi's calls on a handle are thread-safe.
struct gluster_file {
  gluster_file(glfs_fd_t *opened, bool is_writable) : fd{opened}, writable{is_writable} {
    TND_ASSERT(fd != nullptr);
  }
  ~gluster_file() {
    if (fd != nullptr)
      (void)glfs_close(fd);
  }
  gluster_file(const gluster_file &) = delete;
  gluster_file &operator=(const gluster_file &) = delete;

  glfs_fd_t *fd;
  bool const writable;  // libgfapi accepts writes on a handle opened for reading, and loses them
};

// Larger reads are split into pieces that are in flight together: one synchronous reader gets a
// twelfth of the disk's bandwidth. Writes are cached until sync or close, and only these report
// their errors.
class gluster_engine final : public seams::blocking_engine {
 public:
  explicit gluster_engine(const seams::store_plugin_host &host) : volumes_{host} {}

  const char *scheme() const noexcept override {
    return "gluster";
  }
  status open(const std::string &url,
              seams::store_open_flags flags,
              seams::store_file &file,
              seams::store_stat &stat) override;
  status close(seams::store_file file, seams::store_stat &stat) override;
  status read(seams::store_file file,
              uint64_t offset,
              std::span<const seams::store_buffer> buffers,
              uint64_t &size) override;
  status write(seams::store_file file,
               uint64_t offset,
               std::span<const seams::store_buffer> buffers,
               uint64_t &size) override;
  status stat(seams::store_file file, seams::store_stat &stat) override;
  status truncate(seams::store_file file, uint64_t size) override;
  status sync(seams::store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;

 private:
  gluster_volumes volumes_;
  seams::handle_table<gluster_file> files_;
};

}  // namespace tanada::backends
