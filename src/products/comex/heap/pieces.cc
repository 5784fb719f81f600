#include "products/comex/heap/pieces.hpp"

#include <sys/mman.h>

#include <cstring>

#include "seams/os/shared_memory.hpp"

namespace tanada::comex::heap {
namespace {

constexpr size_t large = size_t{1}
                         << 20;  // bytes: pages of pieces from here on go back to the system
constexpr size_t large_kept = size_t{128} << 10;  // where somebody moves what is not given back

}  // namespace

void *pieces::allocate(size_t size, size_t alignment) {
  if (size == 0 || size > memory_.size())
    return nullptr;
  size_t const whole = (size + granule - 1) / granule * granule;
  keeper *const who = keeper_;
  if (who != nullptr && !who->make_room(whole))
    return nullptr;
  std::unique_lock lock{mutex_};
  if (auto const at = books_.allocate(size, alignment))
    return memory_.data() + *at;
  lock.unlock();
  if (who != nullptr)
    who->room_back(whole);
  return nullptr;
}

void pieces::clear(void *piece, size_t size) {
  size_t const page = port::page_size(), offset = offset_of(piece);
  size_t const first = (offset + page - 1) / page * page, last = (offset + size) / page * page;
  auto *const begin = static_cast<std::byte *>(piece);
  if (first >= last || !give_back(first, last - first)) {
    std::memset(begin, 0, size);
    return;
  }
  std::memset(begin, 0, first - offset);
  std::memset(memory_.data() + last, 0, offset + size - last);
}

// A system that cannot keeps them.
bool pieces::give_back(size_t offset, size_t size) noexcept {
  if (madvise(memory_.data() + offset, size, MADV_REMOVE) != 0)
    return false;
  if (keeper *const who = keeper_; who != nullptr)
    who->forget(offset, size);
  return true;
}

bool pieces::release(void *piece) {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return false;
  if (keeper *const who = keeper_; who != nullptr)
    who->before_release();
  std::unique_lock lock{mutex_};
  auto const size = books_.size_of(offset);
  if (!size)
    return false;
  if (*size >= (keeper_ != nullptr ? large_kept : large)) {
    size_t const page = port::page_size(), first = (offset + page - 1) / page * page,
                 last = (offset + *size) / page * page;
    if (last > first)
      (void)give_back(first, last - first);
  }
  (void)books_.release(offset);
  lock.unlock();
  if (keeper *const who = keeper_; who != nullptr)
    who->room_back(*size);
  return true;
}

bool pieces::resize(void *piece, size_t size) {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return false;
  size_t const before = size_of(piece), after = (size + granule - 1) / granule * granule;
  if (before == 0 || size == 0 || size > memory_.size())
    return false;
  keeper *const who = keeper_;
  if (who != nullptr && after > before && !who->make_room(after - before))
    return false;
  std::unique_lock lock{mutex_};
  bool const is_done = books_.resize(offset, size);
  lock.unlock();
  if (who != nullptr && is_done && before > after)
    who->room_back(before - after);
  if (who != nullptr && !is_done && after > before)
    who->room_back(after - before);
  return is_done;
}

size_t pieces::size_of(const void *piece) const {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return 0;
  std::lock_guard const lock{mutex_};
  return books_.size_of(offset).value_or(0);
}

size_t pieces::free_size() const {
  std::lock_guard const lock{mutex_};
  return books_.free_size();
}

}  // namespace tanada::comex::heap
