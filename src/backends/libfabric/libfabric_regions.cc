#include "backends/libfabric/libfabric_regions.hpp"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "backends/libfabric/libfabric_status.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_op_check.hpp"

namespace tanada::port {
namespace {

constexpr uint64_t local_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

// A key that nobody guesses, as long as the provider takes them; where the provider chooses keys it
// ignores ours.
result<uint64_t> key_create(size_t key_size) {
  uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != ssize_t(sizeof key))
    return status::io;
  return key_size >= sizeof key ? key : key & ((uint64_t{1} << (8 * key_size)) - 1);
}

}  // namespace

libfabric_regions::libfabric_regions(const libfabric_domain &domain, fid_ep *endpoint,
                                     registration_cache_limits limits, fabric_counters &counters)
    : domain_{domain},
      endpoint_{endpoint},
      cache_{{[this](const fabric_memory &memory) -> result<void *> {
                auto opened = open(memory, local_access);
                if (!opened.ok())
                  return opened.error();
                return static_cast<void *>(opened.value());
              },
              [](void *which) {
                (void)fi_close(&static_cast<fid_mr *>(which)->fid);
              }},
             limits,
             counters} {}

libfabric_regions::~libfabric_regions() {
  for (auto &[id, each] : regions_) {
    if (each.cached != nullptr)
      cache_.release(each.cached);
  }
}

result<fid_mr *> libfabric_regions::open(const fabric_memory &memory, uint64_t access) {
  if (memory.kind == fabric_memory_kind::cuda && !domain_.properties().has_cuda) {
    return fail(status::not_supported,
                "libfabric: provider %s was not opened for GPU memory, or cannot reach it",
                domain_.properties().provider.c_str());
  }
  iovec where{memory.addr, memory.size};
  fi_mr_attr attributes{};
  attributes.mr_iov = &where;
  attributes.iov_count = 1;
  attributes.access = access;
  attributes.iface = FI_HMEM_SYSTEM;
  if (memory.kind == fabric_memory_kind::cuda) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = memory.device;
  }
  // Our keys are random: one that is in use already is drawn again.
  for (int attempt = 0;; attempt++) {
    auto key = key_create(domain_.info().domain_attr->mr_key_size);
    if (!key.ok())
      return key.error();
    attributes.requested_key = key.value();
    fid_mr *made = nullptr;
    int code = fi_mr_regattr(domain_.domain(), &attributes, 0, &made);
    if (code == -FI_ENOKEY && attempt < 8)
      continue;
    libfabric_handle<fid_mr> owner{made};
    if (code == 0 && domain_.has_mode(FI_MR_ENDPOINT)) {
      code = fi_mr_bind(made, &endpoint_->fid, 0);
      if (code == 0)
        code = fi_mr_enable(made);
    }
    if (code != 0 && memory.kind == fabric_memory_kind::cuda) {
      // A provider may know of GPUs while this libfabric was built without CUDA, as Debian's is.
      return fail(status::not_supported,
                  "libfabric: provider %s cannot reach this memory of GPU %d: %s",
                  domain_.properties().provider.c_str(), memory.device, fi_strerror(-code));
    }
    if (code != 0) {
      return fail(libfabric_status(-code),
                  "libfabric: provider %s: %zu bytes cannot be registered: %s",
                  domain_.properties().provider.c_str(), memory.size, fi_strerror(-code));
    }
    return owner.release();
  }
}

result<fabric_region> libfabric_regions::add(const fabric_memory &memory, fabric_access access) {
  TND_TRY(fabric_memory_check(memory));
  region made{.memory = memory, .own = nullptr, .cached = nullptr, .users = 0};
  fabric_region told{.id = next_id_, .remote = {}};
  if (access.remote_read || access.remote_write) {
    auto opened = open(memory, local_access | (access.remote_read ? uint64_t(FI_REMOTE_READ) : 0) |
                                   (access.remote_write ? uint64_t(FI_REMOTE_WRITE) : 0));
    if (!opened.ok())
      return opened.error();
    made.own.reset(opened.value());
    bool const is_virtual = domain_.has_mode(FI_MR_VIRT_ADDR);
    told.remote = {.base = is_virtual ? reinterpret_cast<uintptr_t>(memory.addr) : 0,
                   .key = fi_mr_key(made.own.get()),
                   .size = memory.size};
  } else {
    auto cached = cache_.acquire(memory);
    if (!cached.ok())
      return cached.error();
    made.cached = cached.value();
  }
  regions_.emplace(next_id_++, std::move(made));
  return told;
}

status libfabric_regions::remove(fabric_region_id id) {
  auto const at = regions_.find(id);
  if (at == regions_.end())
    return status::no_entry;
  if (at->second.users != 0)
    return status::busy;
  if (at->second.cached != nullptr)
    cache_.release(at->second.cached);
  regions_.erase(at);
  return status::ok;
}

result<libfabric_regions::hold> libfabric_regions::acquire(const fabric_op &op) {
  if (op.region != no_fabric_region) {
    auto const at = regions_.find(op.region);
    if (at == regions_.end())
      return status::no_entry;
    auto &which = at->second;
    if (op.addr < which.memory.addr || op.size > which.memory.size ||
        size_t(op.addr - which.memory.addr) > which.memory.size - op.size) {
      return status::range;
    }
    which.users++;
    auto *const registered =
        which.own ? which.own.get() : static_cast<fid_mr *>(which.cached->handle);
    return hold{.region = op.region, .cached = nullptr, .descriptor = fi_mr_desc(registered)};
  }
  if (!domain_.has_mode(FI_MR_LOCAL) || op.size == 0)
    return hold{};
  auto cached = cache_.acquire(
      {.addr = op.addr, .size = op.size, .kind = fabric_memory_kind::host, .device = 0});
  if (!cached.ok())
    return cached.error();
  return hold{.region = no_fabric_region,
              .cached = cached.value(),
              .descriptor = fi_mr_desc(static_cast<fid_mr *>(cached.value()->handle))};
}

void libfabric_regions::release(const hold &held) {
  if (held.cached != nullptr)
    cache_.release(held.cached);
  if (held.region == no_fabric_region)
    return;
  auto const at = regions_.find(held.region);
  TND_ASSERT(at != regions_.end() && at->second.users != 0);
  at->second.users--;
}

}  // namespace tanada::port
