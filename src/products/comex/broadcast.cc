// Broadcasts of all processes of a node, by memory that each gives: who has bytes for all goes on
// while others read.
//
// A part has a head in its root's ring, and, where it is large, a chunk. Processes count the parts
// of all, so that each knows where the next head will be. A root looks how far others have come
// only before it writes over what they may not have read.
//
// Processes that do not call the same must not wait for one another for ever. Who waits for a part
// or for a reader sees when that process has entered a barrier that this one has not, and, of a
// root, that it waits for the same part itself. Of processes that all wait otherwise, each waits
// for one that is at an earlier part than itself: there is a first, and it goes on.
#include <algorithm>
#include <cstring>
#include <utility>

#include "products/comex/control.hpp"
#include "products/comex/refusal.hpp"
#include "seams/os/bulk_copy.hpp"
#include "seams/os/thread.hpp"

namespace tanada::comex {
namespace {

constexpr uint32_t looks = 64;

uint64_t now(const uint64_t &word) noexcept {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
void tell(uint64_t &word, uint64_t value) noexcept {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

status differs(pe_index pe) {
  return refuse(status::invalid, "rank %d does not call the same", pe);
}

}  // namespace

status engine::broadcast(std::span<std::byte> bytes, pe_index root) {
  if (count() == 1)
    return status::ok;
  size_t done = 0;
  do {
    auto const part = bytes.subspan(done, std::min(bytes.size() - done, chunk_size));
    TND_TRY(root == me() ? give_part(part, bytes.size()) : take_part(part, bytes.size(), root));
    done += part.size();
  } while (done < bytes.size());
  return status::ok;
}

status engine::give_part(std::span<const std::byte> part, size_t whole) {
  uint64_t const number = ++parts_;
  auto &head = control_->heads[number % head_count];
  bool const is_small = part.size() <= sizeof head.bytes;
  auto const chunk = uint32_t(chunks_given_ % chunk_count);
  // Not what the head says: who reads a line may take it out of this processor's cache.
  uint64_t before = std::exchange(head_parts_[number % head_count], number);
  if (!is_small)
    before = std::max(before, chunk_parts_[chunk]);
  if (before > parts_read_)
    TND_TRY(await_readers(before));
  if (is_small) {
    if (!part.empty())
      std::memcpy(head.bytes, part.data(), part.size());
  } else {
    chunk_parts_[chunk] = number;
    chunks_given_++;
    port::copy_to_other(control_->chunks[chunk], part.data(), part.size());
  }
  head.whole = whole;
  head.barriers = uint32_t(barriers_);
  head.chunk = chunk;
  tell(head.part, number);
  tell(control_->come.read, number);
  for (pe_index pe = 0; pe < count(); pe++)
    job_->ring(pe, &head.part, sizeof head.part);
  return status::ok;
}

// All others have read it: a part of ours, as who reads rings the root alone.
status engine::await_readers(uint64_t part) {
  uint64_t const middle =
      part +
      (parts_ - 1 - part) / 2;  // not part after part, with a look at others' memory for each
  uint64_t const enough = middle > part_taken_ ? middle : part;
  uint64_t least = parts_;
  for (pe_index pe = 0; pe < count(); pe++) {
    if (pe == me())
      continue;
    auto const &theirs = peers_[size_t(pe)].shared->come;
    if (now(theirs.read) < part) {
      auto const is_over = [&] {
        return now(theirs.read) >= enough || now(theirs.barriers) > barriers_;
      };
      TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->come, 1})));
      if (now(theirs.read) < part)
        return differs(pe);
    }
    least = std::min(least, now(theirs.read));
  }
  parts_read_ = least;
  return status::ok;
}

status engine::take_part(std::span<std::byte> part, size_t whole, pe_index root) {
  uint64_t const number = ++parts_;
  auto &there = *peers_[size_t(root)].shared;
  auto const &head = there.heads[number % head_count];
  auto const has_come = [&] {
    return now(head.part) >= number;
  };
  bool is_there = has_come();
  for (uint32_t i = 0; !is_there && i < looks; i++) {
    port::spin_pause();
    is_there = has_come();
  }
  if (!is_there) {
    tell(control_->come.awaited, number);
    auto const is_over = [&] {
      return has_come() || now(there.come.awaited) >= number ||
             now(there.come.barriers) > barriers_;
    };
    TND_TRY(wait(is_over, std::as_bytes(std::span{&control_->heads[number % head_count].part, 1})));
  }
  if (now(head.part) != number || head.barriers != uint32_t(barriers_))
    return differs(root);
  if (head.whole != whole)
    return refuse(status::invalid, "%zu bytes, and rank %d has %zu", whole, root,
                  size_t(head.whole));
  if (!part.empty())
    std::memcpy(part.data(),
                part.size() <= sizeof head.bytes ? head.bytes : there.chunks[head.chunk],
                part.size());
  tell(control_->come.read, number);
  part_taken_ = number;
  job_->ring(root, &control_->come, sizeof control_->come);
  return status::ok;
}

}  // namespace tanada::comex
