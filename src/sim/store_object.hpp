// sim/store_object.hpp: the bytes of one URL of the simulated store, and what a crash leaves of
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/assert.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// Guarded by the mutex of the world.
class store_object {
 public:
  static constexpr uint64_t sector_size = 512;  // bytes; a crash keeps or loses a sector as a whole

  store_object(uint64_t id, uint64_t &used) : id_{id}, used_{used} {}
  ~store_object() {
    TND_ASSERT(used_ >= bytes_.size());
    used_ -= bytes_.size();
  }
  store_object(const store_object &) = delete;
  store_object &operator=(const store_object &) = delete;

  uint64_t id() const {
    return id_;
  }
  const std::string &bytes() const {
    return bytes_;
  }

  // `keep_old`: record the old contents, which a crash may restore.
  void resize(uint64_t size, bool keep_old);
  // The range must lie within bytes().
  void write(uint64_t offset, const char *source, uint64_t size, bool keep_old);

  void mark_synced();
  // A failed sync, as on Linux: the pages count as clean afterwards, so the next sync succeeds
  // without having written them.
  void mark_sync_failed();
  void crash(prng &random);

  uint64_t change_count = 0, changed_ns = 0;

 private:
  struct old_sector {
    std::string bytes;
    bool is_abandoned = false;
  };
  void record_old(uint64_t offset, uint64_t size);

  uint64_t id_;
  uint64_t &used_;  // size of all objects
  std::string bytes_;
  uint64_t safe_size_ = 0;                      // bytes; the size that a crash may restore
  std::map<uint64_t, old_sector> old_sectors_;  // by sector: the synced contents of changed sectors
};

}  // namespace tanada::sim
