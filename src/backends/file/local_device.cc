// backends/file/local_device.cc: the part of local_reader for devices: reads into the direct
// window, and which files are memory that kernels may read themselves.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "backends/file/local_file.hpp"

namespace tanada::backends {

void local_reader::attach(const seams::device_window &window, bool compatible_too) {
  window_ = window;
  offer_ = window.files->prepare(compatible_too);
}

void local_reader::open_on_device(local_file &file) const {
  file.device_offer = offer_;
  if (offer_.kind == seams::direct_kind::unavailable || window_.is_host_memory)
    return;
  auto opened = window_.files->open(file.direct_fd >= 0 ? file.direct_fd : file.fd);
  if (opened.ok()) {
    file.device_file = opened.value();
    file.device_files = window_.files;
  } else {
    file.device_offer = {seams::direct_kind::unavailable,
                         "the file system does not support direct reads"};
  }
}

status local_reader::read_to_device(local_file &file,
                                    uint64_t offset,
                                    std::span<const seams::store_buffer> buffers,
                                    uint64_t &size) const {
  if (file.device_files == nullptr)
    return status::not_supported;
  for (size_t i = 0; i < buffers.size();) {
    seams::store_buffer const run = seams::take_adjacent(buffers, i);
    size_t moved = 0;
    status const code =
        file.device_files->read(file.device_file, offset + size, run.addr, run.size, moved);
    size += moved;
    if (code != status::ok || moved < run.size)
      return code;
  }
  return status::ok;
}

bool is_in_memory_file_system(int descriptor) {
  struct statfs file_system{};
  if (fstatfs(descriptor, &file_system) != 0)
    return false;
  auto const magic = uint64_t(file_system.f_type);
  return magic == TMPFS_MAGIC || magic == RAMFS_MAGIC || magic == HUGETLBFS_MAGIC;
}

seams::file_access local_reader::access(const local_file &file) const {
  seams::file_access result{.direct = file.device_offer};
  result.is_cached = true;
  if (file.in_memory) {
    int const seals = fcntl(file.fd, F_GET_SEALS);
    result.memory_descriptor = file.fd;
    result.is_sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  } else {
    result.reason = "not on tmpfs or hugetlbfs; " + file.device_offer.reason;
  }
  return result;
}

}  // namespace tanada::backends
