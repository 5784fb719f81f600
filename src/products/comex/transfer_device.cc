// transfer_device.cc: transfers in which either side is device memory, which processors do not map.
// The job's context moves runs of blocks. Accumulates are computed here; a mutex per process
// serializes them, and word updates, on its device memory.
#include "products/comex/block_copy.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/deferred_error.hpp"

namespace tanada::comex {
namespace {

constexpr size_t sum_size = size_t{1}
                            << 20;  // bytes added at a time; a multiple of every element size
static_assert(sum_size % 16 == 0);

}  // namespace

bool engine::involves_device(const void *remote, const void *local, pe_index pe) const noexcept {
  TND_ASSERT(device_.has_value());
  auto const &map = job_->map();
  return device_->has(remote, pe) || map.is_device_memory(local) ||
         (pe == me() && map.is_device_memory(remote));
}

// A process's own device memory need not be in its device heap, since only the process accesses it.
result<engine::device_location> engine::resolve_with_device(const void *addr,
                                                            size_t size,
                                                            pe_index pe) const {
  if (uint32_t(pe) >= peers_.size())
    return address_error(addr, size, pe);
  if (device_->has(addr, pe)) {
    if (auto *const symmetric = device_->symmetric_address(addr, size, pe); symmetric != nullptr)
      return device_location{symmetric, true, pe};
    return set_error(status::range,
                     "{} bytes at {} end past the {} bytes of the device heap of process {}",
                     size,
                     addr,
                     device_->size(),
                     pe);
  }
  size_t const offset = reinterpret_cast<uintptr_t>(addr) - peers_[size_t(pe)].begin;
  if (offset <= heap_size() && size <= heap_size() - offset)
    return device_location{symmetric_address(addr, pe), true, pe};
  if (pe == me())
    return device_location{static_cast<std::byte *>(const_cast<void *>(addr)), false, pe};
  return address_error(addr, size, pe);
}

status engine::put_run(const device_location &location,
                       const std::byte *source,
                       const block_run &run) {
  std::byte *const target = location.addr + run.target;
  onesided::strided_shape const rows{
      run.size, run.count, ptrdiff_t(run.target_stride), ptrdiff_t(run.source_stride)};
  if (location.is_symmetric) {
    return run.count == 1 ? context_->put_nbi(target, source + run.source, run.size, location.pe)
                          : context_->put_strided(target, source + run.source, rows, location.pe);
  }
  for (size_t i = 0; i < run.count; i++)
    TND_TRY(context_->copy(
        target + i * run.target_stride, source + run.source + i * run.source_stride, run.size));
  return status::ok;
}

status engine::get_run(std::byte *target, const device_location &location, const block_run &run) {
  std::byte *const source = location.addr + run.source;
  onesided::strided_shape const rows{
      run.size, run.count, ptrdiff_t(run.target_stride), ptrdiff_t(run.source_stride)};
  if (location.is_symmetric) {
    return run.count == 1 ? context_->get_nbi(target + run.target, source, run.size, location.pe)
                          : context_->get_strided(target + run.target, source, rows, location.pe);
  }
  for (size_t i = 0; i < run.count; i++)
    TND_TRY(context_->copy(
        target + run.target + i * run.target_stride, source + i * run.source_stride, run.size));
  return status::ok;
}

// Completes earlier operations on the process first, on whatever path. The runs are complete on
// return, unless the mode is `deferred`.
template <class Run>
status engine::move_runs(const strided_shape &shape,
                         pe_index pe,
                         completion_mode mode,
                         Run &&move) {
  TND_TRY(finish_before_get(pe));
  status code = status::ok;
  shape.for_each_run(0, shape.size(), [&](const block_run &run) {
    if (code == status::ok)
      code = move(run);
  });
  if (mode == completion_mode::deferred && code == status::ok) {
    has_pending_ = true;
    return code;
  }
  status const done = context_->quiet();
  return code == status::ok ? done : code;
}

status engine::put_with_device(const transfer &sides,
                               const strided_shape &shape,
                               completion_mode mode) {
  auto location = resolve_with_device(sides.target, shape.target_extent(), sides.pe);
  if (!location.ok())
    return location.error();
  auto const *const source = static_cast<const std::byte *>(sides.source);
  return move_runs(shape, sides.pe, mode, [&](const block_run &run) {
    return put_run(location.value(), source, run);
  });
}

status engine::get_with_device(const transfer &sides,
                               const strided_shape &shape,
                               completion_mode mode) {
  auto location = resolve_with_device(sides.source, shape.source_extent(), sides.pe);
  if (!location.ok())
    return location.error();
  auto *const target = static_cast<std::byte *>(sides.target);
  return move_runs(shape, sides.pe, mode, [&](const block_run &run) {
    return get_run(target, location.value(), run);
  });
}

// Packs bytes of the source, in host or device memory.
status engine::gather_part(std::byte *packed,
                           const std::byte *source,
                           const strided_shape &shape,
                           const packed_range &part) {
  bool const is_device = job_->map().is_device_memory(source);
  status code = status::ok;
  shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
    if (!is_device) {
      packed = gather_run(packed, source + run.source, run.source_stride, run);
      return;
    }
    for (size_t i = 0; i < run.count && code == status::ok; i++) {
      code = context_->copy(packed, source + run.source + i * run.source_stride, run.size);
      packed += run.size;
    }
  });
  return code;
}

