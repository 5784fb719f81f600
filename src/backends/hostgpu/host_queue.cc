#include "backends/hostgpu/host_queue.hpp"

#include "core/base/result.hpp"
#include "seams/fabric/update_here.hpp"
#include "seams/os/racy_copy.hpp"

namespace tanada::port {

// Kernels may be at the bytes.
status host_queue::move(void *target, const void *source, size_t size) {
  racy_copy(static_cast<std::byte *>(blocks_.here(target)),
            static_cast<const std::byte *>(blocks_.here(source)), size);
  return status::ok;
}

status host_queue::copy_rows(void *target, const void *source, const row_shape &shape) {
  auto *to = static_cast<std::byte *>(target);
  auto const *from = static_cast<const std::byte *>(source);
  for (size_t i = 0; i < shape.count; i++, to += shape.target_stride, from += shape.source_stride) {
    TND_TRY(move(to, from, shape.row_size));
  }
  return status::ok;
}

status host_queue::update(void *target, const word_update &what, uint64_t *before) {
  target = blocks_.here(target);
  uint64_t const there =
      what.element == fabric_element::u32
          ? update_here(what.kind, static_cast<uint32_t *>(target), uint32_t(what.operand),
                        uint32_t(what.compare))
          : update_here(what.kind, static_cast<uint64_t *>(target), what.operand, what.compare);
  if (before != nullptr)
    *before = there;
  return status::ok;
}

status host_queue::order() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return status::ok;
}

status host_queue::wait(uint64_t) {
  return order();
}

}  // namespace tanada::port
