// The backing file of a pool's memory: its mapping, its losses and its syncs.
#include "products/poold/backing_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {
namespace {

constexpr size_t clear_size = size_t{1} << 20;  // bytes of a write that clears new blocks

}  // namespace

result<std::unique_ptr<backing_file>> backing_file::open(const std::string &path,
                                                         uint64_t size,
                                                         seams::persistent_memory *persistent) {
  std::unique_ptr<backing_file> file{new backing_file{path, size}};
  TND_TRY(file->prepare(persistent));
  return file;
}

backing_file::~backing_file() {
  guard_.reset();
  if (addr_ != nullptr && mapping_ == nullptr)
    munmap(addr_, size_);
  if (file_ >= 0)
    close(file_);
}

status backing_file::prepare(seams::persistent_memory *persistent) {
  TND_TRY(open_file(persistent));
  TND_TRY(lock_file());
  // Allocate all blocks now, so that a full disk is reported here and not by a later write.
  if (int const error = is_device_ ? 0 : posix_fallocate(file_, 0, off_t(size_)); error != 0) {
    return fail(status::no_space, "{} of {} bytes: {}", path_, size_, std::strerror(error));
  }
  if (persistent != nullptr)
    TND_TRY(map_persistent(*persistent));
  if (mapping_ == nullptr)
    TND_TRY(reserve_addresses());
  return guard_addresses();
}

// Leaves the file unmapped if it is not in persistent memory.
status backing_file::map_persistent(seams::persistent_memory &memory) {
  TND_ASSERT(mapping_ == nullptr && addr_ == nullptr);
  auto mapped = memory.map(file_);
  if (!mapped.ok() && mapped.error() != status::not_supported)
    return mapped.error();
  if (!mapped.ok()) {
    std::string const reason = last_message();
    if (is_dax_device_)
      return fail(status::not_supported, "{} cannot be a pool's memory: {}", path_, reason);
    log(log_level::info, "pool: {} is made durable by msync: {}", path_, reason);
    return status::ok;
  }
  uint64_t const mapped_size = mapped.value()->size();
  if (mapped_size < size_)
    return fail(status::no_space,
                "{} has {} bytes, and the pool's segments take {}: give a smaller --size, or a "
                "smaller --segment-size",
                path_,
                mapped_size,
                size_);
  mapping_ = std::move(mapped).value();
  addr_ = mapping_->addr();
  log(log_level::info,
      "pool: {} is persistent memory: it is made durable by flushes of cache lines",
      path_);
  return status::ok;
}

// A block that was allocated and never written is marked as such, and the first store to each page
// of it waits until the file system has recorded that it has contents.
status backing_file::clear_new_blocks(uint64_t offset, uint64_t end) {
  uint64_t const begin = is_device_ ? end : std::max(offset, old_size_);
  std::vector<std::byte> const zeros(clear_size);
  for (uint64_t position = begin; position < end;) {
    uint64_t const size = std::min<uint64_t>(zeros.size(), end - position);
    ssize_t const written = pwrite(file_, zeros.data(), size, off_t(position));
    if (written <= 0)
      return fail(status::io, "{}: clearing new blocks: {}", path_, std::strerror(errno));
    position += uint64_t(written);
  }
  if (begin < end && fsync(file_) != 0)
    return fail(status::io, "{}: clearing new blocks: {}", path_, std::strerror(errno));
  return status::ok;
}

status backing_file::open_file(seams::persistent_memory *persistent) {
  TND_ASSERT(file_ < 0);
  const char *const path = path_.c_str();
  file_ = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0)
    return fail(status(-errno), "{}: {}", path, std::strerror(errno));
  struct stat file_status{};
  if (fstat(file_, &file_status) != 0)
    return fail(status::io, "{}: {}", path, std::strerror(errno));
  is_device_ = !S_ISREG(file_status.st_mode);
  is_dax_device_ = persistent != nullptr && persistent->is_device(file_);
  old_size_ = uint64_t(file_status.st_size);
  return status::ok;
}

// Lock the file itself: the lock of the journal's folder does not cover a second path to the same
// file, which has another folder.
status backing_file::lock_file() {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  int const code =
      is_dax_device_ ? fcntl(file_, F_OFD_SETLK, &whole) : flock(file_, LOCK_EX | LOCK_NB);
  if (code != 0)
    return fail(status::busy, "{} belongs to another daemon", path_);
  return status::ok;
}

result<int> backing_file::export_descriptor(bool writable) {
  TND_ASSERT(is_dax_device_);
  std::string const own_path = "/proc/self/fd/" + std::to_string(file_);
  // A duplicate would share its lock with this process.
  int const descriptor = ::open(own_path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) == 0)
    return descriptor;
  status const code =
      fail(status::io, "{}: a descriptor for a client: {}", path_, std::strerror(errno));
  if (descriptor >= 0)
    close(descriptor);
  return code;
}

bool backing_file::has_old_clients() {
  if (!is_dax_device_)
    return false;
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    return true;
  (void)flock(file_, LOCK_UN);
  return false;
}

// Reserve one range of addresses for the whole file, so that there is one range to guard.
status backing_file::reserve_addresses() {
  TND_ASSERT(addr_ == nullptr);
  void *const addr =
      mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addr == MAP_FAILED)
    return fail(status::no_memory, "{} bytes of addresses: {}", size_, std::strerror(errno));
  addr_ = static_cast<std::byte *>(addr);
  return status::ok;
}

