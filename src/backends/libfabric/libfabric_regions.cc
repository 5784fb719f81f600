// backends/libfabric/libfabric_regions.cc: registers memory with libfabric.
#include "backends/libfabric/libfabric_regions.hpp"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "backends/libfabric/libfabric_status.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_op_check.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t local_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

// Creates an unguessable key, as long as the provider accepts. Providers that choose keys ignore
// it.
result<uint64_t> key_create(size_t key_size) {
  uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != ssize_t(sizeof key))
    return status::io;
  return key_size >= sizeof key ? key : key & ((uint64_t{1} << (8 * key_size)) - 1);
}

}  // namespace

libfabric_regions::libfabric_regions(const libfabric_domain &domain,
                                     fid_ep *endpoint,
                                     seams::registration_cache_limits limits,
                                     seams::fabric_counters &counters)
    : domain_{domain},
      endpoint_{endpoint},
      cache_{{[this](const seams::fabric_memory &memory) -> result<void *> {
                auto opened = open(memory, local_access);
                if (!opened.ok())
                  return opened.error();
                return static_cast<void *>(opened.value());
              },
              [](void *registration) {
                (void)fi_close(&static_cast<fid_mr *>(registration)->fid);
              }},
             limits,
             counters} {}

libfabric_regions::~libfabric_regions() {
  for (auto &[id, entry] : regions_) {
    if (entry.cached != nullptr)
      cache_.release(entry.cached);
  }
}

namespace {

// Binds a registration to the endpoint, for providers that register memory with endpoints.
int bind_registration(fid_mr *registration, fid_ep *endpoint) {
  int const code = fi_mr_bind(registration, &endpoint->fid, 0);
  return code == 0 ? fi_mr_enable(registration) : code;
}

bool is_within(const seams::fabric_op &op, const seams::fabric_memory &memory) {
  return op.addr >= memory.addr && op.size <= memory.size &&
         size_t(op.addr - memory.addr) <= memory.size - op.size;
}

status fail_registration(const libfabric_domain &domain,
                         const seams::fabric_memory &memory,
                         int code) {
  const char *const provider = domain.properties().provider.c_str();
  if (memory.kind == seams::fabric_memory_kind::cuda) {
    // A provider may support GPUs while this libfabric was built without CUDA, as in Debian.
    return fail(status::not_supported,
                "libfabric: provider {} cannot reach this memory of GPU {}: {}",
                provider,
                memory.device,
                fi_strerror(-code));
  }
  return fail(libfabric_status(-code),
              "libfabric: provider {}: {} bytes cannot be registered: {}",
              provider,
              memory.size,
              fi_strerror(-code));
}

}  // namespace

result<fid_mr *> libfabric_regions::open(const seams::fabric_memory &memory, uint64_t access) {
  if (memory.kind == seams::fabric_memory_kind::cuda && !domain_.properties().has_cuda) {
    return fail(status::not_supported,
                "libfabric: provider {} was not opened for GPU memory, or cannot reach it",
                domain_.properties().provider);
  }
  iovec range{memory.addr, memory.size};
  fi_mr_attr attributes{};
  attributes.mr_iov = &range;
  attributes.iov_count = 1;
  attributes.access = access;
  attributes.iface = FI_HMEM_SYSTEM;
  if (memory.kind == seams::fabric_memory_kind::cuda) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = memory.device;
  }
  // Keys are random: draw another one if this key is in use.
  for (int attempt = 0;; attempt++) {
    auto key = key_create(domain_.info().domain_attr->mr_key_size);
    if (!key.ok())
      return key.error();
    attributes.requested_key = key.value();
    fid_mr *registration = nullptr;
    int code = fi_mr_regattr(domain_.domain(), &attributes, 0, &registration);
    if (code == -FI_ENOKEY && attempt < 8)
      continue;
    libfabric_handle<fid_mr> owner{registration};
    if (code == 0 && domain_.has_mode(FI_MR_ENDPOINT))
      code = bind_registration(registration, endpoint_);
    if (code != 0)
      return fail_registration(domain_, memory, code);
    return owner.release();
  }
}

result<seams::fabric_region> libfabric_regions::add(const seams::fabric_memory &memory,
                                                    seams::fabric_access access) {
  TND_TRY(seams::fabric_memory_check(memory));
  region added{.memory = memory, .remote_registration = nullptr, .cached = nullptr, .users = 0};
  seams::fabric_region result{.id = next_id_, .remote = {}};
  if (access.remote_read || access.remote_write) {
    auto opened = open(memory,
                       local_access | (access.remote_read ? uint64_t(FI_REMOTE_READ) : 0) |
                           (access.remote_write ? uint64_t(FI_REMOTE_WRITE) : 0));
    if (!opened.ok())
      return opened.error();
    added.remote_registration.reset(opened.value());
    bool const is_virtual = domain_.has_mode(FI_MR_VIRT_ADDR);
    result.remote = {.base = is_virtual ? reinterpret_cast<uintptr_t>(memory.addr) : 0,
                     .key = fi_mr_key(added.remote_registration.get()),
                     .size = memory.size};
  } else {
    auto cached = cache_.acquire(memory);
    if (!cached.ok())
      return cached.error();
    added.cached = cached.value();
  }
  regions_.emplace(next_id_++, std::move(added));
  return result;
}

status libfabric_regions::remove(seams::fabric_region_id id) {
  auto const it = regions_.find(id);
  if (it == regions_.end())
    return status::no_entry;
  if (it->second.users != 0)
    return status::busy;
  if (it->second.cached != nullptr)
    cache_.release(it->second.cached);
  regions_.erase(it);
  return status::ok;
}

result<libfabric_regions::hold> libfabric_regions::acquire(const seams::fabric_op &op) {
  if (op.region != seams::no_fabric_region) {
    auto const it = regions_.find(op.region);
    if (it == regions_.end())
      return status::no_entry;
    auto &entry = it->second;
    if (!is_within(op, entry.memory))
      return status::range;
    entry.users++;
    TND_ASSERT(entry.remote_registration || entry.cached != nullptr);
    auto *const registered = entry.remote_registration
                                 ? entry.remote_registration.get()
                                 : static_cast<fid_mr *>(entry.cached->handle);
    return hold{.region = op.region, .cached = nullptr, .descriptor = fi_mr_desc(registered)};
  }
  if (!domain_.has_mode(FI_MR_LOCAL) || op.size == 0)
    return hold{};
  auto cached = cache_.acquire(
      {.addr = op.addr, .size = op.size, .kind = seams::fabric_memory_kind::host, .device = 0});
  if (!cached.ok())
    return cached.error();
  return hold{.region = seams::no_fabric_region,
              .cached = cached.value(),
              .descriptor = fi_mr_desc(static_cast<fid_mr *>(cached.value()->handle))};
}

void libfabric_regions::release(const hold &held) {
  if (held.cached != nullptr)
    cache_.release(held.cached);
  if (held.region == seams::no_fabric_region)
    return;
  auto const it = regions_.find(held.region);
  TND_ASSERT(it != regions_.end() && it->second.users != 0);
  it->second.users--;
}

}  // namespace tanada::backends
