#include "products/poold/backing_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::poold {
namespace {

using number = unsigned long long;  // for messages

}  // namespace

result<std::unique_ptr<backing_file>> backing_file::open(const std::string &path, uint64_t size) {
  std::unique_ptr<backing_file> made{new backing_file{path, size}};
  TND_TRY(made->prepare());
  return made;
}

backing_file::~backing_file() {
  guard_.reset();
  if (addr_ != nullptr)
    munmap(addr_, size_);
  if (file_ >= 0)
    close(file_);
}

status backing_file::prepare() {
  const char *const path = path_.c_str();
  file_ = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0)
    return fail(status(-errno), "%s: %s", path, std::strerror(errno));
  // The journal's folder has a lock of its own; a second path to the same file would have another
  // folder.
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    return fail(status::busy, "%s belongs to another daemon", path);
  struct stat about{};
  if (fstat(file_, &about) != 0)
    return fail(status::io, "%s: %s", path, std::strerror(errno));
  is_device_ = !S_ISREG(about.st_mode);
  // All blocks at once: a full disk shows here and not at some later write.
  if (int const error = is_device_ ? 0 : posix_fallocate(file_, 0, off_t(size_)); error != 0) {
    return fail(status::no_space, "%s of %llu bytes: %s", path, number(size_),
                std::strerror(error));
  }
  file_size_ = size_;
  // One range of addresses for all of it, so that there is one to guard.
  void *const addr =
      mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addr == MAP_FAILED)
    return fail(status::no_memory, "%llu bytes of addresses: %s", number(size_),
                std::strerror(errno));
  addr_ = static_cast<std::byte *>(addr);
  auto guard = port::guarded_memory::guard(addr_, size_);
  if (!guard.ok())
    return guard.error();
  guard_ = std::move(guard).value();
  return status::ok;
}

result<std::byte *> backing_file::map(uint64_t offset, uint64_t size, bool populate) {
  int const flags = MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0);
  void *const addr =
      mmap(addr_ + offset, size, PROT_READ | PROT_WRITE, flags, file_, off_t(offset));
  if (addr != MAP_FAILED)
    return static_cast<std::byte *>(addr);
  return fail(status::no_memory, "%s: mapping %llu bytes: %s", path_.c_str(), number(size),
              std::strerror(errno));
}

// The mutex is held.
void backing_file::lose(uint64_t begin, uint64_t end) {
  auto at = lost_.upper_bound(begin);
  if (at != lost_.begin() && std::prev(at)->second >= begin)
    --at;
  while (at != lost_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    lost_size_ -= at->second - at->first;
    at = lost_.erase(at);
  }
  lost_[begin] = end;
  lost_size_ += end - begin;
}

bool backing_file::look() {
  struct stat about{};
  bool const known = !is_device_ && fstat(file_, &about) == 0;
  if (known && about.st_nlink == 0 && !is_removed_.exchange(true)) {
    log(log_level::error, "pool: %s was removed: nothing is durable any more", path_.c_str());
  }
  uint64_t const size = known ? std::min(uint64_t(about.st_size), size_) : size_;
  size_t const pages = guard_->lost_count();
  std::lock_guard lock{mutex_};
  uint64_t const before = lost_size_;
  if (size < file_size_) {
    lose(size, size_);
    file_size_ = size;
  }
  if (pages != lost_page_count_) {
    lost_page_count_ = pages;
    uint64_t const page_size = guard_->page_size();
    for (uint64_t i = 0; i < size_ / page_size; i++)
      if (guard_->is_lost(i))
        lose(i * page_size, (i + 1) * page_size);
  }
  if (lost_size_ == before)
    return false;
  log(log_level::error,
      "pool: %llu of %llu bytes of %s are lost: somebody has cut the file, or it cannot be read",
      number(lost_size_), number(size_), path_.c_str());
  return true;
}

bool backing_file::is_lost(uint64_t offset, uint64_t size) const {
  if (lost_size() == 0 || size == 0)
    return false;
  std::lock_guard lock{mutex_};
  auto const after = lost_.lower_bound(offset + size);
  return after != lost_.begin() && std::prev(after)->second > offset;
}

void backing_file::visit_whole(
    uint64_t offset, uint64_t size,
    const std::function<void(uint64_t offset, uint64_t size)> &take) const {
  uint64_t const end = offset + size;
  std::lock_guard lock{mutex_};
  auto at = lost_.upper_bound(offset);
  if (at != lost_.begin())
    offset = std::max(offset, std::prev(at)->second);
  for (; offset < end; ++at) {
    uint64_t const until = at == lost_.end() ? end : std::min(end, at->first);
    take(offset, until - offset);
    if (at == lost_.end())
      return;
    offset = at->second;
  }
}

status backing_file::sync(uint64_t offset, uint64_t size) {
  auto const page_size = uint64_t(guard_->page_size());
  uint64_t const begin = offset & ~(page_size - 1);
  if (msync(addr_ + begin, offset + size - begin, MS_SYNC) != 0) {
    return fail(status::io, "%s: syncing %llu bytes: %s", path_.c_str(), number(size),
                std::strerror(errno));
  }
  if (is_removed_)
    return fail(status::io, "%s was removed: nobody will find what is written to it",
                path_.c_str());
  return status::ok;
}

}  // namespace tanada::poold
