// Domains and memory regions of the provider.

#include <new>
#include <span>

#include "products/o2g/provider/objects.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

namespace {

constexpr uint64_t remove_timeout_ns = 5'000'000'000;
constexpr int mr_basic = 1;  // FI_MR_BASIC, a name that later headers deprecate

domain &domain_of(fid *id) {
  return *reinterpret_cast<domain *>(id);
}

int domain_bind(fid *, fid *, uint64_t) {
  return 0;
}  // domains report no events, so the event queue is ignored

int no_scalable_endpoint(fid_domain *, fi_info *, fid_ep **, void *) {
  return -FI_ENOSYS;
}
int no_stx(fid_domain *, fi_tx_attr *, fid_stx **, void *) {
  return -FI_ENOSYS;
}
int no_srx(fid_domain *, fi_rx_attr *, fid_ep **, void *) {
  return -FI_ENOSYS;
}
int no_collective(fid_domain *, fi_collective_op, fi_collective_attr *, uint64_t) {
  return -FI_EOPNOTSUPP;
}

int query_atomic(
    fid_domain *, fi_datatype type, fi_op operation, fi_atomic_attr *attr, uint64_t flags) {
  if (type >= FI_DATATYPE_LAST || size_t(operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  auto const atomic_op = atomic_operation(operation);
  bool const compares = (flags & FI_COMPARE_ATOMIC) != 0;
  bool const fetches = (flags & FI_FETCH_ATOMIC) != 0;
  bool const fits = is_supported(atomic_type(type), atomic_op) &&
                    needs_compared(atomic_op) == compares &&
                    (atomic_op != atomic_operation::read || fetches) && (flags & FI_TAGGED) == 0;
  if (!fits)
    return -FI_EOPNOTSUPP;
  attr->size = size_of(atomic_type(type));
  attr->count = atomic_size_max / attr->size;
  return 0;
}

fi_ops domain_id_ops = {sizeof(fi_ops),
                        no_throw<close_unused<domain>>,
                        no_throw<domain_bind>,
                        no_control,
                        no_ops_open,
                        nullptr,
                        nullptr};
fi_ops_domain domain_ops = {sizeof(fi_ops_domain),
                            no_throw<address_vector_open>,
                            no_throw<completion_queue_open>,
                            no_throw<endpoint_open>,
                            no_scalable_endpoint,
                            no_throw<counter_open>,
                            no_throw<poll_set_open>,
                            no_stx,
                            no_srx,
                            no_throw<query_atomic>,
                            no_collective,
                            nullptr};
fi_ops_mr mr_ops = {sizeof(fi_ops_mr),
                    no_throw<memory_register>,
                    no_throw<memory_register_parts>,
                    no_throw<memory_register_attr>};

int region_close(fid *id) {
  auto *const closed = reinterpret_cast<memory_region *>(id);
  uint64_t const deadline_ns = seams::monotonic_clock().now_ns() + remove_timeout_ns;
  if (closed->closing_region == nullptr) {
    auto access = closed->parent->memory.resolve(closed->id.key, closed->base, 0, {});
    if (access.ok())
      closed->closing_region = std::move(access).value().parent;
    if (closed->parent->memory.remove(closed->id.key, deadline_ns) == status::busy)
      return -FI_EBUSY;
  } else if (closed->closing_region.use_count() > 1) {
    return -FI_EBUSY;
  }
  closed->parent->region_counts.unbind(closed->id.key);
  remove_user(*closed->parent);
  delete closed;
  return 0;
}

// A region belongs to the domain, so binding it to an endpoint has no effect.
int region_bind(fid *id, fid *target, uint64_t flags) {
  if (target->fclass == FI_CLASS_EP)
    return 0;
  bool const for_reads = (flags & FI_REMOTE_READ) != 0;
  bool const for_writes = (flags & FI_REMOTE_WRITE) != 0;
  if (target->fclass != FI_CLASS_CNTR || (!for_reads && !for_writes))
    return -FI_EINVAL;
  auto const &region = *reinterpret_cast<memory_region *>(id);
  region.parent->region_counts.bind(
      region.id.key, *reinterpret_cast<counter *>(target), for_reads, for_writes);
  return 0;
}

int region_control(fid *, int command, void *) {
  return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

fi_ops region_id_ops = {sizeof(fi_ops),
                        no_throw<region_close>,
                        no_throw<region_bind>,
                        no_throw<region_control>,
                        no_ops_open,
                        nullptr,
                        nullptr};

}  // namespace

int domain_open(fid_fabric *parent, fi_info *info, fid_domain **handle, void *context) {
  auto *const opened = new (std::nothrow) domain;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->parent = reinterpret_cast<fabric *>(parent);
  opened->parent->users++;
  opened->mr_mode = info->domain_attr->mr_mode;
  opened->address_format = info->addr_format;
  opened->id.fid = {FI_CLASS_DOMAIN, context, &domain_id_ops};
  opened->id.ops = &domain_ops;
  opened->id.mr = &mr_ops;
  *handle = &opened->id;
  return 0;
}

namespace {

// Registers memory, in basic mode with a key that is chosen here, otherwise with the requested one.
status add_memory(domain &owner,
                  std::span<std::byte> memory,
                  uint64_t base,
                  region_access access,
                  uint64_t &key) {
  if (owner.mr_mode != mr_basic)
    return owner.memory.add(key, memory.data(), memory.size(), base, access);
  auto chosen = owner.memory.add(memory.data(), memory.size(), base, access);
  if (!chosen.ok())
    return chosen.error();
  key = std::move(chosen).value();
  return status::ok;
}

}  // namespace

int memory_register(fid *parent,
                    const void *buffer,
                    size_t size,
                    uint64_t access,
                    uint64_t offset,
                    uint64_t key,
                    uint64_t,
                    fid_mr **handle,
                    void *context) {
  if (parent->fclass != FI_CLASS_DOMAIN || offset != 0)
    return -FI_EINVAL;
  domain &owner = domain_of(parent);
  auto *const opened = new (std::nothrow) memory_region;
  if (opened == nullptr)
    return -FI_ENOMEM;
  auto *const addr = static_cast<std::byte *>(const_cast<void *>(buffer));
  region_access const remote{(access & FI_REMOTE_READ) != 0, (access & FI_REMOTE_WRITE) != 0};
  bool const is_basic = owner.mr_mode == mr_basic;
  uint64_t const base = is_basic ? reinterpret_cast<uintptr_t>(buffer) : 0;
  if (status const added = add_memory(owner, {addr, size}, base, remote, key);
      added != status::ok) {
    delete opened;
    return added == status::exists ? -FI_ENOKEY : error_of(added);
  }
  opened->parent = &owner;
  opened->base = base;
  owner.users++;
  opened->id.fid = {FI_CLASS_MR, context, &region_id_ops};
  opened->id.mem_desc = opened;
  opened->id.key = key;
  *handle = &opened->id;
  return 0;
}

int memory_register_parts(fid *parent,
                          const iovec *parts,
                          size_t count,
                          uint64_t access,
                          uint64_t offset,
                          uint64_t key,
                          uint64_t flags,
                          fid_mr **handle,
                          void *context) {
  if (count != 1)
    return -FI_EINVAL;
  return memory_register(
      parent, parts[0].iov_base, parts[0].iov_len, access, offset, key, flags, handle, context);
}

int memory_register_attr(fid *parent, const fi_mr_attr *attr, uint64_t flags, fid_mr **handle) {
  // FI_MR_DMABUF of libfabric 2.x, with which another field replaces `mr_iov`.
  constexpr uint64_t is_dmabuf = uint64_t{1} << 40;
  if (attr->iface != FI_HMEM_SYSTEM || (flags & is_dmabuf) != 0)
    return -FI_ENOSYS;
  return memory_register_parts(parent,
                               attr->mr_iov,
                               attr->iov_count,
                               attr->access,
                               attr->offset,
                               attr->requested_key,
                               flags,
                               handle,
                               attr->context);
}

}  // namespace tanada::o2g::provider
