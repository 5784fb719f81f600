// broadcast.cc: broadcasts to all processes of a node through collective memory. The root continues
// while the others read.
//
// Each part has a header in its root's ring and, if it is large, a chunk. Processes count the parts
// of all roots, so that each knows where the next header will be. A root checks the others'
// progress only before it overwrites parts that they may not have read.
//
// Processes that make different calls must not wait for one another forever. A process that waits
// for a part or a reader checks two conditions. The other process has entered a barrier that this
// one has not, or, if it is the root, it waits for the same part itself. Otherwise, of processes
// that all wait, each waits for one that is at an earlier part. So one of them is first, and it
// continues.
#include <algorithm>
#include <cstring>
#include <utility>

#include "products/comex/control.hpp"
#include "products/comex/deferred_error.hpp"
#include "seams/os/bulk_copy.hpp"
#include "seams/os/thread.hpp"

namespace tanada::comex {
namespace {

constexpr uint32_t spin_count = 64;

uint64_t load_acquire(const uint64_t &word) noexcept {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
void store_release(uint64_t &word, uint64_t value) noexcept {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

status call_mismatch(pe_index pe) {
  return set_error(status::invalid, "rank {} makes a different call", pe);
}

}  // namespace

status engine::broadcast(std::span<std::byte> bytes, pe_index root) {
  if (count() == 1)
    return status::ok;
  TND_ASSERT(is_one_node() && swapper_ == nullptr);
  size_t done = 0;
  do {
    auto const part = bytes.subspan(done, std::min(bytes.size() - done, chunk_size));
    TND_TRY(root == me() ? publish_part(part, bytes.size()) : read_part(part, bytes.size(), root));
    done += part.size();
  } while (done < bytes.size());
  return status::ok;
}

status engine::publish_part(std::span<const std::byte> part, size_t whole) {
  TND_ASSERT(part.size() <= chunk_size && part.size() <= whole);
  uint64_t const number = ++parts_;
  auto &head = control_->heads[number % head_count];
  bool const is_small = part.size() <= sizeof head.bytes;
  auto const chunk = uint32_t(chunks_published_ % chunk_count);
  // Do not read the header for this: a reader of the line may have taken it out of this processor's
  // cache.
  uint64_t before = std::exchange(head_parts_[number % head_count], number);
  if (!is_small)
    before = std::max(before, chunk_parts_[chunk]);
  if (before > parts_read_by_all_)
    TND_TRY(wait_for_readers(before));
  if (is_small) {
    if (!part.empty())
      std::memcpy(head.bytes, part.data(), part.size());
  } else {
    chunk_parts_[chunk] = number;
    chunks_published_++;
    seams::copy_to_other_processor(control_->chunks[chunk], part.data(), part.size());
  }
  head.whole = whole;
  head.barriers = uint32_t(barriers_);
  head.chunk = chunk;
  store_release(head.part, number);
  store_release(control_->progress.read, number);
  for (pe_index pe = 0; pe < count(); pe++) {
    job_->wake(pe, &head.part, sizeof head.part);
  }
  return status::ok;
}

// Waits until all others have read the part. Readers wake only the root, so it must be a part of
// ours.
status engine::wait_for_readers(uint64_t part) {
  TND_ASSERT(part < parts_);
  uint64_t const middle =
      part +
      // waits for several parts at once, because each check reads the others' memory
      (parts_ - 1 - part) / 2;
  uint64_t const enough = middle > last_part_read_ ? middle : part;
  uint64_t least = parts_;
  for (pe_index pe = 0; pe < count(); pe++) {
    if (pe == me())
      continue;
    auto const &remote = peers_[size_t(pe)].shared->progress;
    if (load_acquire(remote.read) < part) {
      auto const is_over = [&] {
        return load_acquire(remote.read) >= enough || load_acquire(remote.barriers) > barriers_;
      };
      TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->progress, 1})));
      if (load_acquire(remote.read) < part)
        return call_mismatch(pe);
    }
    least = std::min(least, load_acquire(remote.read));
  }
  TND_ASSERT(least >= part && least >= parts_read_by_all_);
  parts_read_by_all_ = least;
  return status::ok;
}

// Returns when the root has published the part, or makes another call.
status engine::wait_for_part(uint64_t number, pe_index root) {
  auto const &root_control = *peers_[size_t(root)].shared;
  auto const &head = root_control.heads[number % head_count];
  auto const is_published = [&] {
    return load_acquire(head.part) >= number;
  };
  bool is_ready = is_published();
  for (uint32_t i = 0; !is_ready && i < spin_count; i++) {
    seams::spin_pause();
    is_ready = is_published();
  }
  if (is_ready)
    return status::ok;
  store_release(control_->progress.awaited_part, number);
  auto const is_over = [&] {
    return is_published() || load_acquire(root_control.progress.awaited_part) >= number ||
           load_acquire(root_control.progress.barriers) > barriers_;
  };
  return wait(is_over, std::as_bytes(std::span{&control_->heads[number % head_count].part, 1}));
}

status engine::read_part(std::span<std::byte> part, size_t whole, pe_index root) {
  TND_ASSERT(part.size() <= chunk_size && part.size() <= whole);
  uint64_t const number = ++parts_;
  TND_TRY(wait_for_part(number, root));
  auto const &root_control = *peers_[size_t(root)].shared;
  auto const &head = root_control.heads[number % head_count];
  if (load_acquire(head.part) != number || head.barriers != uint32_t(barriers_))
    return call_mismatch(root);
  if (head.whole != whole)
    return set_error(
        status::invalid, "size mismatch: {} bytes, rank {} has {}", whole, root, head.whole);
  if (!part.empty())
    std::memcpy(part.data(),
                part.size() <= sizeof head.bytes ? head.bytes : root_control.chunks[head.chunk],
                part.size());
  store_release(control_->progress.read, number);
  last_part_read_ = number;
  job_->wake(root, &control_->progress, sizeof control_->progress);
  return status::ok;
}

}  // namespace tanada::comex
