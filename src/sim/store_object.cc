// The bytes of one object of the simulated store, with its unsynced sectors.
#include "sim/store_object.hpp"

#include <algorithm>

namespace tanada::sim {

void store_object::record_old(uint64_t offset, uint64_t size) {
  if (size == 0)
    return;
  for (uint64_t sector = offset / sector_size; sector <= (offset + size - 1) / sector_size;
       sector++) {
    auto const [position, fresh] = old_sectors_.try_emplace(sector);
    position->second.is_abandoned = false;
    uint64_t const begin = sector * sector_size;
    if (fresh && begin < bytes_.size())
      position->second.bytes = bytes_.substr(begin, sector_size);
  }
}

void store_object::resize(uint64_t size, bool keep_old) {
  if (keep_old) {
    uint64_t const low = std::min<uint64_t>(size, bytes_.size()),
                   high = std::max<uint64_t>(size, bytes_.size());
    record_old(low, high - low);
  }
  TND_ASSERT(used_ >= bytes_.size());
  used_ = used_ - bytes_.size() + size;
  bytes_.resize(size);
}

void store_object::write(uint64_t offset, const char *source, uint64_t size, bool keep_old) {
  TND_ASSERT(offset <= bytes_.size() && size <= bytes_.size() - offset);
  if (keep_old)
    record_old(offset, size);
  std::copy_n(source, size, bytes_.begin() + std::ptrdiff_t(offset));
}

void store_object::mark_synced() {
  std::erase_if(old_sectors_, [](const auto &entry) { return !entry.second.is_abandoned; });
  safe_size_ = bytes_.size();
}

void store_object::mark_sync_failed() {
  for (auto &[sector, old] : old_sectors_)
    old.is_abandoned = true;
}

// A crash keeps all changes, none, or a random half of the sectors.
void store_object::crash(prng &random) {
  uint32_t const kept_percent = uint32_t(random.below(3)) * 50;
  uint64_t const size = random.chance(kept_percent) ? bytes_.size() : safe_size_;
  TND_ASSERT(used_ >= bytes_.size());
  used_ -= bytes_.size();
  for (const auto &[sector, old] : old_sectors_) {
    if (random.chance(kept_percent))
      continue;
    uint64_t const begin = sector * sector_size;
    if (bytes_.size() < begin + sector_size)
      bytes_.resize(begin + sector_size);
    std::fill_n(bytes_.begin() + std::ptrdiff_t(begin), sector_size, '\0');
    std::copy(old.bytes.begin(), old.bytes.end(), bytes_.begin() + std::ptrdiff_t(begin));
  }
  bytes_.resize(size);
  used_ += size;
  safe_size_ = size;
  old_sectors_.clear();
}

}  // namespace tanada::sim
