#include "onesided/job/context.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::pgas {
namespace {

struct range {
  ptrdiff_t begin, size;
};

// What `count` blocks with beginnings `stride` apart cover. Nothing for what no memory can hold.
std::optional<range> covered(const strided_shape &shape, ptrdiff_t stride) {
  ptrdiff_t last = 0, end = 0;
  if (shape.block_size > PTRDIFF_MAX || __builtin_mul_overflow(shape.count - 1, stride, &last) ||
      __builtin_add_overflow(std::max<ptrdiff_t>(0, last), ptrdiff_t(shape.block_size), &end)) {
    return std::nullopt;
  }
  ptrdiff_t const begin = std::min<ptrdiff_t>(0, last);
  ptrdiff_t size = 0;
  if (__builtin_sub_overflow(end, begin, &size))
    return std::nullopt;
  return range{begin, size};
}

bool is_contiguous(const strided_shape &shape) {
  auto const size = ptrdiff_t(shape.block_size);
  return shape.count == 1 || (shape.target_stride == size && shape.source_stride == size);
}

// Elements as programs have them are copied without a call for each.
template <class T>
void copy_elements(std::byte *target, const std::byte *source, const strided_shape &shape) {
  for (size_t i = 0; i < shape.count; i++) {
    std::memcpy(target, source, sizeof(T));
    target += shape.target_stride;
    source += shape.source_stride;
  }
}

void copy_blocks(std::byte *target, const std::byte *source, const strided_shape &shape) {
  switch (shape.block_size) {
    case 1: return copy_elements<uint8_t>(target, source, shape);
    case 2: return copy_elements<uint16_t>(target, source, shape);
    case 4: return copy_elements<uint32_t>(target, source, shape);
    case 8: return copy_elements<uint64_t>(target, source, shape);
    case 16: return copy_elements<std::array<uint64_t, 2>>(target, source, shape);
    default: break;
  }
  for (size_t i = 0; i < shape.count; i++) {
    std::memcpy(target, source, shape.block_size);
    target += shape.target_stride;
    source += shape.source_stride;
  }
}

}  // namespace

status context::put_strided(void *target, const void *source, const strided_shape &shape,
                            pe_index pe) {
  if (shape.block_size == 0 || shape.count == 0)
    return map_.is_pe(pe) ? status::ok : status::invalid;
  if (is_contiguous(shape))
    return put(target, source, shape.block_size * shape.count, pe);
  if (!map_.is_pe(pe))
    return status::invalid;
  auto const whole = covered(shape, shape.target_stride);
  if (!whole)
    return status::range;
  auto const all = *whole;
  auto *const target_bytes = static_cast<std::byte *>(target);
  auto const *from = static_cast<const std::byte *>(source);
  auto to = map_.locate(target_bytes + all.begin, size_t(all.size), pe);
  if (to.where == nullptr)
    return status::range;
  if (map_.device() != nullptr && concerns_devices(to, source))
    return put_rows_device(to, all.begin, source, shape, pe);
  if (to.mapped != nullptr) {
    copy_blocks(to.mapped - all.begin, from, shape);
    map_.ring(pe, to, size_t(all.size));
    return status::ok;
  }
  to.offset -= size_t(all.begin);
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(remote_->put(pe, to, from, shape.block_size));
    to.offset += size_t(shape.target_stride);
    from += shape.source_stride;
  }
  return status::ok;
}

