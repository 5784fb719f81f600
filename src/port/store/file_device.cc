// port/store/file_device.cc: the part of file_engine that brings bytes to devices: reads into the direct window, and which
// files are memory that kernels may read themselves.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "port/store/file_engine.hpp"

namespace tanada::port {

direct_offer file_engine::attach(const device_window &window, bool compatible_too) {
  window_ = window;
  offer_ = window.files->prepare(compatible_too);
  return offer_;
}

void file_engine::open_on_device(file_handle &handle) const {
  handle.device_offer = offer_;
  if (offer_.kind == direct_kind::none || window_.is_host_memory) return;
  auto opened = window_.files->open(handle.direct_fd >= 0 ? handle.direct_fd : handle.fd);
  if (opened.ok()) {
    handle.device_file = opened.value();
    handle.device_files = window_.files;
  } else {
    handle.device_offer = {direct_kind::none, "the file system does not take part in direct reads"};
  }
}

status file_engine::read_to_device(file_handle &handle, uint64_t offset, std::span<const store_buffer> buffers,
                                   uint64_t &size) {
  if (handle.device_files == nullptr) return status::not_supported;
  for (size_t i = 0; i < buffers.size();) {
    // Buffers that touch are one.
    size_t wanted = buffers[i].size, next = i + 1;
    for (; next < buffers.size() && buffers[next].addr == buffers[i].addr + wanted; next++) wanted += buffers[next].size;
    size_t moved = 0;
    status const code = handle.device_files->read(handle.device_file, offset + size, buffers[i].addr, wanted, moved);
    size += moved;
    if (code != status::ok || moved < wanted) return code;
    i = next;
  }
  return status::ok;
}

bool lives_in_memory(int descriptor) {
  struct statfs found{};
  if (fstatfs(descriptor, &found) != 0) return false;
  auto const magic = uint64_t(found.f_type);
  return magic == TMPFS_MAGIC || magic == RAMFS_MAGIC || magic == HUGETLBFS_MAGIC;
}

file_access file_engine::access(store_file file) const {
  auto const handle = files_.find(file);
  if (!handle) return {};
  file_access found{.direct = handle->device_offer};
  if (handle->in_memory) {
    int const seals = fcntl(handle->fd, F_GET_SEALS);
    found.memory_descriptor = handle->fd;
    found.sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  } else {
    found.reason = "not on tmpfs or hugetlbfs; " + handle->device_offer.reason;
  }
  return found;
}

}  // namespace tanada::port
