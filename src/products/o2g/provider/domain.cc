// Domains and memory regions.

#include <new>

#include "products/o2g/provider/objects.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

namespace {

constexpr uint64_t remove_timeout_ns = 5'000'000'000;
constexpr int mr_basic = 1;  // FI_MR_BASIC, of which later headers warn

domain &domain_of(fid *id) {
  return *reinterpret_cast<domain *>(id);
}

int domain_bind(fid *, fid *, uint64_t) {
  return 0;
}  // an event queue: there are no events of domains

int no_scalable(fid_domain *, fi_info *, fid_ep **, void *) {
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

int query_atomic(fid_domain *, fi_datatype type, fi_op operation, fi_atomic_attr *attr,
                 uint64_t flags) {
  if (type >= FI_DATATYPE_LAST || size_t(operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  auto const what = atomic_operation(operation);
  bool const compares = (flags & FI_COMPARE_ATOMIC) != 0, fetches = (flags & FI_FETCH_ATOMIC) != 0;
  bool const fits = is_supported(atomic_type(type), what) && needs_compared(what) == compares &&
                    (what != atomic_operation::read || fetches) && (flags & FI_TAGGED) == 0;
  if (!fits)
    return -FI_EOPNOTSUPP;
  attr->size = size_of(atomic_type(type));
  attr->count = atomic_size_max / attr->size;
  return 0;
}

fi_ops domain_id_ops = {sizeof(fi_ops),
                        fenced<close_unused<domain>>,
                        fenced<domain_bind>,
                        no_control,
                        no_ops_open,
                        nullptr,
                        nullptr};
fi_ops_domain domain_ops = {sizeof(fi_ops_domain),
                            fenced<address_vector_open>,
                            fenced<completion_queue_open>,
                            fenced<endpoint_open>,
                            no_scalable,
                            fenced<counter_open>,
                            fenced<poll_set_open>,
                            no_stx,
                            no_srx,
                            fenced<query_atomic>,
                            no_collective,
                            nullptr};
fi_ops_mr mr_ops = {sizeof(fi_ops_mr), fenced<memory_register>, fenced<memory_register_parts>,
                    fenced<memory_register_attr>};

int region_close(fid *id) {
  auto *const closed = reinterpret_cast<memory_region *>(id);
  uint64_t const deadline_ns = port::monotonic_clock().now_ns() + remove_timeout_ns;
  if (closed->left == nullptr) {
    auto found = closed->in->memory.reach(closed->id.key, closed->base, 0, {});
    if (found.ok())
      closed->left = std::move(found).value().in;
    if (closed->in->memory.remove(closed->id.key, deadline_ns) == status::busy)
      return -FI_EBUSY;
  } else if (closed->left.use_count() > 1) {
    return -FI_EBUSY;
  }
  closed->in->counted.forget(closed->id.key);
  closed->in->users--;
  delete closed;
  return 0;
}

// Regions are the domain's, whatever endpoint they are bound to.
int region_bind(fid *id, fid *to, uint64_t flags) {
  if (to->fclass == FI_CLASS_EP)
    return 0;
  bool const for_reads = (flags & FI_REMOTE_READ) != 0, for_writes = (flags & FI_REMOTE_WRITE) != 0;
  if (to->fclass != FI_CLASS_CNTR || (!for_reads && !for_writes))
    return -FI_EINVAL;
  auto const &bound = *reinterpret_cast<memory_region *>(id);
  bound.in->counted.bind(bound.id.key, *reinterpret_cast<counter *>(to), for_reads, for_writes);
  return 0;
}

int region_control(fid *, int command, void *) {
  return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

fi_ops region_id_ops = {sizeof(fi_ops),
                        fenced<region_close>,
                        fenced<region_bind>,
                        fenced<region_control>,
                        no_ops_open,
                        nullptr,
                        nullptr};

}  // namespace

int domain_open(fid_fabric *in, fi_info *info, fid_domain **made, void *context) {
  auto *const opened = new (std::nothrow) domain;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->in = reinterpret_cast<fabric *>(in);
  opened->in->users++;
  opened->mr_mode = info->domain_attr->mr_mode;
  opened->address_format = info->addr_format;
  opened->id.fid = {FI_CLASS_DOMAIN, context, &domain_id_ops};
  opened->id.ops = &domain_ops;
  opened->id.mr = &mr_ops;
  *made = &opened->id;
  return 0;
}

int memory_register(fid *in, const void *buffer, size_t size, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t, fid_mr **made, void *context) {
  if (in->fclass != FI_CLASS_DOMAIN || offset != 0)
    return -FI_EINVAL;
  domain &of = domain_of(in);
  auto *const opened = new (std::nothrow) memory_region;
  if (opened == nullptr)
    return -FI_ENOMEM;
  auto *const addr = static_cast<std::byte *>(const_cast<void *>(buffer));
  region_access const remote{(access & FI_REMOTE_READ) != 0, (access & FI_REMOTE_WRITE) != 0};
  bool const is_basic = of.mr_mode == mr_basic;
  uint64_t const base = is_basic ? reinterpret_cast<uintptr_t>(buffer) : 0;
  if (is_basic) {
    auto chosen = of.memory.add(addr, size, base, remote);
    if (!chosen.ok()) {
      delete opened;
      return error_of(chosen.error());
    }
    key = std::move(chosen).value();
  } else if (status const added = of.memory.add(key, addr, size, base, remote);
             added != status::ok) {
    delete opened;
    return added == status::exists ? -FI_ENOKEY : error_of(added);
  }
  opened->in = &of;
  opened->base = base;
  of.users++;
  opened->id.fid = {FI_CLASS_MR, context, &region_id_ops};
  opened->id.mem_desc = opened;
  opened->id.key = key;
  *made = &opened->id;
  return 0;
}

int memory_register_parts(fid *in, const iovec *parts, size_t count, uint64_t access,
                          uint64_t offset, uint64_t key, uint64_t flags, fid_mr **made,
                          void *context) {
  if (count != 1)
    return -FI_EINVAL;
  return memory_register(in, parts[0].iov_base, parts[0].iov_len, access, offset, key, flags, made,
                         context);
}

int memory_register_attr(fid *in, const fi_mr_attr *attr, uint64_t flags, fid_mr **made) {
  constexpr uint64_t is_dmabuf = uint64_t{1}
                                 << 40;  // of libfabric 2.x: `mr_iov` is something else then
  if (attr->iface != FI_HMEM_SYSTEM || (flags & is_dmabuf) != 0)
    return -FI_ENOSYS;
  return memory_register_parts(in, attr->mr_iov, attr->iov_count, attr->access, attr->offset,
                               attr->requested_key, flags, made, attr->context);
}

}  // namespace tanada::o2g::provider
