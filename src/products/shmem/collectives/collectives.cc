// Dispatch of a team's collective operations to its mapped group or its fabric group.
#include "products/shmem/collectives/collectives.hpp"

namespace tanada::shmem {

// True if processors map all memory of an operation, so that members' stores can carry it out.
// Device memory needs contexts.
bool collective::is_mapped(const void *target, const void *source) const noexcept {
  auto const &context = *team_.channel_.context;
  return team_.mapped_ && !context.is_device_memory(target) && !context.is_device_memory(source);
}

// True if the operation has two levels: see node_group.
bool collective::has_levels(const void *target, const void *source) const noexcept {
  auto const &context = *team_.channel_.context;
  return team_.nodes_ && !context.is_device_memory(target) && !context.is_device_memory(source);
}

status collective::copy(void *target, const void *source, size_t size) {
  return team_.channel_.context->copy(target, source, size);
}

status collective::sync() {
  team_.enter();
  if (team_.count() == 1)
    return status::ok;
  TND_ASSERT(team_.mapped_ || team_.fabric_);
  if (team_.nodes_)
    return team_.nodes_->sync();
  return team_.mapped_ ? team_.mapped_->sync() : team_.fabric_->sync();
}

status collective::broadcast(
    void *target, const void *source, size_t size, int32_t root, bool to_itself) {
  team_.enter();
  if (team_.pe_of(root) < 0)
    return status::invalid;
  if (size == 0)
    return status::ok;
  if (team_.count() == 1) {
    return to_itself ? copy(target, source, size) : status::ok;
  }
  if (has_levels(target, source))
    return team_.nodes_->broadcast(target, source, size, root, to_itself);
  return is_mapped(target, source)
             ? team_.mapped_->broadcast(target, source, size, root, to_itself)
             : team_.fabric_->broadcast(target, source, size, root, to_itself);
}

status collective::alltoall(void *target, const void *source, size_t size) {
  team_.enter();
  if (size == 0)
    return status::ok;
  if (team_.count() == 1)
    return copy(target, source, size);
  return is_mapped(target, source) ? team_.mapped_->alltoall(target, source, size)
                                   : team_.fabric_->alltoall(target, source, size);
}

status collective::alltoall_strided(void *target,
                                    const void *source,
                                    const fabric_group::strides &shape) {
  team_.enter();
  if (shape.count == 0)
    return status::ok;
  return is_mapped(target, source) ? team_.mapped_->alltoall_strided(target, source, shape)
                                   : team_.fabric_->alltoall_strided(target, source, shape);
}

status collective::fcollect(void *target, const void *source, size_t size) {
  team_.enter();
  if (size == 0)
    return status::ok;
  if (team_.count() == 1)
    return copy(target, source, size);
  if (has_levels(target, source) && team_.nodes_->can_gather(size))
    return team_.nodes_->fcollect(target, source, size);
  return is_mapped(target, source) ? team_.mapped_->fcollect(target, source, size)
                                   : team_.fabric_->fcollect(target, source, size);
}

status collective::collect(void *target, const void *source, size_t size) {
  team_.enter();
  if (team_.count() == 1)
    return copy(target, source, size);
  // A member with an empty block may pass any source. In jobs with devices all members use the
  // path that works for any memory.
  bool const is_by_stores = team_.mapped_ && team_.channel_.job->map().device() == nullptr;
  return is_by_stores ? team_.mapped_->collect(target, source, size)
                      : team_.fabric_->collect(target, source, size);
}

status collective::reduce(const reduction &op, void *target, const void *source, size_t count) {
  team_.enter();
  if (count == 0)
    return status::ok;
  if (team_.count() == 1)
    return copy(target, source, count * op.size);
  if (has_levels(target, source) && team_.nodes_->can_reduce(count * op.size))
    return team_.nodes_->reduce(op, target, source, count);
  return is_mapped(target, source) ? team_.mapped_->reduce(op, target, source, count)
                                   : team_.fabric_->reduce(op, target, source, count);
}

status collective::scan(
    const reduction &op, scan_kind kind, void *target, const void *source, size_t count) {
  team_.enter();
  if (count == 0)
    return status::ok;
  if (team_.count() == 1) {
    if (kind == scan_kind::inclusive)
      return copy(target, source, count * op.size);
    std::vector<std::byte> const zeros(count * op.size);
    return copy(target, zeros.data(), zeros.size());
  }
  return is_mapped(target, source) ? team_.mapped_->scan(op, kind, target, source, count)
                                   : team_.fabric_->scan(op, kind, target, source, count);
}

status collective::agree(const reduction &op, void *target, const void *source) {
  static_assert(mapped_exchange_area::data_size_max >= 16);
  TND_ASSERT(op.size <= 16);
  return reduce(op, target, source, 1);  // small enough for the entries
}

}  // namespace tanada::shmem
