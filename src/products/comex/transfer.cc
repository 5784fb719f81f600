// put, get, accumulate and updates of words.
#include <algorithm>
#include <cstring>

#include "products/comex/engine.hpp"
#include "products/comex/refusal.hpp"
#include "products/comex/swapping.hpp"

namespace tanada::comex {
namespace {

const std::byte *bytes(const void *at) noexcept {
  return static_cast<const std::byte *>(at);
}
std::byte *bytes(void *at) noexcept {
  return static_cast<std::byte *>(at);
}

}  // namespace

status engine::refusal(const void *addr, size_t size, pe_index pe) const {
  if (uint32_t(pe) >= peers_.size())
    return refuse(status::invalid, "there is no process %d: they are 0 to %d", pe, count() - 1);
  auto const begin = peers_[size_t(pe)].begin;
  return refuse(status::range, "%zu bytes at %p are not in the memory of process %d, %p-%p", size,
                addr, pe, reinterpret_cast<void *>(begin),
                reinterpret_cast<void *>(begin + heap_size()));
}

status engine::put(const transfer &what, const strided_shape &shape, until end) {
  if (shape.is_empty())
    return status::ok;
  if (device_ && concerns_device(what.target, what.source, what.pe)) [[unlikely]]
    return put_beside_device(what, shape, end);
  auto const [mapped, ours] = find(what.target, shape.target_extent(), what.pe);
  if (mapped == nullptr && ours == nullptr) [[unlikely]]
    return refusal(what.target, shape.target_extent(), what.pe);
  if (mapped == nullptr)
    return put_far(ours, bytes(what.source), shape, what.pe, end);
  if (is_away(what.pe)) [[unlikely]]
    return move_away({away_kind::put, what.pe, mapped, what.source}, shape, end);
  copy_blocks(mapped, bytes(what.source), shape);
  return status::ok;
}

status engine::get(const transfer &what, const strided_shape &shape, until end) {
  if (shape.is_empty())
    return status::ok;
  if (device_ && concerns_device(what.source, what.target, what.pe)) [[unlikely]]
    return get_beside_device(what, shape, end);
  auto const [mapped, ours] = find(what.source, shape.source_extent(), what.pe);
  if (mapped == nullptr && ours == nullptr) [[unlikely]]
    return refusal(what.source, shape.source_extent(), what.pe);
  if (mapped == nullptr)
    return get_far(bytes(what.target), ours, shape, what.pe, end);
  if (is_away(what.pe)) [[unlikely]]
    return move_away({away_kind::get, what.pe, mapped, what.target}, shape, end);
  copy_blocks(bytes(what.target), mapped, shape);
  return status::ok;
}

// What the fabric has of ours may be overtaken by a get.
status engine::before_get(pe_index pe) {
  auto const &other = peers_[size_t(pe)];
  return other.has_puts || other.has_packed || other.has_sums ? finish() : status::ok;
}

status engine::check_elements(element of, size_t block_size) {
  if (block_size % element_size(of) == 0)
    return status::ok;
  return refuse(status::invalid, "blocks of %zu bytes, elements of %zu", block_size,
                element_size(of));
}

status engine::accumulate(element of, const void *scale, const transfer &what,
                          const strided_shape &shape) {
  if (shape.is_empty())
    return status::ok;
  TND_TRY(check_elements(of, shape.block_size()));
  if (device_ && concerns_device(what.target, what.source, what.pe)) [[unlikely]]
    return accumulate_beside_device({of, scale}, what, shape);
  auto const there = find(what.target, shape.target_extent(), what.pe);
  if (!there.is_there())
    return refusal(what.target, shape.target_extent(), what.pe);
  addend const sum{of, scale};
  if (there.mapped == nullptr)
    return add_far(sum, there.ours, bytes(what.source), shape, what.pe);
  size_t const offset = reinterpret_cast<uintptr_t>(what.target) - peers_[size_t(what.pe)].begin;
  bool const is_given = offset < heap_size();
  if (is_given && is_away(what.pe)) [[unlikely]] {
    return move_away({away_kind::add, what.pe, there.mapped, what.source, sum}, shape,
                     until::source_is_free);
  }
  if (is_given && swapping_)
    TND_TRY(swapping_->be_whole());  // others wait for the locks
  if (is_given)
    return add_near(sum, offset, bytes(what.source), shape, what.pe);
  // Ours, and nobody else's.
  shape.for_each([&](size_t s, size_t t) {
    add_scaled(of, scale, there.mapped + t, bytes(what.source) + s, shape.block_size());
  });
  return status::ok;
}

status engine::add_near(const addend &what, size_t offset, const std::byte *source,
                        const strided_shape &shape, pe_index pe) {
  auto const &other = peers_[size_t(pe)];
  heap_side const heap{.begin = other.mapped, .locks = other.locks, .has_updates = !is_one_node()};
  heap_locks::hold hold{*job_};
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = add_under_locks(hold, heap, offset + t, what, source + s, shape.block_size());
  });
  return code;
}