// Reads the target, adds, and writes it back.
status engine::add_part(const addend &operands,
                        const device_location &location,
                        const std::byte *added,
                        const strided_shape &shape,
                        const packed_range &part) {
  std::vector<std::byte> sum(part.size);
  status code = status::ok;
  auto const for_each_run = [&](auto &&move) {
    size_t position = 0;
    shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
      if (code == status::ok)
        code = move(run, position);
      position += run.size * run.count;
    });
  };
  for_each_run([&](const block_run &run, size_t position) {
    return get_run(sum.data(),
                   location,
                   {run.target, position, run.size, run.count, run.target_stride, run.size});
  });
  TND_TRY(code);
  TND_TRY(context_->quiet());
  add_scaled(operands.type, operands.scale, sum.data(), added, part.size);
  for_each_run([&](const block_run &run, size_t position) {
    return put_run(location,
                   sum.data(),
                   {position, run.target, run.size, run.count, run.size, run.target_stride});
  });
  status const done = context_->quiet();
  return code == status::ok ? done : code;
}

// Host memory has locks of its own.
status engine::add_part_to_host(const addend &operands,
                                const transfer &sides,
                                const std::byte *added,
                                const strided_shape &shape,
                                const packed_range &part) {
  status code = status::ok;
  shape.for_each_run(part.begin, part.size, [&](const block_run &run) {
    auto *target = static_cast<std::byte *>(sides.target) + run.target;
    for (size_t i = 0; i < run.count && code == status::ok;
         i++, added += run.size, target += run.target_stride) {
      code = accumulate(
          operands.type, operands.scale, {added, target, sides.pe}, strided_shape{run.size});
    }
  });
  return code;
}

status engine::accumulate_with_device(const addend &operands,
                                      const transfer &sides,
                                      const strided_shape &shape) {
  auto location = resolve_with_device(sides.target, shape.target_extent(), sides.pe);
  if (!location.ok())
    return location.error();
  bool const is_device = device_->has(sides.target, sides.pe) ||
                         (sides.pe == me() && job_->map().is_device_memory(sides.target));
  auto const *const source = static_cast<const std::byte *>(sides.source);
  std::vector<std::byte> added(std::min(shape.size(), sum_size));
  for (size_t done = 0; done < shape.size(); done += added.size()) {
    packed_range const part{done, std::min(added.size(), shape.size() - done)};
    TND_TRY(gather_part(added.data(), source, shape, part));
    if (is_device)
      TND_TRY(with_device_mutex(sides.pe, [&] {
        return add_part(operands, location.value(), added.data(), shape, part);
      }));
    else
      TND_TRY(add_part_to_host(operands, sides, added.data(), shape, part));
  }
  return status::ok;
}

// Processes that read and then write a device's memory do so one after another.
template <class Act>
status engine::with_device_mutex(pe_index pe, Act &&act) {
  TND_ASSERT(size_t(pe) < peers_.size());
  mutex const whole{mutex_count_max, pe};
  TND_TRY(finish());
  TND_TRY(acquire_mutex(whole, mutex_slots_));
  status const code = act(), freed = unlock(whole);
  return code == status::ok ? freed : code;
}

template <class T>
result<T> engine::update_device(seams::fabric_atomic kind, void *remote, T operand, pe_index pe) {
  auto *const word = reinterpret_cast<T *>(device_->symmetric_address(remote, sizeof(T), pe));
  if (word == nullptr)
    return set_error(
        status::range, "the word at {} is outside of the device heap of process {}", remote, pe);
  T before{};
  TND_TRY(with_device_mutex(
      pe, [&] { return context_->update(kind, word, operand, T{0}, &before, pe); }));
  return before;
}
template result<uint32_t> engine::update_device(seams::fabric_atomic, void *, uint32_t, pe_index);
template result<uint64_t> engine::update_device(seams::fabric_atomic, void *, uint64_t, pe_index);

}  // namespace tanada::comex
