// transfer.cc: put, get, accumulate and updates of words.
#include <algorithm>
#include <cstring>

#include "products/comex/engine.hpp"
#include "products/comex/deferred_error.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {
namespace {

const std::byte *as_bytes(const void *address) noexcept {
  return static_cast<const std::byte *>(address);
}
std::byte *as_bytes(void *address) noexcept {
  return static_cast<std::byte *>(address);
}

}  // namespace

status engine::address_error(const void *addr, size_t size, pe_index pe) const {
  if (uint32_t(pe) >= peers_.size())
    return set_error(status::invalid, "there is no process {}: valid are 0 to {}", pe, count() - 1);
  auto const begin = peers_[size_t(pe)].begin;
  return set_error(status::range,
                   "{} bytes at {} are outside of the memory of process {} ({}-{})",
                   size,
                   addr,
                   pe,
                   reinterpret_cast<void *>(begin),
                   reinterpret_cast<void *>(begin + heap_size()));
}

status engine::put(const transfer &sides, const strided_shape &shape, completion_mode mode) {
  if (shape.is_empty())
    return status::ok;
  if (device_ && involves_device(sides.target, sides.source, sides.pe)) [[unlikely]]
    return put_with_device(sides, shape, mode);
  auto const [mapped, symmetric] = resolve(sides.target, shape.target_extent(), sides.pe);
  if (mapped == nullptr && symmetric == nullptr) [[unlikely]]
    return address_error(sides.target, shape.target_extent(), sides.pe);
  if (mapped == nullptr)
    return put_unmapped(symmetric, as_bytes(sides.source), shape, sides.pe, mode);
  if (may_be_swapped_out(sides.pe)) [[unlikely]]
    return transfer_swapped_out({transfer_kind::put, sides.pe, mapped, sides.source}, shape, mode);
  copy_blocks(mapped, as_bytes(sides.source), shape);
  return status::ok;
}

status engine::get(const transfer &sides, const strided_shape &shape, completion_mode mode) {
  if (shape.is_empty())
    return status::ok;
  if (device_ && involves_device(sides.source, sides.target, sides.pe)) [[unlikely]]
    return get_with_device(sides, shape, mode);
  auto const [mapped, symmetric] = resolve(sides.source, shape.source_extent(), sides.pe);
  if (mapped == nullptr && symmetric == nullptr) [[unlikely]]
    return address_error(sides.source, shape.source_extent(), sides.pe);
  if (mapped == nullptr)
    return get_unmapped(as_bytes(sides.target), symmetric, shape, sides.pe, mode);
  if (may_be_swapped_out(sides.pe)) [[unlikely]]
    return transfer_swapped_out({transfer_kind::get, sides.pe, mapped, sides.target}, shape, mode);
  copy_blocks(as_bytes(sides.target), mapped, shape);
  return status::ok;
}

// A get may overtake operations that this process has given to the fabric.
status engine::finish_before_get(pe_index pe) {
  TND_ASSERT(size_t(pe) < peers_.size());
  auto const &target_peer = peers_[size_t(pe)];
  return target_peer.has_puts || target_peer.has_packed || target_peer.has_accumulates ? finish()
                                                                                       : status::ok;
}

status engine::check_elements(element type, size_t block_size) {
  if (block_size % element_size(type) == 0)
    return status::ok;
  return set_error(status::invalid,
                   "the block size {} is no multiple of the element size {}",
                   block_size,
                   element_size(type));
}

status engine::accumulate(element type,
                          const void *scale,
                          const transfer &sides,
                          const strided_shape &shape) {
  if (shape.is_empty())
    return status::ok;
  TND_TRY(check_elements(type, shape.block_size()));
  if (device_ && involves_device(sides.target, sides.source, sides.pe)) [[unlikely]]
    return accumulate_with_device({type, scale}, sides, shape);
  auto const address = resolve(sides.target, shape.target_extent(), sides.pe);
  if (!address.is_valid())
    return address_error(sides.target, shape.target_extent(), sides.pe);
  addend const sum{type, scale};
  if (address.mapped == nullptr)
    return accumulate_unmapped(sum, address.symmetric, as_bytes(sides.source), shape, sides.pe);
  return accumulate_on_node(sum, sides, address.mapped, shape);
}

// The target is memory of a process of this node, at `mapped`.
status engine::accumulate_on_node(const addend &operands,
                                  const transfer &sides,
                                  std::byte *mapped,
                                  const strided_shape &shape) {
  size_t const offset = reinterpret_cast<uintptr_t>(sides.target) - peers_[size_t(sides.pe)].begin;
  bool const is_in_heap = offset < heap_size();
  if (is_in_heap && may_be_swapped_out(sides.pe)) [[unlikely]] {
    return transfer_swapped_out({transfer_kind::add, sides.pe, mapped, sides.source, operands},
                                shape,
                                completion_mode::local);
  }
  if (is_in_heap && swapper_)
    TND_TRY(swapper_->make_resident());  // others wait for the locks
  if (is_in_heap)
    return accumulate_mapped(operands, offset, as_bytes(sides.source), shape, sides.pe);
  TND_ASSERT(sides.pe == me());
  // This process's own memory outside of the heap: nobody else accesses it.
  shape.for_each([&](size_t s, size_t t) {
    add_scaled(
        operands.type, operands.scale, mapped + t, as_bytes(sides.source) + s, shape.block_size());
  });
  return status::ok;
}

