// tests/sim/pool_life_disk.hpp: a pool's backing file whose unsynced bytes are lost in a power
// failure.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/world.hpp"

namespace tanada::test {

// How a disk's syncs differ from a reliable disk's.
enum class disk_fault {
  none,
  no_effect,   // of any sync
  short_sync,  // only the first page of a range is synced
  late_sync,   // a range is synced only by the next sync
};

// A file in memory that the pool maps as any other, and a copy of what was synced. The program's
// msync() is replaced by one that also records its calls. One at a time in a process, all of one
// size; each begins with the same bytes, none of them zero.
class backing_disk {
 public:
  explicit backing_disk(uint64_t size);
  ~backing_disk();
  backing_disk(const backing_disk &) = delete;
  backing_disk &operator=(const backing_disk &) = delete;

  // The file of a process.
  static std::string path_of(pid_t process);

  // Removes files left by killed processes; the first disk of a process does so, too.
  static void remove_leftovers();

  const std::string &path() const noexcept {
    return path_;
  }

  // The address at which the pool has mapped the file, for synced(). Null: not mapped any more.
  void set_mapping(const std::byte *addr) noexcept {
    mapping_ = addr;
  }

  // Of all syncs from now on.
  void set_fault(disk_fault fault) noexcept {
    fault_ = fault;
  }

  // The pool synced these bytes.
  void synced(const void *addr, size_t size);

  // Bytes written since the last sync reach the disk or not, sector by sector.
  void fail_power(sim::prng &random);

 private:
  void write_back(size_t offset, size_t size);

  uint64_t const size_;
  std::string const path_;
  std::byte *const cached_;          // of the file: the content of the system's cache
  std::vector<std::byte> &durable_;  // the content of the disk
  std::vector<bool> &is_changed_;    // its pages: others have the initial bytes
  const std::byte *mapping_ = nullptr;
  disk_fault fault_ = disk_fault::none;
  size_t late_offset_ = 0, late_size_ = 0;  // bytes that the next sync writes
};

}  // namespace tanada::test