template <class T>
result<T> engine::update(port::fabric_atomic kind, void *theirs, T operand, pe_index pe) {
  bool const is_device = device_ && concerns_device(theirs, nullptr, pe);
  auto const [mapped, ours] = find(theirs, sizeof(T), pe);
  if (mapped == nullptr && ours == nullptr && !is_device)
    return refusal(theirs, sizeof(T), pe);
  if (reinterpret_cast<uintptr_t>(theirs) % sizeof(T) != 0) {
    return refuse(status::fault,
                  "address %p of process %d is not a multiple of %zu, which a word has to be",
                  theirs, pe, sizeof(T));
  }
  if (is_device) [[unlikely]]
    return update_device(kind, theirs, operand, pe);
  if (mapped != nullptr) {
    T before{};
    auto const act = [&, word = reinterpret_cast<T *>(mapped)]() -> status {
      heap_locks::hold hold{*job_};
      // Words that accumulates change, too, are held apart from them: by their locks, or, where
      // others update them by the fabric, by adding at once.
      size_t const offset = reinterpret_cast<uintptr_t>(theirs) - peers_[size_t(pe)].begin;
      if (is_one_node() && offset < heap_size())
        TND_TRY(hold.take(peers_[size_t(pe)].locks, offset));
      before = port::update_here(kind, word, operand, T{0});
      return status::ok;
    };
    if (swapping_)
      TND_TRY(swapping_->be_whole());  // others wait for the lock
    TND_TRY(is_away(pe) ? act_away(pe, mapped, sizeof(T), act) : act());
    return before;
  }
  if (swapping_)
    return update_far(kind, offset_of(ours), operand, pe);
  TND_TRY(before_get(pe));
  T before{};
  TND_TRY(context_->update(kind, reinterpret_cast<T *>(ours), operand, T{0}, &before, pe));
  return before;
}

status engine::refuse_device_word(const void *mine) const {
  if (!job_->map().is_device_memory(mine))
    return status::ok;
  return refuse(status::invalid,
                "our word at %p is memory of a device, where a processor has to reach it", mine);
}

status engine::swap(word_kind of, void *mine, void *theirs, pe_index pe) {
  TND_TRY(refuse_device_word(mine));
  auto const run = [&]<class T>(T operand) {
    std::memcpy(&operand, mine, sizeof operand);
    auto before = update(port::fabric_atomic::swap, theirs, operand, pe);
    if (!before.ok())
      return before.error();
    std::memcpy(mine, &before.value(), sizeof operand);
    return status::ok;
  };
  return of == word_kind::i32 ? run(uint32_t{}) : run(uint64_t{});
}

status engine::fetch_and_add(word_kind of, void *before, void *theirs, int64_t operand,
                             pe_index pe) {
  TND_TRY(refuse_device_word(before));
  auto const run = [&]<class T>(T added) {
    auto was = update(port::fabric_atomic::add, theirs, added, pe);
    if (!was.ok())
      return was.error();
    std::memcpy(before, &was.value(), sizeof added);
    return status::ok;
  };
  return of == word_kind::i32 ? run(uint32_t(operand)) : run(uint64_t(operand));
}

bool engine::poll() noexcept {
  if (!has_pending_)
    return true;
  if (swapping_ && !poll_away())
    return false;
  job_->attend();
  if (lane_ != nullptr)
    lane_->look();
  return !context_->is_busy() && !(staged_ && staged_->is_busy());
}

status engine::finish_direct() {
  TND_TRY(context_->quiet());
  for (auto &each : peers_)
    each.has_puts = false;
  return status::ok;
}

status engine::finish_packed() {
  if (!staged_)
    return status::ok;
  if (swapping_ && staged_->is_busy())
    TND_TRY(wait_served([this](uint64_t deadline_ns) { return staged_->wait_until(deadline_ns); }));
  status const code = staged_->quiet();
  landings_.clear();
  if (swapping_ && code == status::peer_lost)
    return refuse(code, "a process of another node has failed, or is not reached");
  TND_TRY(code);
  for (auto &each : peers_) {
    each.has_packed = false;
    each.has_sums = false;
  }
  return status::ok;
}

status engine::finish() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_pending_ && !context_->is_busy())
    return status::ok;  // updates of mutexes may be under way, too
  TND_TRY(finish_direct());
  TND_TRY(finish_packed());
  if (swapping_)
    TND_TRY(finish_away());
  has_pending_ = false;
  return status::ok;
}

}  // namespace tanada::comex
