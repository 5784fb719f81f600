// One-sided operations of host code: strided transfers, vectors, accumulates and signals.
#include "onesided/job/context.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::onesided {
namespace {

struct range {
  ptrdiff_t begin, size;
};

// Returns the range that `count` blocks cover whose starts are `stride` apart. Returns nothing if
// no memory could hold it.
std::optional<range> covered_range(const strided_shape &shape, ptrdiff_t stride) {
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

// Data written before are visible to a PE that sees the signal.
void update_signal(uint64_t *word, signal_kind kind, uint64_t value) {
  if (kind == signal_kind::set)
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  else
    __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}

// Elements of common sizes are copied without a call for each.
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
    case 1:
      return copy_elements<uint8_t>(target, source, shape);
    case 2:
      return copy_elements<uint16_t>(target, source, shape);
    case 4:
      return copy_elements<uint32_t>(target, source, shape);
    case 8:
      return copy_elements<uint64_t>(target, source, shape);
    case 16:
      return copy_elements<std::array<uint64_t, 2>>(target, source, shape);
    default:
      break;
  }
  for (size_t i = 0; i < shape.count; i++) {
    std::memcpy(target, source, shape.block_size);
    target += shape.target_stride;
    source += shape.source_stride;
  }
}

}  // namespace

status context::put_strided(void *target,
                            const void *source,
                            const strided_shape &shape,
                            pe_index pe) {
  if (shape.block_size == 0 || shape.count == 0)
    return map_.is_pe(pe) ? status::ok : status::invalid;
  if (is_contiguous(shape))
    return put(target, source, shape.block_size * shape.count, pe);
  if (!map_.is_pe(pe))
    return status::invalid;
  auto const whole = covered_range(shape, shape.target_stride);
  if (!whole)
    return status::range;
  auto const extent = *whole;
  auto *const target_bytes = static_cast<std::byte *>(target);
  auto const *source_bytes = static_cast<const std::byte *>(source);
  auto location = map_.locate(target_bytes + extent.begin, size_t(extent.size), pe);
  if (location.segment_ptr == nullptr)
    return status::range;
  if (map_.device() != nullptr && involves_device(location, source))
    return put_rows_device(location, extent.begin, source, shape, pe);
  if (location.mapped != nullptr) {
    copy_blocks(location.mapped - extent.begin, source_bytes, shape);
    map_.wake(pe, location, size_t(extent.size));
    return status::ok;
  }
  location.offset -= size_t(extent.begin);
  return put_blocks(location, source_bytes, shape, pe);
}

// `target` is the first block, in unmapped memory.
status context::put_blocks(symmetric_address target,
                           const std::byte *source,
                           const strided_shape &shape,
                           pe_index pe) {
  TND_ASSERT(target.mapped == nullptr && remote_.has_value());
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(remote_->put(pe, target, source, shape.block_size));
    target.offset += size_t(shape.target_stride);
    source += shape.source_stride;
  }
  return status::ok;
}

status context::get_strided(void *target,
                            const void *source,
                            const strided_shape &shape,
                            pe_index pe) {
  if (shape.block_size == 0 || shape.count == 0)
    return map_.is_pe(pe) ? status::ok : status::invalid;
  if (is_contiguous(shape))
    return get(target, source, shape.block_size * shape.count, pe);
  if (!map_.is_pe(pe))
    return status::invalid;
  auto const whole = covered_range(shape, shape.source_stride);
  if (!whole)
    return status::range;
  auto const extent = *whole;
  auto const *const source_bytes = static_cast<const std::byte *>(source);
  auto *target_bytes = static_cast<std::byte *>(target);
  auto location = map_.locate(source_bytes + extent.begin, size_t(extent.size), pe);
  if (location.segment_ptr == nullptr)
    return status::range;
  if (map_.device() != nullptr && involves_device(location, target))
    return get_rows_device(target, location, extent.begin, shape, pe);
  if (location.mapped != nullptr) {
    copy_blocks(target_bytes, location.mapped - extent.begin, shape);
    return status::ok;
  }
  location.offset -= size_t(extent.begin);
  return get_blocks(target_bytes, location, shape, pe);
}