status engine::accumulate_mapped(const addend &operands,
                                 size_t offset,
                                 const std::byte *source,
                                 const strided_shape &shape,
                                 pe_index pe) {
  auto const &target_peer = peers_[size_t(pe)];
  TND_ASSERT(target_peer.mapped != nullptr && target_peer.locks != nullptr);
  heap_view const heap{
      .begin = target_peer.mapped, .locks = target_peer.locks, .has_atomics = !is_one_node()};
  heap_locks::guard guard{*job_};
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = add_under_locks(guard, heap, offset + t, operands, source + s, shape.block_size());
  });
  return code;
}

// The word is memory of a process of this node, at `mapped`.
template <class T>
result<T> engine::update_mapped(
    seams::fabric_atomic kind, void *remote, std::byte *mapped, T operand, pe_index pe) {
  TND_ASSERT(mapped != nullptr);
  T before{};
  auto const act = [&, word = reinterpret_cast<T *>(mapped)]() -> status {
    heap_locks::guard guard{*job_};
    // Accumulates may change the same word. With one node their locks exclude that. Otherwise
    // peers may update the word through the fabric, and accumulates add integers atomically.
    size_t const offset = reinterpret_cast<uintptr_t>(remote) - peers_[size_t(pe)].begin;
    if (is_one_node() && offset < heap_size())
      TND_TRY(guard.lock(peers_[size_t(pe)].locks, offset));
    before = seams::update_word(kind, word, operand, T{0});
    return status::ok;
  };
  if (swapper_)
    TND_TRY(swapper_->make_resident());  // others wait for the lock
  TND_TRY(may_be_swapped_out(pe) ? update_swapped_out(pe, mapped, sizeof(T), act) : act());
  return before;
}

template <class T>
result<T> engine::update(seams::fabric_atomic kind, void *remote, T operand, pe_index pe) {
  bool const is_device = device_ && involves_device(remote, nullptr, pe);
  auto const [mapped, symmetric] = resolve(remote, sizeof(T), pe);
  if (mapped == nullptr && symmetric == nullptr && !is_device)
    return address_error(remote, sizeof(T), pe);
  if (reinterpret_cast<uintptr_t>(remote) % sizeof(T) != 0) {
    return set_error(status::fault,
                     "address {} of process {} is not aligned to the word size {}",
                     remote,
                     pe,
                     sizeof(T));
  }
  if (is_device) [[unlikely]]
    return update_device(kind, remote, operand, pe);
  if (mapped != nullptr)
    return update_mapped(kind, remote, mapped, operand, pe);
  if (swapper_)
    return update_packed(kind, offset_of(symmetric), operand, pe);
  TND_TRY(finish_before_get(pe));
  T before{};
  TND_TRY(context_->update(kind, reinterpret_cast<T *>(symmetric), operand, T{0}, &before, pe));
  return before;
}

status engine::check_local_word(const void *local) const {
  if (!job_->map().is_device_memory(local))
    return status::ok;
  return set_error(
      status::invalid, "the local operand at {} is device memory: use host memory", local);
}

status engine::exchange_word(word_kind type, void *local, void *remote, pe_index pe) {
  TND_TRY(check_local_word(local));
  auto const run = [&]<class T>(T operand) {
    std::memcpy(&operand, local, sizeof operand);
    auto before = update(seams::fabric_atomic::swap, remote, operand, pe);
    if (!before.ok())
      return before.error();
    std::memcpy(local, &before.value(), sizeof operand);
    return status::ok;
  };
  return type == word_kind::i32 ? run(uint32_t{}) : run(uint64_t{});
}

status engine::fetch_and_add(
    word_kind type, void *before, void *remote, int64_t operand, pe_index pe) {
  TND_TRY(check_local_word(before));
  auto const run = [&]<class T>(T added) {
    auto previous = update(seams::fabric_atomic::add, remote, added, pe);
    if (!previous.ok())
      return previous.error();
    std::memcpy(before, &previous.value(), sizeof added);
    return status::ok;
  };
  return type == word_kind::i32 ? run(uint32_t(operand)) : run(uint64_t(operand));
}

bool engine::poll() noexcept {
  if (!has_pending_)
    return true;
  if (swapper_ && !poll_swapped_out())
    return false;
  job_->progress();
  if (lane_ != nullptr)
    lane_->try_progress();
  return !context_->is_busy() && !(staged_ && staged_->is_busy());
}

status engine::finish_direct() {
  TND_TRY(context_->quiet());
  for (auto &entry : peers_)
    entry.has_puts = false;
  return status::ok;
}

status engine::finish_packed() {
  if (!staged_)
    return status::ok;
  if (swapper_ && staged_->is_busy())
    TND_TRY(wait_served([this](uint64_t deadline_ns) { return staged_->wait_until(deadline_ns); }));
  status const code = staged_->quiet();
  sinks_.clear();
  if (swapper_ && code == status::peer_lost)
    return set_error(code, "a process of another node failed or is unreachable");
  TND_TRY(code);
  for (auto &entry : peers_) {
    entry.has_packed = false;
    entry.has_accumulates = false;
  }
  return status::ok;
}

status engine::finish() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_pending_ && !context_->is_busy())
    return status::ok;  // updates of mutexes may be in flight, too
  TND_TRY(finish_direct());
  TND_TRY(finish_packed());
  if (swapper_)
    TND_TRY(finish_swapped_out());
  TND_ASSERT(sinks_.empty());
  has_pending_ = false;
  return status::ok;
}

}  // namespace tanada::comex
