// Transfers where either side is memory of a device, which no processor reaches: by the job's
// context, rows of blocks at a time. Sums are made here, and with updates of words one at a time
// for the memory of each process.
#include "products/comex/block_copy.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/refusal.hpp"

namespace tanada::comex {
namespace {

constexpr size_t sum_size = size_t{1}
                            << 20;  // bytes that are added at a time: whole elements of each kind

}  // namespace

bool engine::concerns_device(const void *theirs, const void *mine, pe_index pe) const noexcept {
  auto const &map = job_->map();
  return device_->has(theirs, pe) || map.is_device_memory(mine) ||
         (pe == me() && map.is_device_memory(theirs));
}

// What a process has for itself of its devices need not have been given: only it reaches that.
result<engine::device_place> engine::find_beside_device(const void *addr, size_t size,
                                                        pe_index pe) const {
  if (uint32_t(pe) >= peers_.size())
    return refusal(addr, size, pe);
  if (device_->has(addr, pe)) {
    if (auto *const found = device_->ours(addr, size, pe); found != nullptr)
      return device_place{found, true, pe};
    return refuse(status::range,
                  "%zu bytes at %p end behind the %zu of the device's heap of process %d", size,
                  addr, device_->size(), pe);
  }
  size_t const offset = reinterpret_cast<uintptr_t>(addr) - peers_[size_t(pe)].begin;
  if (offset <= heap_size() && size <= heap_size() - offset)
    return device_place{ours(addr, pe), true, pe};
  if (pe == me())
    return device_place{static_cast<std::byte *>(const_cast<void *>(addr)), false, pe};
  return refusal(addr, size, pe);
}

status engine::put_run(const device_place &to, const std::byte *from, const block_run &run) {
  std::byte *const target = to.addr + run.target;
  pgas::strided_shape const rows{run.size, run.count, ptrdiff_t(run.target_stride),
                                 ptrdiff_t(run.source_stride)};
  if (to.is_symmetric) {
    return run.count == 1 ? context_->put_nbi(target, from + run.source, run.size, to.pe)
                          : context_->put_strided(target, from + run.source, rows, to.pe);
  }
  for (size_t i = 0; i < run.count; i++)
    TND_TRY(context_->copy(target + i * run.target_stride,
                           from + run.source + i * run.source_stride, run.size));
  return status::ok;
}

status engine::get_run(std::byte *to, const device_place &from, const block_run &run) {
  std::byte *const source = from.addr + run.source;
  pgas::strided_shape const rows{run.size, run.count, ptrdiff_t(run.target_stride),
                                 ptrdiff_t(run.source_stride)};
  if (from.is_symmetric) {
    return run.count == 1 ? context_->get_nbi(to + run.target, source, run.size, from.pe)
                          : context_->get_strided(to + run.target, source, rows, from.pe);
  }
  for (size_t i = 0; i < run.count; i++)
    TND_TRY(context_->copy(to + run.target + i * run.target_stride, source + i * run.source_stride,
                           run.size));
  return status::ok;
}

// What went before to the process, by whatever way, is performed, and this is when it returns,
// unless it is to be later.
template <class Run>
status engine::move_runs(const strided_shape &shape, pe_index pe, until end, Run &&move) {
  TND_TRY(before_get(pe));
  status code = status::ok;
  shape.for_each_run(0, shape.size(), [&](const block_run &run) {
    if (code == status::ok)
      code = move(run);
  });
  if (end == until::later && code == status::ok) {
    has_pending_ = true;
    return code;
  }
  status const done = context_->quiet();
  return code == status::ok ? done : code;
}

status engine::put_beside_device(const transfer &what, const strided_shape &shape, until end) {
  auto to = find_beside_device(what.target, shape.target_extent(), what.pe);
  if (!to.ok())
    return to.error();
  auto const *const from = static_cast<const std::byte *>(what.source);
  return move_runs(shape, what.pe, end,
                   [&](const block_run &run) { return put_run(to.value(), from, run); });
}

status engine::get_beside_device(const transfer &what, const strided_shape &shape, until end) {
  auto from = find_beside_device(what.source, shape.source_extent(), what.pe);
  if (!from.ok())
    return from.error();
  auto *const to = static_cast<std::byte *>(what.target);
  return move_runs(shape, what.pe, end,
                   [&](const block_run &run) { return get_run(to, from.value(), run); });
}

// Packed bytes of the source, wherever it is.
status engine::gather_part(std::byte *to, const std::byte *source, const strided_shape &shape,
                           const packed_part &part) {
  bool const is_device = job_->map().is_device_memory(source);
  status code = status::ok;
  shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
    if (!is_device)
      return void(to = gather_run(to, source + run.source, run.source_stride, run));
    for (size_t i = 0; i < run.count && code == status::ok; i++, to += run.size)
      code = context_->copy(to, source + run.source + i * run.source_stride, run.size);
  });
  return code;
}

