// backends/file/mapped_file.cc: maps a file for reading.
#include "backends/file/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "seams/store/errno_status.hpp"

namespace tanada::backends {

mapped_file::~mapped_file() {
  if (!bytes_.empty())
    munmap(const_cast<std::byte *>(bytes_.data()), bytes_.size());
}

result<mapped_file> mapped_file::map(int descriptor, size_t size) {
  struct stat file_stat{};
  if (fstat(descriptor, &file_stat) != 0)
    return seams::errno_status(errno);
  if (size == 0 || size_t(file_stat.st_size) < size)
    return status::range;
  void *const addr = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (addr == MAP_FAILED)
    return seams::errno_status(errno);
  mapped_file mapping;
  mapping.bytes_ = {static_cast<const std::byte *>(addr), size};
  return mapping;
}

}  // namespace tanada::backends
