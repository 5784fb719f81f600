// backends/mem/mem_object.cc: the chunks of a named buffer, and the names of the process.
#include "backends/mem/mem_object.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/base/mutex.hpp"
#include "seams/os/racy_copy.hpp"
#include "seams/store/store_op_check.hpp"

namespace tanada::backends {

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

uint64_t mem_object::read(uint64_t offset, std::span<const seams::store_buffer> buffers) const {
  shared_lock lock{mutex_};
  uint64_t position = offset;
  for (const auto &buffer : buffers) {
    size_t filled = 0;
    while (filled < buffer.size && position < size_) {
      uint64_t const in_chunk = position % chunk_size;
      size_t const part =
          std::min({buffer.size - filled, size_t(chunk_size - in_chunk), size_t(size_ - position)});
      TND_ASSERT(position / chunk_size < chunks_.size());
      const auto &bytes = chunks_[position / chunk_size];
      if (bytes) {
        seams::racy_copy(buffer.addr + filled, bytes.get() + in_chunk, part);
      } else {
        seams::racy_zero(buffer.addr + filled, part);
      }
      filled += part;
      position += part;
    }
    if (filled < buffer.size)
      break;
  }
  return position - offset;
}

status mem_object::write(uint64_t offset,
                         std::span<const seams::store_buffer> buffers,
                         uint64_t size) {
  if (size == 0)
    return status::ok;
  if (offset > size_max || size > size_max - offset)
    return status::too_big;
  {
    shared_lock lock{mutex_};
    if (is_allocated(offset, size)) {
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
    size_t const kept_count = size_t((size + chunk_size - 1) / chunk_size);
    drop_chunks(kept_count);
    uint64_t const tail = size % chunk_size;
    if (tail != 0 && chunks_[kept_count - 1])
      seams::racy_zero(chunks_[kept_count - 1].get() + tail, chunk_size - tail);
  }
  chunks_.resize(size_t((size + chunk_size - 1) / chunk_size));
  size_ = size;
  version_.fetch_add(1, std::memory_order_acq_rel);
  return status::ok;
}

seams::store_stat mem_object::stat() const {
  shared_lock lock{mutex_};
  return {.size = size_,
          .version = version_.load(std::memory_order_acquire),
          .is_version_stable = true};
}

bool mem_object::is_allocated(uint64_t offset, uint64_t size) const noexcept {
  TND_ASSERT(size != 0 && size_ <= chunks_.size() * chunk_size);
  if (offset + size > size_)
    return false;
  for (uint64_t index = offset / chunk_size; index <= (offset + size - 1) / chunk_size; index++) {
    if (!chunks_[index])
      return false;
  }
  return true;
}

status mem_object::extend(uint64_t offset, uint64_t size) {
  TND_ASSERT(size != 0 && offset <= size_max && size <= size_max - offset);
  size_t const first = size_t(offset / chunk_size);
  size_t const last = size_t((offset + size - 1) / chunk_size);
  std::vector<chunk> added;
  for (size_t index = first; index <= last; index++) {
    if (index < chunks_.size() && chunks_[index])
      continue;
    status code = status::no_space;
    if (budget_.acquire(chunk_size)) {
      added.emplace_back(static_cast<std::byte *>(std::calloc(1, chunk_size)));
      if (added.back())
        continue;
      added.pop_back();
      budget_.release(chunk_size);
      code = status::no_memory;
    }
    budget_.release(added.size() * chunk_size);
    return code;
  }
  if (chunks_.size() <= last)
    chunks_.resize(last + 1);
  auto next = added.begin();
  for (size_t index = first; index <= last; index++) {
    if (!chunks_[index])
      chunks_[index] = std::move(*next++);
  }
  TND_ASSERT(next == added.end());
  return status::ok;
}

void mem_object::copy_in(uint64_t offset, std::span<const seams::store_buffer> buffers) noexcept {
  uint64_t position = offset;
  for (const auto &buffer : buffers) {
    for (size_t done = 0; done < buffer.size;) {
      uint64_t const in_chunk = position % chunk_size;
      size_t const part = std::min(buffer.size - done, size_t(chunk_size - in_chunk));
      auto const &bytes = chunks_[position / chunk_size];
      TND_ASSERT(bytes != nullptr);
      seams::racy_copy(bytes.get() + in_chunk, buffer.addr + done, part);
      done += part;
      position += part;
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

mem_names &mem_names::process_instance() {
  static auto *names = new mem_names;  // never destroyed: any thread may still use it
  return *names;
}

result<std::shared_ptr<mem_object>> mem_names::open(const std::string &url,
                                                    seams::store_open_flags flags) {
  std::shared_ptr<mem_object> object;
  {
    lock_guard lock{mutex_};
    auto const it = objects_.find(url);
    if (it != objects_.end()) {
      if (flags.exclusive)
        return status::exists;
      object = it->second;
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
  auto const it = objects_.find(url);
  if (it == objects_.end())
    return status::no_entry;
  object = std::move(it->second);
  objects_.erase(it);
  return status::ok;
}

std::vector<std::string> mem_names::list(std::string_view prefix) const {
  std::vector<std::string> names;
  lock_guard lock{mutex_};
  for (auto it = objects_.lower_bound(prefix); it != objects_.end(); ++it) {
    auto const name = seams::listed_name(it->first, prefix);
    if (name.empty())
      break;
    if (names.empty() || names.back() != name)
      names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tanada::backends
