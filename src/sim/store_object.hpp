// sim/store_object.hpp: the bytes behind a URL of the simulated store, and what a crash leaves of
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/world.hpp"

namespace tanada::sim {

// Guarded by the world's mutex.
class store_object {
 public:
  static constexpr uint64_t sector_size = 512;  // bytes; what a crash keeps or loses as one

  store_object(uint64_t id, uint64_t &used) : id_{id}, used_{used} {}
  ~store_object() {
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

  // `keep_old`: remember what a crash may bring back.
  void resize(uint64_t size, bool keep_old);
  void write(uint64_t offset, const char *from, uint64_t size, bool keep_old);  // within bytes()

  void synced();
  // As on Linux: after an error the pages count as clean, so that the next sync says ok without
  // having written them.
  void sync_failed();
  void crash(prng &random);

  uint64_t change_count = 0, changed_ns = 0;

 private:
  struct old_sector {
    std::string bytes;
    bool given_up = false;
  };
  void remember(uint64_t offset, uint64_t size);

  uint64_t id_;
  uint64_t &used_;  // bytes of all objects
  std::string bytes_;
  uint64_t safe_size_ = 0;              // bytes; what a crash may go back to
  std::map<uint64_t, old_sector> old_;  // by sector: what is safe of those that changed
};

}  // namespace tanada::sim
