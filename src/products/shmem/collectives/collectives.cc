#include "products/shmem/collectives/collectives.hpp"

namespace tanada::shmem {

// Where processors reach all memory of an operation: members' stores. Memory of devices goes by
// contexts.
bool collective::is_near(const void *target, const void *source) const noexcept {
  auto const &by = *of_.by_.context;
  return of_.near_ && !by.is_device_memory(target) && !by.is_device_memory(source);
}

status collective::copy(void *target, const void *source, size_t size) {
  return of_.by_.context->copy(target, source, size);
}

status collective::sync() {
  of_.enter();
  if (of_.count() == 1)
    return status::ok;
  return of_.near_ ? of_.near_->sync() : of_.far_->sync();
}

status collective::broadcast(void *target, const void *source, size_t size, int32_t root,
                             bool to_itself) {
  of_.enter();
  if (of_.pe_of(root) < 0)
    return status::invalid;
  if (size == 0)
    return status::ok;
  if (of_.count() == 1) {
    return to_itself ? copy(target, source, size) : status::ok;
  }
  return is_near(target, source) ? of_.near_->broadcast(target, source, size, root, to_itself)
                                 : of_.far_->broadcast(target, source, size, root, to_itself);
}

status collective::alltoall(void *target, const void *source, size_t size) {
  of_.enter();
  if (size == 0)
    return status::ok;
  if (of_.count() == 1)
    return copy(target, source, size);
  return is_near(target, source) ? of_.near_->alltoall(target, source, size)
                                 : of_.far_->alltoall(target, source, size);
}

status collective::alltoall_strided(void *target, const void *source,
                                    const far_group::strides &shape) {
  of_.enter();
  if (shape.count == 0)
    return status::ok;
  return is_near(target, source) ? of_.near_->alltoall_strided(target, source, shape)
                                 : of_.far_->alltoall_strided(target, source, shape);
}

status collective::fcollect(void *target, const void *source, size_t size) {
  of_.enter();
  if (size == 0)
    return status::ok;
  if (of_.count() == 1)
    return copy(target, source, size);
  return is_near(target, source) ? of_.near_->fcollect(target, source, size)
                                 : of_.far_->fcollect(target, source, size);
}

status collective::collect(void *target, const void *source, size_t size) {
  of_.enter();
  if (of_.count() == 1)
    return copy(target, source, size);
  // Who has nothing to give may name any source: where there are devices all take the way that any
  // memory can.
  bool const is_by_stores = of_.near_ && of_.by_.job->map().device() == nullptr;
  return is_by_stores ? of_.near_->collect(target, source, size)
                      : of_.far_->collect(target, source, size);
}

status collective::reduce(const reduction &what, void *target, const void *source, size_t count) {
  of_.enter();
  if (count == 0)
    return status::ok;
  if (of_.count() == 1)
    return copy(target, source, count * what.size);
  return is_near(target, source) ? of_.near_->reduce(what, target, source, count)
                                 : of_.far_->reduce(what, target, source, count);
}

status collective::scan(const reduction &what, scan_kind kind, void *target, const void *source,
                        size_t count) {
  of_.enter();
  if (count == 0)
    return status::ok;
  if (of_.count() == 1) {
    if (kind == scan_kind::inclusive)
      return copy(target, source, count * what.size);
    std::vector<std::byte> const zeros(count * what.size);
    return copy(target, zeros.data(), zeros.size());
  }
  return is_near(target, source) ? of_.near_->scan(what, kind, target, source, count)
                                 : of_.far_->scan(what, kind, target, source, count);
}

status collective::agree(const reduction &what, void *target, const void *source) {
  static_assert(near_board::data_size_max >= 16);
  TND_ASSERT(what.size <= 16);
  return reduce(what, target, source, 1);  // small: its data go through the boards
}

}  // namespace tanada::shmem