// `source` is the first block, in unmapped memory.
status context::get_blocks(std::byte *target,
                           symmetric_address source,
                           const strided_shape &shape,
                           pe_index pe) {
  TND_ASSERT(source.mapped == nullptr && remote_.has_value());
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(remote_->get_nbi(pe, target, source, shape.block_size));
    source.offset += size_t(shape.source_stride);
    target += shape.target_stride;
  }
  return remote_->quiet();
}

status context::put_vector(std::span<void *const> targets,
                           std::span<const void *const> sources,
                           size_t size,
                           pe_index pe) {
  if (targets.size() != sources.size())
    return status::invalid;
  for (size_t i = 0; i < targets.size(); i++)
    TND_TRY(put(targets[i], sources[i], size, pe));
  return status::ok;
}

status context::get_vector(std::span<void *const> targets,
                           std::span<const void *const> sources,
                           size_t size,
                           pe_index pe) {
  if (targets.size() != sources.size())
    return status::invalid;
  for (size_t i = 0; i < targets.size(); i++)
    TND_TRY(get_nbi(targets[i], sources[i], size, pe));
  return quiet();
}

status context::accumulate(
    seams::fabric_element element, void *target, const void *source, size_t size, pe_index pe) {
  if (!map_.is_pe(pe) || size % element_size(element) != 0)
    return status::invalid;
  if (reinterpret_cast<uintptr_t>(target) % element_alignment(element) != 0)
    return status::fault;
  if (size == 0)
    return status::ok;
  auto const location = map_.locate(target, size, pe);
  if (location.segment_ptr == nullptr)
    return status::range;
  if (location.is_device())
    return fail(status::not_supported, "accumulate is not supported on device memory");
  if (location.mapped == nullptr)
    return remote_->accumulate(pe, location, element, source, size);
  accumulate_local(element, location.mapped, static_cast<const std::byte *>(source), size);
  map_.wake(pe, location, size);
  return status::ok;
}

status context::put_signal_by(remote_put_signal call,
                              void *target,
                              const void *source,
                              size_t size,
                              uint64_t *signal,
                              signal_kind kind,
                              uint64_t value,
                              pe_index pe) {
  if (!map_.is_pe(pe))
    return status::invalid;
  if (reinterpret_cast<uintptr_t>(signal) % sizeof *signal != 0)
    return status::fault;
  auto const signal_location = map_.locate(signal, sizeof *signal, pe);
  auto const location = size == 0 ? signal_location : map_.locate(target, size, pe);
  if (signal_location.segment_ptr == nullptr || location.segment_ptr == nullptr)
    return status::range;
  remote_context::signal const signal_update{
      .location = signal_location, .kind = kind, .value = value};
  if (map_.device() != nullptr &&
      (signal_location.is_device() || (size != 0 && involves_device(location, source)))) {
    return put_signal_device(call, location, source, size, signal_update, pe);
  }
  if (signal_location.mapped == nullptr)
    return ((*remote_).*call)(pe, location, source, size, signal_update);
  if (size != 0)
    std::memcpy(location.mapped, source, size);
  update_signal(reinterpret_cast<uint64_t *>(signal_location.mapped), kind, value);
  map_.wake(pe, signal_location, sizeof *signal);
  if (size != 0)
    map_.wake(pe, location, size);
  return status::ok;
}

status context::put_signal(void *target,
                           const void *source,
                           size_t size,
                           uint64_t *signal,
                           signal_kind kind,
                           uint64_t value,
                           pe_index pe) {
  return put_signal_by(&remote_context::put_signal, target, source, size, signal, kind, value, pe);
}

status context::put_signal_nbi(void *target,
                               const void *source,
                               size_t size,
                               uint64_t *signal,
                               signal_kind kind,
                               uint64_t value,
                               pe_index pe) {
  return put_signal_by(
      &remote_context::put_signal_nbi, target, source, size, signal, kind, value, pe);
}

}  // namespace tanada::onesided
