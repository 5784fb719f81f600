#include "port/memory/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"

namespace tanada::port {

result<shared_memory> shared_memory::create(const char *label, size_t size) {
  int const descriptor = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    int const code = errno;
    return fail(status{-code}, "shared memory %s: memfd_create: %s", label, strerror(code));
  }
  shared_memory made{descriptor};
  if (ftruncate(descriptor, off_t(size)) != 0) {
    int const code = errno;
    return fail(status{-code}, "shared memory %s: %zu bytes: %s", label, size, strerror(code));
  }
  // Who has the descriptor cannot take away what is mapped.
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int const code = errno;
    return fail(status{-code}, "shared memory %s: its size cannot be sealed: %s", label, strerror(code));
  }
  return made;
}

shared_memory &shared_memory::operator=(shared_memory &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

shared_memory::~shared_memory() {
  if (descriptor_ >= 0) close(descriptor_);
}

result<shared_mapping> shared_mapping::map(int descriptor, size_t size) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0 || about.st_size < 0 || uint64_t(about.st_size) < size) {
    return fail(status::invalid, "shared memory: %zu bytes were promised and are not there", size);
  }
  if (int const seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(status::invalid, "shared memory: what was promised may be taken away: it is not sealed");
  }
  // Addresses are taken first, so many that an aligned one is among them; those before and behind it are given back.
  void *at = mmap(nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED) {
    auto const first = reinterpret_cast<uintptr_t>(at), begin = (first + alignment - 1) / alignment * alignment;
    size_t const end = pages_size(size);
    if (begin != first) munmap(at, begin - first);
    if (begin + end != first + size + alignment) munmap(reinterpret_cast<void *>(begin + end), first + size + alignment - begin - end);
    void *const aligned = reinterpret_cast<void *>(begin);
    at = mmap(aligned, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor, 0);
    if (at == MAP_FAILED) munmap(aligned, end);
  }
  if (at == MAP_FAILED) {
    int const code = errno;
    return fail(status{-code}, "shared memory: %zu bytes cannot be mapped: %s", size, strerror(code));
  }
  (void)madvise(at, size, MADV_HUGEPAGE);
  shared_mapping made;
  made.memory_ = {static_cast<std::byte *>(at), size};
  return made;
}

shared_mapping &shared_mapping::operator=(shared_mapping &&other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

shared_mapping::~shared_mapping() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

size_t page_size() noexcept {
  static size_t const size = size_t(sysconf(_SC_PAGESIZE));
  return size;
}

size_t pages_size(size_t size) noexcept { return (size + page_size() - 1) / page_size() * page_size(); }

}  // namespace tanada::port
