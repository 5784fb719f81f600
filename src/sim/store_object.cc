#include "sim/store_object.hpp"

#include <algorithm>

namespace tanada::sim {

void store_object::remember(uint64_t offset, uint64_t size) {
  if (size == 0)
    return;
  for (uint64_t sector = offset / sector_size; sector <= (offset + size - 1) / sector_size;
       sector++) {
    auto const [at, fresh] = old_.try_emplace(sector);
    at->second.given_up = false;
    uint64_t const begin = sector * sector_size;
    if (fresh && begin < bytes_.size())
      at->second.bytes = bytes_.substr(begin, sector_size);
  }
}

void store_object::resize(uint64_t size, bool keep_old) {
  if (keep_old) {
    uint64_t const low = std::min<uint64_t>(size, bytes_.size()),
                   high = std::max<uint64_t>(size, bytes_.size());
    remember(low, high - low);
  }
  used_ = used_ - bytes_.size() + size;
  bytes_.resize(size);
}

void store_object::write(uint64_t offset, const char *from, uint64_t size, bool keep_old) {
  if (keep_old)
    remember(offset, size);
  std::copy_n(from, size, bytes_.begin() + std::ptrdiff_t(offset));
}

void store_object::synced() {
  std::erase_if(old_, [](const auto &entry) { return !entry.second.given_up; });
  safe_size_ = bytes_.size();
}

void store_object::sync_failed() {
  for (auto &[sector, old] : old_)
    old.given_up = true;
}

// All that changed is there, or nothing, or each sector as it likes.
void store_object::crash(prng &random) {
  uint32_t const kept_percent = uint32_t(random.below(3)) * 50;
  uint64_t const size = random.chance(kept_percent) ? bytes_.size() : safe_size_;
  used_ -= bytes_.size();
  for (const auto &[sector, old] : old_) {
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
  old_.clear();
}

}  // namespace tanada::sim
