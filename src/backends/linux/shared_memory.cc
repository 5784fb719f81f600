// backends/linux/shared_memory.cc: shared memory by descriptor, and its mappings.
#include "seams/os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::seams {

namespace {

#if defined(TND_TSAN)
// The mappings made by map_shared().
struct joint_mapping {
  dev_t device;
  ino_t file;
  std::span<std::byte> memory;
  int use_count;
};
constinit mutex joint_mutex;
std::vector<joint_mapping> &joint_mappings() {
  static auto &list = *new std::vector<joint_mapping>;  // guarded by joint_mutex; never destroyed:
                                                        // mappings outlive static objects
  return list;
}

void unmap(std::span<std::byte> memory) noexcept {
  lock_guard const lock{joint_mutex};
  auto &list = joint_mappings();
  auto const address = std::find_if(
      list.begin(), list.end(), [&](auto &entry) { return entry.memory.data() == memory.data(); });
  if (address != list.end()) {
    if (--address->use_count != 0)
      return;
    memory = address->memory;
    list.erase(address);
  }
  munmap(memory.data(), memory.size());
}
#else
void unmap(std::span<std::byte> memory) noexcept {
  munmap(memory.data(), memory.size());
}
#endif

}  // namespace

result<shared_memory> shared_memory::create(const char *label, size_t size) {
  int const descriptor = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    int const code = errno;
    return fail(status{-code}, "shared memory {}: memfd_create: {}", label, strerror(code));
  }
  shared_memory memory{descriptor};
  if (ftruncate(descriptor, off_t(size)) != 0) {
    int const code = errno;
    return fail(status{-code}, "shared memory {}: {} bytes: {}", label, size, strerror(code));
  }
  // The seals keep holders of the descriptor from removing mapped memory.
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int const code = errno;
    return fail(
        status{-code}, "shared memory {}: its size cannot be sealed: {}", label, strerror(code));
  }
  return memory;
}

shared_memory &shared_memory::operator=(shared_memory &&source) noexcept {
  std::swap(descriptor_, source.descriptor_);
  return *this;
}

shared_memory::~shared_memory() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

namespace {

constexpr int shared_kind = MAP_SHARED | MAP_NORESERVE;

// Reserves enough addresses to contain an aligned range, and releases those before and after it.
void *map_anywhere(int descriptor, size_t size, const aligned_part &part) {
  size_t const alignment = part.alignment;
  void *const reserved = mmap(
      nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return MAP_FAILED;
  auto const first = reinterpret_cast<uintptr_t>(reserved);
  uintptr_t const begin =
      (first + part.offset + alignment - 1) / alignment * alignment - part.offset;
  TND_ASSERT(begin >= first && (begin + part.offset) % alignment == 0);
  size_t const end = pages_size(size);
  if (begin != first)
    munmap(reserved, begin - first);
  if (begin + end != first + size + alignment)
    munmap(reinterpret_cast<void *>(begin + end), first + size + alignment - begin - end);
  void *const aligned = reinterpret_cast<void *>(begin);
  void *const mapped =
      mmap(aligned, size, PROT_READ | PROT_WRITE, shared_kind | MAP_FIXED, descriptor, 0);
  if (mapped == MAP_FAILED)
    munmap(aligned, end);
  return mapped;
}

}  // namespace

// Uses the system call directly: ThreadSanitizer's mmap ends the process if the address is in its
// own memory.
bool is_unmapped(void *address, size_t size) noexcept {
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  auto const mapped = syscall(SYS_mmap, address, size, PROT_NONE, kind, -1, 0L);
  if (mapped == -1)
    return false;
  syscall(SYS_munmap, mapped, size);
  return uintptr_t(mapped) ==
         reinterpret_cast<uintptr_t>(address);  // before Linux 4.17 the address is only a hint
}

result<shared_mapping> shared_mapping::map(int descriptor,
                                           size_t size,
                                           void *address,
                                           const aligned_part &part) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0 || about.st_size < 0 || uint64_t(about.st_size) < size) {
    return fail(
        status::invalid, "shared memory: the file is shorter than the expected {} bytes", size);
  }
  if (int const seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(status::invalid, "shared memory: the file has no seal against shrinking");
  }
  void *mapped = nullptr;
  if (address == nullptr) {
    mapped = map_anywhere(descriptor, size, part);
  } else {
    mapped = mmap(
        address, size, PROT_READ | PROT_WRITE, shared_kind | MAP_FIXED_NOREPLACE, descriptor, 0);
    if (mapped != MAP_FAILED && mapped != address) {
      munmap(mapped, size);
      errno = EEXIST;
      mapped = MAP_FAILED;
    }
  }
  if (mapped == MAP_FAILED) {
    int const code = errno;
    if (address == nullptr)
      return fail(
          status{-code}, "shared memory: {} bytes cannot be mapped: {}", size, strerror(code));
    return fail(status{-code},
                "shared memory: {} bytes cannot be mapped at {}: {}",
                size,
                address,
                strerror(code));
  }
  (void)madvise(mapped, size, MADV_HUGEPAGE);
  shared_mapping mapping;
  mapping.memory_ = {static_cast<std::byte *>(mapped), size};
  return mapping;
}

#if defined(TND_TSAN)
constinit const bool shared_mapping::is_shared_in_process = true;

result<shared_mapping> shared_mapping::map_shared(int descriptor,
                                                  size_t size,
                                                  void *address,
                                                  const aligned_part &part) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0)
    return map(descriptor, size, address, part);
  lock_guard const lock{joint_mutex};
  auto &list = joint_mappings();
  auto const it = std::find_if(list.begin(), list.end(), [&](auto &entry) {
    bool const is_there = address == nullptr || address == entry.memory.data();
    return is_there && entry.device == about.st_dev && entry.file == about.st_ino &&
           entry.memory.size() >= size;
  });
  if (it == list.end()) {
    auto mapped = map(descriptor, size, address, part);
    if (mapped.ok())
      list.push_back({about.st_dev, about.st_ino, mapped.value().memory_, 1});
    return mapped;
  }
  it->use_count++;
  shared_mapping mapping;
  mapping.memory_ = it->memory.first(size);
  return mapping;
}
#else
constinit const bool shared_mapping::is_shared_in_process = false;

result<shared_mapping> shared_mapping::map_shared(int descriptor,
                                                  size_t size,
                                                  void *address,
                                                  const aligned_part &part) {
  return map(descriptor, size, address, part);
}
#endif

shared_mapping &shared_mapping::operator=(shared_mapping &&source) noexcept {
  std::swap(memory_, source.memory_);
  return *this;
}

shared_mapping::~shared_mapping() {
  if (!memory_.empty())
    unmap(memory_);
}

size_t page_size() noexcept {
  static size_t const size = size_t(sysconf(_SC_PAGESIZE));
  return size;
}

size_t pages_size(size_t size) noexcept {
  return (size + page_size() - 1) / page_size() * page_size();
}

}  // namespace tanada::seams
