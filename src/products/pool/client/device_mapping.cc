// Mappings of the pool's segments for a GPU: sharing, filling page tables, and registration.
#include "products/pool/client/device_mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/bulk_copy.hpp"
#include "seams/os/huge_pages.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t populate_size = seams::huge_page_size;
static_assert(device_mapping::part_size % populate_size == 0);

uint64_t count_of(uint64_t size, uint64_t unit) {
  return (size + unit - 1) / unit;
}

// The identity of the memory behind a descriptor. Inode numbers are reused, so it includes the time
// of birth.
using identity = std::array<uint64_t, 8>;

result<identity> identity_of(int descriptor, const segment_region &region) {
  struct statx about{};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &about) != 0) {
    int const code = errno;
    return fail(status{-code}, "a segment of the pool: statx: {}", std::strerror(code));
  }
  bool const has_birth = (about.stx_mask & STATX_BTIME) != 0;
  return identity{about.stx_dev_major,
                  about.stx_dev_minor,
                  about.stx_ino,
                  has_birth ? uint64_t(about.stx_btime.tv_sec) : 0,
                  has_birth ? about.stx_btime.tv_nsec : 0,
                  region.file_offset,
                  region.size,
                  region.is_writable};
}

struct mapping_table {
  int const owner = getpid();
  tanada::mutex mutex;
  std::map<identity, std::weak_ptr<device_mapping>> mappings TND_GUARDED_BY(mutex);
};

// A forked process gets a new table, because a thread of the parent may hold the lock of the old
// one. Never destroyed.
mapping_table &table_of_process() {
  static std::atomic<mapping_table *> current{new mapping_table};
  mapping_table *table = current.load(std::memory_order_acquire);
  while (table->owner != getpid()) {
    auto *const created = new mapping_table;
    if (current.compare_exchange_strong(table, created, std::memory_order_acq_rel))
      return *created;
    delete created;
  }
  return *table;
}

}  // namespace

device_mapping::device_mapping(const segment_region &region)
    : region_{region},
      owner_{getpid()},
      populated_{std::make_unique<std::atomic<bool>[]>(count_of(region.size, populate_size))},
      parts_{std::make_unique<std::atomic<part_state>[]>(part_count())} {}

result<std::shared_ptr<device_mapping>> device_mapping::open(int descriptor,
                                                             const segment_region &region) {
  auto key = identity_of(descriptor, region);
  if (!key.ok())
    return key.error();
  mapping_table &table = table_of_process();
  lock_guard const lock{table.mutex};
  auto &known = table.mappings[key.value()];
  if (auto mapping = known.lock(); mapping != nullptr)
    return mapping;
  std::erase_if(table.mappings, [&](const auto &entry) {
    return entry.first != key.value() && entry.second.expired();
  });
  std::shared_ptr<device_mapping> opened{new device_mapping{region}};
  int const protection = PROT_READ | (region.is_writable ? PROT_WRITE : 0);
  void *const addr =
      seams::map_file_part({descriptor, region.file_offset, region.size}, protection);
  if (addr == nullptr) {
    return fail(status::no_memory,
                "mapping {} bytes of the pool for a GPU: {}",
                region.size,
                std::strerror(errno));
  }
  opened->addr_ = static_cast<std::byte *>(addr);
  // Without a descriptor, all copies use the mapping, which is fast if pages are huge.
  if (!region.has_huge_pages)
    opened->descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  known = opened;
  return opened;
}

device_mapping::~device_mapping() {
  if (addr_ == nullptr)
    return;
  if (owner_ == getpid())
    unregister_parts();
  munmap(addr_, region_.size);
  if (descriptor_ >= 0)
    close(descriptor_);
}

void device_mapping::unregister_parts() noexcept {
  for (uint64_t part = 0; part < part_count(); part++) {
    bool const is_part_registered =
        parts_[part].load(std::memory_order_acquire) == part_state::registered;
    if (is_part_registered)
      gpu_->unregister_host(addr_ + part * part_size);
  }
}