status backing_file::guard_addresses() {
  TND_ASSERT(addr_ != nullptr && guard_ == nullptr);
  uint64_t const granule = mapping_ != nullptr ? mapping_->granule() : 0;
  // All of a mapping, because the pool may end within a granule.
  uint64_t const size = mapping_ != nullptr ? mapping_->size() / granule * granule : size_;
  auto guard = seams::guarded_memory::guard(addr_, size, granule);
  if (!guard.ok())
    return guard.error();
  guard_ = std::move(guard).value();
  return status::ok;
}

result<std::byte *> backing_file::map(uint64_t offset, uint64_t size, bool populate) {
  TND_ASSERT(addr_ != nullptr && range_fits(offset, size, size_));
  if (mapping_ != nullptr) {
    if (!populate)
      return addr_ + offset;
    TND_TRY(clear_new_blocks(offset, offset + size));
    (void)madvise(addr_ + offset, size, MADV_POPULATE_WRITE);  // best effort, as MAP_POPULATE is
    return addr_ + offset;
  }
  int const flags = MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0);
  void *const addr =
      mmap(addr_ + offset, size, PROT_READ | PROT_WRITE, flags, file_, off_t(offset));
  if (addr != MAP_FAILED)
    return static_cast<std::byte *>(addr);
  return fail(status::no_memory, "{}: mapping {} bytes: {}", path_, size, std::strerror(errno));
}

void backing_file::mark_lost(uint64_t begin, uint64_t end) {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(begin < end && end <= size_);
  auto it = lost_.upper_bound(begin);
  if (it != lost_.begin() && std::prev(it)->second >= begin)
    --it;
  while (it != lost_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    lost_size_ -= it->second - it->first;
    it = lost_.erase(it);
  }
  lost_[begin] = end;
  lost_size_ += end - begin;
}

bool backing_file::check_losses() {
  struct stat file_status{};
  bool const known = !is_device_ && fstat(file_, &file_status) == 0;
  if (known && file_status.st_nlink == 0 && !is_removed_.exchange(true)) {
    log(log_level::error,
        "pool: {} was removed from its directory: nothing is durable any more",
        path_);
  }
  uint64_t const size = known ? std::min(uint64_t(file_status.st_size), size_) : size_;
  size_t const pages = guard_->replaced_count();
  lock_guard lock{mutex_};
  uint64_t const lost_before = lost_size_;
  if (size < file_size_) {
    mark_lost(size, size_);
    file_size_ = size;
  }
  if (pages != lost_page_count_) {
    lost_page_count_ = pages;
    uint64_t const granule = guard_->granule();
    for (uint64_t i = 0; i * granule < size_; i++)
      if (guard_->is_replaced(i))
        mark_lost(i * granule, std::min((i + 1) * granule, size_));
  }
  if (lost_size_ == lost_before)
    return false;
  log(log_level::error,
      "pool: {} of {} bytes of {} are lost: the file was truncated, or it cannot be read",
      lost_size_,
      size_,
      path_);
  return true;
}

bool backing_file::is_lost(uint64_t offset, uint64_t size) const {
  if (lost_size() == 0 || size == 0)
    return false;
  lock_guard lock{mutex_};
  auto const it = lost_.lower_bound(offset + size);
  return it != lost_.begin() && std::prev(it)->second > offset;
}

void backing_file::visit_intact(
    uint64_t offset,
    uint64_t size,
    const std::function<void(uint64_t offset, uint64_t size)> &visitor) const {
  uint64_t const end = offset + size;
  lock_guard lock{mutex_};
  auto it = lost_.upper_bound(offset);
  if (it != lost_.begin())
    offset = std::max(offset, std::prev(it)->second);
  for (; offset < end; ++it) {
    uint64_t const intact_end = it == lost_.end() ? end : std::min(end, it->first);
    visitor(offset, intact_end - offset);
    if (it == lost_.end())
      return;
    offset = it->second;
  }
}

status backing_file::sync_by_system(const range &synced) {
  auto const page_size = uint64_t(guard_->page_size());
  uint64_t const begin = synced.offset & ~(page_size - 1);
  if (msync(addr_ + begin, synced.offset + synced.size - begin, MS_SYNC) == 0)
    return status::ok;
  return fail(status::io, "{}: syncing {} bytes: {}", path_, synced.size, std::strerror(errno));
}

status backing_file::sync(std::span<const range> ranges) {
  if (ranges.empty())
    return status::ok;
  status code = status::ok;
  for (const range &synced : ranges) {
    TND_ASSERT(range_fits(synced.offset, synced.size, size_));
    if (mapping_ != nullptr) {
      mapping_->flush(addr_ + synced.offset, synced.size);
      continue;
    }
    status const outcome = sync_by_system(synced);
    code = code == status::ok ? outcome : code;
  }
  if (mapping_ != nullptr)
    mapping_->drain();
  TND_TRY(code);
  if (is_removed_)
    return fail(
        status::io,
        "{} was removed from its directory: bytes written to it are lost at the next restart",
        path_);
  return status::ok;
}

}  // namespace tanada::poold