// Fetched, added to, and put back.
status engine::add_part(const addend &what, const device_place &to, const std::byte *added,
                        const strided_shape &shape, const packed_part &part) {
  std::vector<std::byte> sum(part.size);
  status code = status::ok;
  auto const each_run = [&](auto &&move) {
    size_t at = 0;
    shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
      if (code == status::ok)
        code = move(run, at);
      at += run.size * run.count;
    });
  };
  each_run([&](const block_run &run, size_t at) {
    return get_run(sum.data(), to,
                   {run.target, at, run.size, run.count, run.target_stride, run.size});
  });
  TND_TRY(code);
  TND_TRY(context_->quiet());
  add_scaled(what.of, what.scale, sum.data(), added, part.size);
  each_run([&](const block_run &run, size_t at) {
    return put_run(to, sum.data(),
                   {at, run.target, run.size, run.count, run.size, run.target_stride});
  });
  status const done = context_->quiet();
  return code == status::ok ? done : code;
}

// Host memory has locks of its own.
status engine::add_part_to_host(const addend &what, const transfer &sides, const std::byte *added,
                                const strided_shape &shape, const packed_part &part) {
  status code = status::ok;
  shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
    auto *target = static_cast<std::byte *>(sides.target) + run.target;
    for (size_t i = 0; i < run.count && code == status::ok;
         i++, added += run.size, target += run.target_stride) {
      code = accumulate(what.of, what.scale, {added, target, sides.pe}, strided_shape{run.size});
    }
  });
  return code;
}

status engine::accumulate_beside_device(const addend &what, const transfer &sides,
                                        const strided_shape &shape) {
  auto to = find_beside_device(sides.target, shape.target_extent(), sides.pe);
  if (!to.ok())
    return to.error();
  bool const is_device = device_->has(sides.target, sides.pe) ||
                         (sides.pe == me() && job_->map().is_device_memory(sides.target));
  auto const *const source = static_cast<const std::byte *>(sides.source);
  std::vector<std::byte> added(std::min(shape.size(), sum_size));
  for (size_t done = 0; done < shape.size(); done += added.size()) {
    packed_part const part{done, std::min(added.size(), shape.size() - done)};
    TND_TRY(gather_part(added.data(), source, shape, part));
    if (is_device)
      TND_TRY(alone_on_device(
          sides.pe, [&] { return add_part(what, to.value(), added.data(), shape, part); }));
    else
      TND_TRY(add_part_to_host(what, sides, added.data(), shape, part));
  }
  return status::ok;
}

// Processes change a device's memory by what they have read there one after the other.
template <class Act>
status engine::alone_on_device(pe_index pe, Act &&act) {
  mutex const whole{mutex_count_max, pe};
  TND_TRY(finish());
  TND_TRY(take(whole, held_));
  status const code = act(), freed = unlock(whole);
  return code == status::ok ? freed : code;
}

template <class T>
result<T> engine::update_device(port::fabric_atomic kind, void *theirs, T operand, pe_index pe) {
  auto *const word = reinterpret_cast<T *>(device_->ours(theirs, sizeof(T), pe));
  if (word == nullptr)
    return refuse(status::range, "a word at %p is not in the device's heap of process %d", theirs,
                  pe);
  T before{};
  TND_TRY(alone_on_device(
      pe, [&] { return context_->update(kind, word, operand, T{0}, &before, pe); }));
  return before;
}
template result<uint32_t> engine::update_device(port::fabric_atomic, void *, uint32_t, pe_index);
template result<uint64_t> engine::update_device(port::fabric_atomic, void *, uint64_t, pe_index);

}  // namespace tanada::comex