status context::get_strided(void *target, const void *source, const strided_shape &shape,
                            pe_index pe) {
  if (shape.block_size == 0 || shape.count == 0)
    return map_.is_pe(pe) ? status::ok : status::invalid;
  if (is_contiguous(shape))
    return get(target, source, shape.block_size * shape.count, pe);
  if (!map_.is_pe(pe))
    return status::invalid;
  auto const whole = covered(shape, shape.source_stride);
  if (!whole)
    return status::range;
  auto const all = *whole;
  auto const *const source_bytes = static_cast<const std::byte *>(source);
  auto *to = static_cast<std::byte *>(target);
  auto from = map_.locate(source_bytes + all.begin, size_t(all.size), pe);
  if (from.where == nullptr)
    return status::range;
  if (map_.device() != nullptr && concerns_devices(from, target))
    return get_rows_device(target, from, all.begin, shape, pe);
  if (from.mapped != nullptr) {
    copy_blocks(to, from.mapped - all.begin, shape);
    return status::ok;
  }
  from.offset -= size_t(all.begin);
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(remote_->get_nbi(pe, to, from, shape.block_size));
    from.offset += size_t(shape.source_stride);
    to += shape.target_stride;
  }
  return remote_->quiet();
}

status context::put_vector(std::span<void *const> targets, std::span<const void *const> sources,
                           size_t size, pe_index pe) {
  if (targets.size() != sources.size())
    return status::invalid;
  for (size_t i = 0; i < targets.size(); i++)
    TND_TRY(put(targets[i], sources[i], size, pe));
  return status::ok;
}

status context::get_vector(std::span<void *const> targets, std::span<const void *const> sources,
                           size_t size, pe_index pe) {
  if (targets.size() != sources.size())
    return status::invalid;
  for (size_t i = 0; i < targets.size(); i++)
    TND_TRY(get_nbi(targets[i], sources[i], size, pe));
  return quiet();
}

status context::accumulate(port::fabric_element element, void *target, const void *source,
                           size_t size, pe_index pe) {
  if (!map_.is_pe(pe) || size % element_size(element) != 0)
    return status::invalid;
  if (reinterpret_cast<uintptr_t>(target) % element_alignment(element) != 0)
    return status::fault;
  if (size == 0)
    return status::ok;
  auto const to = map_.locate(target, size, pe);
  if (to.where == nullptr)
    return status::range;
  if (to.is_device())
    return fail(status::not_supported, "accumulates on memory of a device");
  if (to.mapped == nullptr)
    return remote_->accumulate(pe, to, element, source, size);
  accumulate_here(element, to.mapped, static_cast<const std::byte *>(source), size);
  map_.ring(pe, to, size);
  return status::ok;
}

status context::put_signal_by(remote_put_signal call, void *target, const void *source, size_t size,
                              uint64_t *signal, signal_kind kind, uint64_t value, pe_index pe) {
  if (!map_.is_pe(pe))
    return status::invalid;
  if (reinterpret_cast<uintptr_t>(signal) % sizeof *signal != 0)
    return status::fault;
  auto const at = map_.locate(signal, sizeof *signal, pe);
  auto const to = size == 0 ? at : map_.locate(target, size, pe);
  if (at.where == nullptr || to.where == nullptr)
    return status::range;
  if (map_.device() != nullptr && (at.is_device() || (size != 0 && concerns_devices(to, source)))) {
    return put_signal_device(call, to, source, size, {.at = at, .kind = kind, .value = value}, pe);
  }
  if (at.mapped == nullptr)
    return ((*remote_).*call)(pe, to, source, size, {.at = at, .kind = kind, .value = value});
  if (size != 0)
    std::memcpy(to.mapped, source, size);
  auto *const word = reinterpret_cast<uint64_t *>(at.mapped);
  if (kind == signal_kind::set) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  } else {
    __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
  }
  map_.ring(pe, at, sizeof *signal);
  if (size != 0)
    map_.ring(pe, to, size);
  return status::ok;
}

status context::put_signal(void *target, const void *source, size_t size, uint64_t *signal,
                           signal_kind kind, uint64_t value, pe_index pe) {
  return put_signal_by(&remote_context::put_signal, target, source, size, signal, kind, value, pe);
}

status context::put_signal_nbi(void *target, const void *source, size_t size, uint64_t *signal,
                               signal_kind kind, uint64_t value, pe_index pe) {
  return put_signal_by(&remote_context::put_signal_nbi, target, source, size, signal, kind, value,
                       pe);
}

}  // namespace tanada::pgas
