#include "seams/os/program_data.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::port {
namespace {

struct extent {
  uintptr_t begin = ~uintptr_t{0}, end = 0;
};

// The first object is the program. What the loader made read-only after relocation is no data.
int visit(dl_phdr_info *object, size_t, void *into) {
  auto &found = *static_cast<extent *>(into);
  uintptr_t const page = page_size();
  uintptr_t sealed_begin = 0, sealed_end = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    auto const &part = object->dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO)
      continue;
    sealed_begin = (object->dlpi_addr + part.p_vaddr) / page * page;
    sealed_end = (object->dlpi_addr + part.p_vaddr + part.p_memsz) / page * page;
  }
  for (int i = 0; i < object->dlpi_phnum; i++) {
    auto const &part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0)
      continue;
    uintptr_t begin = (object->dlpi_addr + part.p_vaddr) / page * page;
    uintptr_t const end =
        (object->dlpi_addr + part.p_vaddr + part.p_memsz + page - 1) / page * page;
    if (begin >= sealed_begin && begin < sealed_end)
      begin = sealed_end;
    if (begin >= end)
      continue;
    found.begin = std::min(found.begin, begin);
    found.end = std::max(found.end, end);
  }
  return 1;
}

// Where the program's data are: a descriptor of our own, -1 before they are shared, and the offset
// in it.
struct shared_at {
  int descriptor = -1;
  off_t offset = 0;
  ino_t number = 0;  // a program may have closed it, and opened another file

  bool is_there() const {
    struct stat now{};
    return descriptor >= 0 && fstat(descriptor, &now) == 0 && now.st_ino == number;
  }
};
constinit shared_at home;

// The next bytes from `at` on that somebody has written to. Empty at the end: the rest are zeros.
// What cannot be told is all.
extent next_written(size_t at, size_t size) {
  off_t const begin = lseek(home.descriptor, home.offset + off_t(at), SEEK_DATA);
  if (begin < 0)
    return errno == ENXIO ? extent{size, size} : extent{at, size};
  off_t const end = lseek(home.descriptor, begin, SEEK_HOLE);
  if (end < 0)
    return {at, size};
  return {std::min(size, size_t(begin - home.offset)), std::min(size, size_t(end - home.offset))};
}

// memcpy for whole words. AddressSanitizer takes the place of memcpy in a program that is built
// with it, and its guards between the program's variables are part of what is copied.
[[gnu::no_sanitize_address, gnu::noinline]] void copy_unchecked(std::byte *target,
                                                                const std::byte *source,
                                                                size_t size) {
  TND_ASSERT(size % sizeof(uint64_t) == 0);
  auto *const to = reinterpret_cast<volatile uint64_t *>(target);
  auto const *const from = reinterpret_cast<const uint64_t *>(source);
  for (size_t i = 0; i < size / sizeof(uint64_t); i++)
    to[i] = from[i];
}

// After fork the pages are still the parent's: the child takes a copy in their place, of those that
// are not zeros alone.
void become_private() {
  auto const data = program_data();
  void *const copy =
      mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    _exit(127);
  // The descriptor's position belongs to parent and children together; nobody relies on it.
  bool const is_there = home.is_there();
  for (size_t at = 0; at < data.size();) {
    auto const part = is_there ? next_written(at, data.size()) : extent{at, data.size()};
    size_t const size = part.end - part.begin;
    if (size != 0)
      copy_unchecked(static_cast<std::byte *>(copy) + part.begin, data.data() + part.begin, size);
    at = part.end;
  }
  if (is_there)
    close(home.descriptor);
  if (mremap(copy, data.size(), data.size(), MREMAP_MAYMOVE | MREMAP_FIXED, data.data()) ==
      MAP_FAILED)
    _exit(127);
  home.descriptor = -1;  // now, since it may be one of these data
}

// The system call itself, for the same reason: the checks of pwrite's stand-in would end the
// program.
bool write_all(int descriptor, std::span<const std::byte> bytes, size_t offset) {
  for (size_t done = 0; done < bytes.size();) {
    long const count = syscall(SYS_pwrite64, descriptor, bytes.data() + done, bytes.size() - done,
                               off_t(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    done += size_t(count);
  }
  return true;
}

// Pages of zeros are left out: large arrays that nobody has touched take no memory.
bool write_used_pages(int descriptor, std::span<const std::byte> bytes, size_t offset) {
  size_t const page = page_size();
  auto const is_used = [&](size_t at) {
    auto const part = bytes.subspan(at, page);
    return std::ranges::any_of(part, [](std::byte each) { return each != std::byte{0}; });
  };
  for (size_t begin = 0, end; begin < bytes.size(); begin = end) {
    end = begin + page;
    if (!is_used(begin))
      continue;
    while (end < bytes.size() && is_used(end))
      end += page;
    if (!write_all(descriptor, bytes.subspan(begin, end - begin), offset + begin))
      return false;
  }
  return true;
}

}  // namespace

std::span<std::byte> program_data() noexcept {
  static extent const found = [] {
    extent made;
    dl_iterate_phdr(visit, &made);
    return made;
  }();
  if (found.begin >= found.end)
    return {};
  return {reinterpret_cast<std::byte *>(found.begin), found.end - found.begin};
}

status program_data_share(int descriptor, size_t offset) {
  auto const data = program_data();
  if (data.empty())
    return status::ok;
  static bool const is_ready = pthread_atfork(nullptr, nullptr, [] { become_private(); }) == 0;
  bool const is_written = is_ready && write_used_pages(descriptor, data, offset);
  if (!is_written || mmap(data.data(), data.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                          descriptor, off_t(offset)) == MAP_FAILED) {
    int const code = errno;
    return fail(status{-code}, "the program's data (%zu bytes) cannot be shared: %s", data.size(),
                strerror(code));
  }
  if (home.is_there())
    close(home.descriptor);
  struct stat made{};
  if (fstat(descriptor, &made) == 0)
    home = {fcntl(descriptor, F_DUPFD_CLOEXEC, 3), off_t(offset), made.st_ino};
  return status::ok;
}

}  // namespace tanada::port
