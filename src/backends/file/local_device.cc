// backends/file/local_device.cc: the part of local_reader that brings bytes to devices: reads into
// the direct window, and which files are memory that kernels may read themselves.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "backends/file/local_file.hpp"

namespace tanada::port {

void local_reader::attach(const device_window &window, bool compatible_too) {
  window_ = window;
  offer_ = window.files->prepare(compatible_too);
}

void local_reader::open_on_device(local_file &file) const {
  file.device_offer = offer_;
  if (offer_.kind == direct_kind::none || window_.is_host_memory)
    return;
  auto opened = window_.files->open(file.direct_fd >= 0 ? file.direct_fd : file.fd);
  if (opened.ok()) {
    file.device_file = opened.value();
    file.device_files = window_.files;
  } else {
    file.device_offer = {direct_kind::none, "the file system does not take part in direct reads"};
  }
}

status local_reader::read_to_device(local_file &file, uint64_t offset,
                                    std::span<const store_buffer> buffers, uint64_t &size) const {
  if (file.device_files == nullptr)
    return status::not_supported;
  for (size_t i = 0; i < buffers.size();) {
    // Buffers that touch are one.
    size_t wanted = buffers[i].size, next = i + 1;
    for (; next < buffers.size() && buffers[next].addr == buffers[i].addr + wanted; next++)
      wanted += buffers[next].size;
    size_t moved = 0;
    status const code =
        file.device_files->read(file.device_file, offset + size, buffers[i].addr, wanted, moved);
    size += moved;
    if (code != status::ok || moved < wanted)
      return code;
    i = next;
  }
  return status::ok;
}

bool lives_in_memory(int descriptor) {
  struct statfs found{};
  if (fstatfs(descriptor, &found) != 0)
    return false;
  auto const magic = uint64_t(found.f_type);
  return magic == TMPFS_MAGIC || magic == RAMFS_MAGIC || magic == HUGETLBFS_MAGIC;
}

file_access local_reader::access(const local_file &file) const {
  file_access found{.direct = file.device_offer};
  if (file.in_memory) {
    int const seals = fcntl(file.fd, F_GET_SEALS);
    found.memory_descriptor = file.fd;
    found.sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  } else {
    found.reason = "not on tmpfs or hugetlbfs; " + file.device_offer.reason;
  }
  return found;
}

}  // namespace tanada::port
