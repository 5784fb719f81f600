#include "backends/file/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "seams/store/errno_status.hpp"

namespace tanada::port {

mapped_file::~mapped_file() {
  if (!bytes_.empty())
    munmap(const_cast<std::byte *>(bytes_.data()), bytes_.size());
}

result<mapped_file> mapped_file::map(int descriptor, size_t size) {
  struct stat found{};
  if (fstat(descriptor, &found) != 0)
    return errno_status(errno);
  if (size == 0 || size_t(found.st_size) < size)
    return status::range;
  void *const addr = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (addr == MAP_FAILED)
    return errno_status(errno);
  mapped_file made;
  made.bytes_ = {static_cast<const std::byte *>(addr), size};
  return made;
}

}  // namespace tanada::port
