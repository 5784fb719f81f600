// backends/hostgpu/host_queue.cc: the device queue of the host executor.
#include "backends/hostgpu/host_queue.hpp"

#include "core/base/result.hpp"
#include "seams/fabric/update_word.hpp"
#include "seams/os/racy_copy.hpp"

namespace tanada::backends {

// Kernels may access the bytes concurrently.
status host_queue::move(void *target, const void *source, size_t size) {
  seams::racy_copy(static_cast<std::byte *>(blocks_.host_address(target)),
                   static_cast<const std::byte *>(blocks_.host_address(source)),
                   size);
  return status::ok;
}

status host_queue::copy_rows(void *target, const void *source, const seams::row_shape &shape) {
  auto *target_row = static_cast<std::byte *>(target);
  auto const *source_row = static_cast<const std::byte *>(source);
  for (size_t i = 0; i < shape.count;
       i++, target_row += shape.target_stride, source_row += shape.source_stride) {
    TND_TRY(move(target_row, source_row, shape.row_size));
  }
  return status::ok;
}

status host_queue::update(void *target, const seams::word_update &request, uint64_t *before) {
  target = blocks_.host_address(target);
  uint64_t const old_value =
      request.element == seams::fabric_element::u32
          ? seams::update_word(request.kind,
                               static_cast<uint32_t *>(target),
                               uint32_t(request.operand),
                               uint32_t(request.compare))
          : seams::update_word(
                request.kind, static_cast<uint64_t *>(target), request.operand, request.compare);
  if (before != nullptr)
    *before = old_value;
  return status::ok;
}

status host_queue::order() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return status::ok;
}

status host_queue::wait(uint64_t) {
  return order();
}

}  // namespace tanada::backends