void device_mapping::populate(uint64_t offset, uint64_t size) noexcept {
  TND_ASSERT(size != 0 && offset <= region_.size && size <= region_.size - offset);
  for (uint64_t unit = offset / populate_size; unit <= (offset + size - 1) / populate_size;
       unit++) {
    if (populated_[unit].load(std::memory_order_relaxed))
      continue;
    uint64_t const begin = unit * populate_size;
    size_t const unit_size = std::min(populate_size, region_.size - begin);
    seams::populate_file_part(addr_ + begin, unit_size, region_.is_writable);
    populated_[unit].store(true, std::memory_order_relaxed);
  }
}

bool device_mapping::is_populated(uint64_t offset, uint64_t size) const noexcept {
  TND_ASSERT(size != 0 && offset <= region_.size && size <= region_.size - offset);
  for (uint64_t unit = offset / populate_size; unit <= (offset + size - 1) / populate_size;
       unit++) {
    if (!populated_[unit].load(std::memory_order_relaxed))
      return false;
  }
  return true;
}

// The kernel admits one writer at a time to a file. Other threads use the mapping instead of
// waiting.
bool device_mapping::store_by_file(uint64_t offset,
                                   const std::byte *source,
                                   uint64_t size) noexcept {
  if (descriptor_ < 0 || has_writer_.exchange(true, std::memory_order_acquire))
    return false;
  uint64_t done = 0;
  while (done < size) {
    ssize_t const count =
        pwrite(descriptor_, source + done, size - done, off_t(region_.file_offset + offset + done));
    if (count <= 0)
      break;
    done += uint64_t(count);
  }
  has_writer_.store(false, std::memory_order_release);
  return done == size;
}

bool device_mapping::load_by_file(uint64_t offset, std::byte *target, uint64_t size) noexcept {
  uint64_t done = 0;
  while (descriptor_ >= 0 && done < size) {
    ssize_t const count =
        pread(descriptor_, target + done, size - done, off_t(region_.file_offset + offset + done));
    if (count <= 0)
      break;
    done += uint64_t(count);
  }
  return done == size;
}

void device_mapping::store(uint64_t offset, const std::byte *source, uint64_t size) noexcept {
  if (size == 0 || (!is_populated(offset, size) && store_by_file(offset, source, size)))
    return;
  populate(offset, size);
  seams::copy_past_caches(addr_ + offset, source, size);
}

void device_mapping::load(uint64_t offset, std::byte *target, uint64_t size) noexcept {
  if (size == 0 || (!is_populated(offset, size) && load_by_file(offset, target, size)))
    return;
  populate(offset, size);
  std::memcpy(target, addr_ + offset, size);
}

uint64_t device_mapping::size_in_part(uint64_t offset, uint64_t size) noexcept {
  return std::min(size, part_size - offset % part_size);
}

bool device_mapping::is_registered(uint64_t offset) const noexcept {
  TND_ASSERT(offset / part_size < part_count());
  return parts_[offset / part_size].load(std::memory_order_acquire) == part_state::registered;
}

bool device_mapping::may_register(uint64_t offset) const noexcept {
  TND_ASSERT(offset / part_size < part_count());
  return parts_[offset / part_size].load(std::memory_order_acquire) != part_state::refused;
}

status device_mapping::register_part(uint64_t part, const std::shared_ptr<seams::gpu> &gpu) {
  TND_ASSERT(part < part_count() && gpu != nullptr);
  std::atomic<part_state> &state = parts_[part];
  auto before = part_state::unregistered;
  if (!state.compare_exchange_strong(before, part_state::registering, std::memory_order_acq_rel)) {
    state.wait(part_state::registering, std::memory_order_acquire);
    bool const succeeded = state.load(std::memory_order_acquire) == part_state::registered;
    // The other thread has logged the failure.
    return succeeded ? status::ok : status::not_supported;
  }
  uint64_t const begin = part * part_size, size = std::min(part_size, region_.size - begin);
  std::call_once(gpu_once_, [&] { gpu_ = gpu; });
  populate(begin, size);
  auto const access = region_.is_writable ? seams::host_access::write : seams::host_access::read;
  status const code = gpu->register_host(addr_ + begin, size, access);
  state.store(code == status::ok ? part_state::registered : part_state::refused,
              std::memory_order_release);
  state.notify_all();
  // The GPU would refuse the other parts, too, and log each refusal.
  for (uint64_t i = 0; code != status::ok && i < part_count(); i++) {
    before = part_state::unregistered;
    (void)parts_[i].compare_exchange_strong(before, part_state::refused);
  }
  return code;
}

}  // namespace tanada::pool
