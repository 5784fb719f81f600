// tests/sim/pool_life_disk.cc: see pool_life_disk.hpp.
#include "sim/pool_life_disk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/base/assert.hpp"

namespace tanada::test {
namespace {

constexpr size_t sector_size = 512, page_size = 4096;
constexpr uint8_t initial_byte = 0xa7;  // of a new disk: uncleared memory is not zero
constexpr std::string_view name_prefix = "tanada_pool_life_";  // followed by the process id

backing_disk *current = nullptr;

// On tmpfs, so that nothing waits for a device; testing::TempDir() if there is no tmpfs.
std::string folder() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm/" : testing::TempDir();
}

// Kept from one simulation to the next, since creating a file takes longer than most of them.
struct kept_file {
  ~kept_file() {
    if (!path.empty())
      unlink(path.c_str());
  }
  std::string path;
  std::byte *cached = nullptr;
  std::vector<std::byte> durable;
  std::vector<bool> is_changed;  // pages of `durable`: others have the initial bytes
};

constexpr std::array<std::byte, page_size> filled_page() {
  std::array<std::byte, page_size> page{};
  page.fill(std::byte{initial_byte});
  return page;
}

// It stays in the processor's cache, which the whole disk does not.
constexpr std::array<std::byte, page_size> initial_page = filled_page();

void make_file(kept_file &made, uint64_t size) {
  backing_disk::remove_leftovers();
  made.path = backing_disk::path_of(getpid());
  int const file = open(made.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  TND_ASSERT(file >= 0 && ftruncate(file, off_t(size)) == 0);
  void *const addr = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  TND_ASSERT(addr != MAP_FAILED);
  close(file);
  made.cached = static_cast<std::byte *>(addr);
  made.durable.assign(size, std::byte{initial_byte});
  made.is_changed.assign(size / page_size, false);
}

kept_file &file_of(uint64_t size) {
  static kept_file kept;
  if (kept.path.empty())
    make_file(kept, size);
  TND_ASSERT(kept.durable.size() == size);
  return kept;
}

}  // namespace

std::string backing_disk::path_of(pid_t process) {
  return folder() + std::string{name_prefix} + std::to_string(process);
}

void backing_disk::remove_leftovers() {
  std::error_code error;
  for (auto const &entry : std::filesystem::directory_iterator{folder(), error}) {
    std::string const name = entry.path().filename().string();
    if (!name.starts_with(name_prefix))
      continue;
    pid_t const owner = std::atoi(name.c_str() + name_prefix.size());
    bool const is_dead = owner > 0 && kill(owner, 0) != 0 && errno == ESRCH;
    if (is_dead)
      unlink(entry.path().c_str());
  }
}

backing_disk::backing_disk(uint64_t size)
    : size_{size},
      path_{file_of(size).path},
      cached_{file_of(size).cached},
      durable_{file_of(size).durable},
      is_changed_{file_of(size).is_changed} {
  TND_ASSERT(current == nullptr);
  current = this;
  // Data of an earlier simulation would be included in this one's power failures.
  std::memset(cached_, initial_byte, size);
  for (size_t page = 0; page < is_changed_.size(); page++) {
    if (!is_changed_[page])
      continue;
    std::memcpy(durable_.data() + page * page_size, initial_page.data(), page_size);
    is_changed_[page] = false;
  }
}

backing_disk::~backing_disk() {
  current = nullptr;
}

void backing_disk::synced(const void *addr, size_t size) {
  auto const *const begin = static_cast<const std::byte *>(addr);
  if (mapping_ == nullptr || begin < mapping_ || begin >= mapping_ + size_)
    return;
  auto const offset = size_t(begin - mapping_);
  size_t synced_size = std::min(size, size_ - offset);
  if (fault_ == disk_fault::no_effect)
    return;
  if (fault_ == disk_fault::short_sync)
    synced_size = std::min(synced_size, page_size);
  if (fault_ == disk_fault::late_sync) {
    write_back(late_offset_, late_size_);
    late_offset_ = offset;
    late_size_ = synced_size;
    return;
  }
  write_back(offset, synced_size);
}

void backing_disk::write_back(size_t offset, size_t size) {
  std::memcpy(durable_.data() + offset, cached_ + offset, size);
  for (size_t page = offset / page_size; page * page_size < offset + size; page++)
    is_changed_[page] = true;
}

void backing_disk::fail_power(sim::prng &random) {
  for (size_t page = 0; page < size_; page += page_size) {
    bool const is_initial = !is_changed_[page / page_size];
    const std::byte *const durable = is_initial ? initial_page.data() : durable_.data() + page;
    if (std::memcmp(cached_ + page, durable, page_size) == 0)
      continue;
    is_changed_[page / page_size] = true;
    for (size_t sector = page; sector < page + page_size; sector += sector_size) {
      bool const is_written = random.chance(50);
      if (is_written)
        std::memcpy(durable_.data() + sector, cached_ + sector, sector_size);
      else
        std::memcpy(cached_ + sector, durable_.data() + sector, sector_size);
    }
  }
}

}  // namespace tanada::test

// Calls the system's msync() and records what it made durable.
extern "C" int msync(void *addr, size_t size, int flags) {
  if (tanada::test::current != nullptr)
    tanada::test::current->synced(addr, size);
  return int(syscall(SYS_msync, addr, size, flags));
}

// The system's, except for the disk's file, whose blocks are all allocated: the system would take
// longer to find that out than a start takes for everything else.
extern "C" int posix_fallocate(int file, off_t offset, off_t size) {
  if (tanada::test::current != nullptr)
    return 0;
  return syscall(SYS_fallocate, file, 0, offset, size) == 0 ? 0 : errno;
}
