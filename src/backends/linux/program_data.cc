// backends/linux/program_data.cc: shares the writable data of the program between processes.
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

namespace tanada::seams {
namespace {

struct extent {
  uintptr_t begin = ~uintptr_t{0}, end = 0;
};

// The first object is the program. Data that the loader made read-only after relocation are not
// included.
int visit(dl_phdr_info *object, size_t, void *result) {
  auto &data = *static_cast<extent *>(result);
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
    data.begin = std::min(data.begin, begin);
    data.end = std::max(data.end, end);
  }
  return 1;
}

// Where the program's data are: a descriptor of our own (-1 before they are shared) and the offset
// in it.
struct shared_location {
  int descriptor = -1;
  off_t offset = 0;
  ino_t number = 0;  // detects that the program closed the descriptor and reused its number

  bool is_valid() const {
    struct stat file_stat{};
    return descriptor >= 0 && fstat(descriptor, &file_stat) == 0 && file_stat.st_ino == number;
  }
};
constinit shared_location shared_data;

// The next written range at or after `offset`. Empty at the end: the rest are zeros. The whole
// rest, if the file system cannot report holes.
extent next_written(size_t offset, size_t size) {
  off_t const begin = lseek(shared_data.descriptor, shared_data.offset + off_t(offset), SEEK_DATA);
  if (begin < 0)
    return errno == ENXIO ? extent{size, size} : extent{offset, size};
  off_t const end = lseek(shared_data.descriptor, begin, SEEK_HOLE);
  if (end < 0)
    return {offset, size};
  return {std::min(size, size_t(begin - shared_data.offset)),
          std::min(size, size_t(end - shared_data.offset))};
}

// A memcpy for whole words. AddressSanitizer replaces memcpy and would report its guards between
// the program's variables, which are copied, too.
[[gnu::no_sanitize_address, gnu::noinline]] void copy_unchecked(std::byte *target,
                                                                const std::byte *source,
                                                                size_t size) {
  TND_ASSERT(size % sizeof(uint64_t) == 0);
  auto *const target_words = reinterpret_cast<volatile uint64_t *>(target);
  auto const *const source_words = reinterpret_cast<const uint64_t *>(source);
  for (size_t i = 0; i < size / sizeof(uint64_t); i++)
    target_words[i] = source_words[i];
}

// After fork the pages are still shared with the parent. The child replaces them with a private
// copy of those that are not zeros.
void become_private() {
  auto const data = program_data();
  TND_ASSERT(!data.empty());
  void *const copy =
      mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    _exit(127);
  // Parent and children share the descriptor's file position, on which nothing relies.
  bool const is_valid_file = shared_data.is_valid();
  for (size_t offset = 0; offset < data.size();) {
    auto const part =
        is_valid_file ? next_written(offset, data.size()) : extent{offset, data.size()};
    size_t const size = part.end - part.begin;
    if (size != 0)
      copy_unchecked(static_cast<std::byte *>(copy) + part.begin, data.data() + part.begin, size);
    offset = part.end;
  }
  if (is_valid_file)
    close(shared_data.descriptor);
  if (mremap(copy, data.size(), data.size(), MREMAP_MAYMOVE | MREMAP_FIXED, data.data()) ==
      MAP_FAILED)
    _exit(127);
  shared_data.descriptor = -1;  // set now, because the descriptor may be part of the data
}

// Uses the system call directly, because a sanitizer's checks in pwrite would end the program.
bool write_all(int descriptor, std::span<const std::byte> bytes, size_t offset) {
  for (size_t done = 0; done < bytes.size();) {
    long const count = syscall(
        SYS_pwrite64, descriptor, bytes.data() + done, bytes.size() - done, off_t(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    done += size_t(count);
  }
  return true;
}

// Reads all bytes, also those between variables, which AddressSanitizer would report.
[[gnu::no_sanitize_address, gnu::noinline]] bool is_zero(const std::byte *bytes,
                                                         size_t size) noexcept {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != std::byte{0})
      return false;
  }
  return true;
}

// Skips pages of zeros, so that large untouched arrays take no memory.
bool write_used_pages(int descriptor, std::span<const std::byte> bytes, size_t offset) {
  size_t const page = page_size();
  TND_ASSERT(bytes.size() % page == 0);
  auto const is_used = [&](size_t position) {
    return !is_zero(bytes.data() + position, page);
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
  static extent const data = [] {
    extent collected;
    dl_iterate_phdr(visit, &collected);
    return collected;
  }();
  if (data.begin >= data.end)
    return {};
  return {reinterpret_cast<std::byte *>(data.begin), data.end - data.begin};
}

status program_data_share(int descriptor, size_t offset) {
  auto const data = program_data();
  if (data.empty())
    return status::ok;
  static bool const is_ready = pthread_atfork(nullptr, nullptr, [] { become_private(); }) == 0;
  bool const is_written = is_ready && write_used_pages(descriptor, data, offset);
  if (!is_written || mmap(data.data(),
                          data.size(),
                          PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED,
                          descriptor,
                          off_t(offset)) == MAP_FAILED) {
    int const code = errno;
    return fail(status{-code},
                "the program's data ({} bytes) cannot be shared: {}",
                data.size(),
                strerror(code));
  }
  if (shared_data.is_valid())
    close(shared_data.descriptor);
  struct stat file_stat{};
  if (fstat(descriptor, &file_stat) == 0)
    shared_data = {fcntl(descriptor, F_DUPFD_CLOEXEC, 3), off_t(offset), file_stat.st_ino};
  return status::ok;
}

}  // namespace tanada::seams
