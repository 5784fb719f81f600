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

namespace tanada::port {

namespace {

#if defined(TND_TSAN)
// What map_beside() has mapped.
struct joint_mapping {
  dev_t device;
  ino_t file;
  std::span<std::byte> memory;
  int use_count;
};
constinit mutex joint_mutex;
std::vector<joint_mapping> &joint_mappings() {
  static auto &all = *new std::vector<joint_mapping>;  // guarded by joint_mutex; never destroyed:
                                                       // mappings outlive static objects
  return all;
}

void unmap(std::span<std::byte> memory) noexcept {
  lock_guard const lock{joint_mutex};
  auto &all = joint_mappings();
  auto const at = std::find_if(all.begin(), all.end(),
                               [&](auto &each) { return each.memory.data() == memory.data(); });
  if (at != all.end()) {
    if (--at->use_count != 0)
      return;
    memory = at->memory;
    all.erase(at);
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
    return fail(status{-code}, "shared memory %s: its size cannot be sealed: %s", label,
                strerror(code));
  }
  return made;
}

shared_memory &shared_memory::operator=(shared_memory &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

shared_memory::~shared_memory() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

namespace {

constexpr int shared_kind = MAP_SHARED | MAP_NORESERVE;

// Addresses are taken first, so many that an aligned one is among them; those before and behind it
// are given back.
void *map_anywhere(int descriptor, size_t size, const aligned_part &part) {
  size_t const alignment = part.alignment;
  void *const taken = mmap(nullptr, size + alignment, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED)
    return MAP_FAILED;
  auto const first = reinterpret_cast<uintptr_t>(taken);
  uintptr_t const begin =
      (first + part.offset + alignment - 1) / alignment * alignment - part.offset;
  size_t const end = pages_size(size);
  if (begin != first)
    munmap(taken, begin - first);
  if (begin + end != first + size + alignment)
    munmap(reinterpret_cast<void *>(begin + end), first + size + alignment - begin - end);
  void *const aligned = reinterpret_cast<void *>(begin);
  void *const made =
      mmap(aligned, size, PROT_READ | PROT_WRITE, shared_kind | MAP_FIXED, descriptor, 0);
  if (made == MAP_FAILED)
    munmap(aligned, end);
  return made;
}

}  // namespace

// Asks the kernel itself: where ThreadSanitizer's own memory is, its mmap ends the process.
bool is_unmapped(void *at, size_t size) noexcept {
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  auto const made = syscall(SYS_mmap, at, size, PROT_NONE, kind, -1, 0L);
  if (made == -1)
    return false;
  syscall(SYS_munmap, made, size);
  return uintptr_t(made) ==
         reinterpret_cast<uintptr_t>(at);  // systems before 4.17 take the address for a wish
}

result<shared_mapping> shared_mapping::map(int descriptor, size_t size, void *at,
                                           const aligned_part &part) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0 || about.st_size < 0 || uint64_t(about.st_size) < size) {
    return fail(status::invalid, "shared memory: %zu bytes were promised and are not there", size);
  }
  if (int const seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(status::invalid,
                "shared memory: what was promised may be taken away: it is not sealed");
  }
  void *made = nullptr;
  if (at == nullptr) {
    made = map_anywhere(descriptor, size, part);
  } else {
    made = mmap(at, size, PROT_READ | PROT_WRITE, shared_kind | MAP_FIXED_NOREPLACE, descriptor, 0);
    if (made != MAP_FAILED && made != at) {
      munmap(made, size);
      errno = EEXIST;
      made = MAP_FAILED;
    }
  }
  if (made == MAP_FAILED) {
    int const code = errno;
    if (at == nullptr)
      return fail(status{-code}, "shared memory: %zu bytes cannot be mapped: %s", size,
                  strerror(code));
    return fail(status{-code}, "shared memory: %zu bytes cannot be mapped at %p: %s", size, at,
                strerror(code));
  }
  (void)madvise(made, size, MADV_HUGEPAGE);
  shared_mapping mapping;
  mapping.memory_ = {static_cast<std::byte *>(made), size};
  return mapping;
}

#if defined(TND_TSAN)
constinit const bool shared_mapping::is_joint = true;

result<shared_mapping> shared_mapping::map_beside(int descriptor, size_t size, void *at,
                                                  const aligned_part &part) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0)
    return map(descriptor, size, at, part);
  lock_guard const lock{joint_mutex};
  auto &all = joint_mappings();
  auto const found = std::find_if(all.begin(), all.end(), [&](auto &each) {
    bool const is_there = at == nullptr || at == each.memory.data();
    return is_there && each.device == about.st_dev && each.file == about.st_ino &&
           each.memory.size() >= size;
  });
  if (found == all.end()) {
    auto made = map(descriptor, size, at, part);
    if (made.ok())
      all.push_back({about.st_dev, about.st_ino, made.value().memory_, 1});
    return made;
  }
  found->use_count++;
  shared_mapping mapping;
  mapping.memory_ = found->memory.first(size);
  return mapping;
}
#else
constinit const bool shared_mapping::is_joint = false;

result<shared_mapping> shared_mapping::map_beside(int descriptor, size_t size, void *at,
                                                  const aligned_part &part) {
  return map(descriptor, size, at, part);
}
#endif

shared_mapping &shared_mapping::operator=(shared_mapping &&other) noexcept {
  std::swap(memory_, other.memory_);
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

}  // namespace tanada::port
