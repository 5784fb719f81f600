#include "backends/mem/mem_object.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/base/mutex.hpp"
#include "seams/os/racy_copy.hpp"
#include "seams/store/store_op_check.hpp"

namespace tanada::port {

bool mem_budget::acquire(uint64_t size) noexcept {
  uint64_t const limit = size_max_.load(std::memory_order_relaxed);
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > limit || size > limit - used)
      return false;
  } while (!used_.compare_exchange_weak(used, used + size, std::memory_order_relaxed));
  return true;
}

void mem_object::chunk_free::operator()(std::byte *chunk) const noexcept {
  std::free(chunk);
}

mem_object::~mem_object() {
  drop_chunks(0);
}

uint64_t mem_object::read(uint64_t offset, std::span<const store_buffer> buffers) const {
  shared_lock lock{mutex_};
  uint64_t at = offset;
  for (const auto &buffer : buffers) {
    size_t filled = 0;
    while (filled < buffer.size && at < size_) {
      uint64_t const in_chunk = at % chunk_size;
      size_t const part =
          std::min({buffer.size - filled, size_t(chunk_size - in_chunk), size_t(size_ - at)});
      const auto &bytes = chunks_[at / chunk_size];
      if (bytes) {
        racy_copy(buffer.addr + filled, bytes.get() + in_chunk, part);
      } else {
        racy_zero(buffer.addr + filled, part);
      }
      filled += part;
      at += part;
    }
    if (filled < buffer.size)
      break;
  }
  return at - offset;
}

status mem_object::write(uint64_t offset, std::span<const store_buffer> buffers, uint64_t size) {
  if (size == 0)
    return status::ok;
  if (offset > size_max || size > size_max - offset)
    return status::too_big;
  {
    shared_lock lock{mutex_};
    if (covered(offset, size)) {
      copy_in(offset, buffers);
      version_.fetch_add(1, std::memory_order_acq_rel);
      return status::ok;
    }
  }
  unique_lock lock{mutex_};
  TND_TRY(extend(offset, size));
  copy_in(offset, buffers);
  size_ = std::max(size_, offset + size);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return status::ok;
}

status mem_object::truncate(uint64_t size) {
  if (size > size_max)
    return status::too_big;
  unique_lock lock{mutex_};
  if (size < size_) {
    size_t const kept = size_t((size + chunk_size - 1) / chunk_size);
    drop_chunks(kept);
    uint64_t const tail = size % chunk_size;
    if (tail != 0 && chunks_[kept - 1])
      racy_zero(chunks_[kept - 1].get() + tail, chunk_size - tail);
  }
  chunks_.resize(size_t((size + chunk_size - 1) / chunk_size));
  size_ = size;
  version_.fetch_add(1, std::memory_order_acq_rel);
  return status::ok;
}

store_stat mem_object::stat() const {
  shared_lock lock{mutex_};
  return {
      .size = size_, .version = version_.load(std::memory_order_acquire), .version_settled = true};
}

bool mem_object::covered(uint64_t offset, uint64_t size) const noexcept {
  if (offset + size > size_)
    return false;
  for (uint64_t index = offset / chunk_size; index <= (offset + size - 1) / chunk_size; index++) {
    if (!chunks_[index])
      return false;
  }
  return true;
}

status mem_object::extend(uint64_t offset, uint64_t size) {
  size_t const first = size_t(offset / chunk_size), last = size_t((offset + size - 1) / chunk_size);
  std::vector<chunk> made;
  for (size_t index = first; index <= last; index++) {
    if (index < chunks_.size() && chunks_[index])
      continue;
    status code = status::no_space;
    if (budget_.acquire(chunk_size)) {
      made.emplace_back(static_cast<std::byte *>(std::calloc(1, chunk_size)));
      if (made.back())
        continue;
      made.pop_back();
      budget_.release(chunk_size);
      code = status::no_memory;
    }
    budget_.release(made.size() * chunk_size);
    return code;
  }
  if (chunks_.size() <= last)
    chunks_.resize(last + 1);
  auto next = made.begin();
  for (size_t index = first; index <= last; index++) {
    if (!chunks_[index])
      chunks_[index] = std::move(*next++);
  }
  return status::ok;
}

void mem_object::copy_in(uint64_t offset, std::span<const store_buffer> buffers) noexcept {
  uint64_t at = offset;
  for (const auto &buffer : buffers) {
    for (size_t taken = 0; taken < buffer.size;) {
      uint64_t const in_chunk = at % chunk_size;
      size_t const part = std::min(buffer.size - taken, size_t(chunk_size - in_chunk));
      racy_copy(chunks_[at / chunk_size].get() + in_chunk, buffer.addr + taken, part);
      taken += part;
      at += part;
    }
  }
}

void mem_object::drop_chunks(size_t first) {
  uint64_t dropped = 0;
  for (size_t index = first; index < chunks_.size(); index++) {
    if (chunks_[index])
      dropped += chunk_size;
  }
  if (first < chunks_.size())
    chunks_.resize(first);
  budget_.release(dropped);
}

mem_names &mem_names::of_process() {
  static auto *names = new mem_names;  // lives as long as any thread may ask
  return *names;
}

result<std::shared_ptr<mem_object>> mem_names::open(const std::string &url,
                                                    store_open_flags flags) {
  std::shared_ptr<mem_object> object;
  {
    lock_guard lock{mutex_};
    auto const at = objects_.find(url);
    if (at != objects_.end()) {
      if (flags.exclusive)
        return status::exists;
      object = at->second;
    } else {
      if (!flags.create)
        return status::no_entry;
      object = std::make_shared<mem_object>(budget_, next_id_++);
      objects_.emplace(url, object);
      return object;
    }
  }
  if (flags.truncate)
    TND_TRY(object->truncate(0));
  return object;
}

status mem_names::unlink(const std::string &url) {
  std::shared_ptr<mem_object> object;  // freed outside the lock
  lock_guard lock{mutex_};
  auto const at = objects_.find(url);
  if (at == objects_.end())
    return status::no_entry;
  object = std::move(at->second);
  objects_.erase(at);
  return status::ok;
}

std::vector<std::string> mem_names::list(std::string_view prefix) const {
  std::vector<std::string> names;
  lock_guard lock{mutex_};
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    auto const name = listed_name(at->first, prefix);
    if (name.empty())
      break;
    if (names.empty() || names.back() != name)
      names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tanada::port
