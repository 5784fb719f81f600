// A job's stager, for device memory that no local queue reaches and for active messages of unmapped
// PEs. If one PE needs a stager, all PEs open one.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"

namespace tanada::onesided {
namespace {

// Large enough for the fabric, and small enough that its copies overlap with those of the device.
// With smaller slots devices and fabrics wait for one another more than they work.
constexpr size_t slot_size = size_t{512} << 10;

struct staging_contact {
  std::array<char, 64> provider{};
  stager::contact stager_contact{};
};
static_assert(std::is_trivially_copyable_v<staging_contact>);  // sent as bytes
static_assert(slot_size % large_page == 0 || large_page % slot_size == 0);

}  // namespace

// Collective if there are devices, or active messages.
status job::start_staging() {
  if (options_.message_server != nullptr && !is_one_node())
    return open_staging();
  if (options_.device == nullptr)
    return status::ok;
  auto const &device_addrs = impl_->device_addrs;
  uint32_t const needs_staging = std::any_of(
      device_addrs.begin(), device_addrs.end(), [](auto *address) { return address == nullptr; });
  TND_TRY(launcher_.publish("pgas.reach", std::as_bytes(std::span{&needs_staging, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  bool is_needed = false;
  for (pe_index pe = 0; pe < count(); pe++) {
    auto published = launcher_.lookup(pe, "pgas.reach");
    if (!published.ok())
      return published.error();
    is_needed |= !published.value().empty() && published.value()[0] != std::byte{0};
  }
  return is_needed ? open_staging() : status::ok;
}

// The staging buffer. Its pages take memory once they are used.
result<std::byte *> job::allocate_staging(size_t size) {
  if (options_.device != nullptr) {
    auto buffer = options_.device->allocate_host(size);
    if (!buffer.ok())
      return buffer.error();
    return static_cast<std::byte *>(buffer.value());
  }
  void *const buffer =
      std::aligned_alloc(large_page, (size + large_page - 1) / large_page * large_page);
  if (buffer == nullptr)
    return fail(status::no_memory,
                "cannot allocate {} bytes for the staging buffer (TND_PGAS_STAGING)",
                size);
  return static_cast<std::byte *>(buffer);
}

// How the fabric addresses device memory; empty: that memory is staged.
//
// Only network cards access GPU memory. Fabrics that copy by a processor (tcp, shm) use CUDA's
// default stream, which waits for the program's kernels, and those may wait for the very data.
seams::fabric_memory job::heap_view(const seams::fabric_endpoint &endpoint) const {
  auto const *const device = options_.device;
  if (device == nullptr || options_.device_transfer_path == device_path::staged)
    return {};
  auto const &fabric = endpoint.properties();
  bool const is_requested = options_.device_transfer_path == device_path::direct;
  bool const is_safe = !device->info().is_cuda || fabric.path == seams::fabric_path::rdma;
  if (!is_requested && !is_safe)
    return {};
  if (device->info().is_cuda && !fabric.has_cuda) {
    if (is_requested)
      log(log_level::warning,
          "pgas: fabric {} does not accept GPU memory; staging it",
          impl_->provider);
    return {};
  }
  auto view = device->fabric_view(impl_->own_device_block.addr,
                                  options_.device_control_size + options_.device_heap_size);
  if (view.ok())
    return view.value();
  if (is_requested)
    log(log_level::warning, "pgas: staging the device memory of PE {}: {}", me(), last_message());
  return {};
}

status job::open_staging() {
  auto *const device = options_.device;
  bool const is_staged = options_.device_transfer_path == device_path::staged;
  auto opened = open_endpoint(device != nullptr && device->info().is_cuda && !is_staged);
  if (!opened.ok())
    return opened.error();
  auto queue = device_queue_open();
  if (!queue.ok())
    return queue.error();
  TND_ASSERT(impl_->staging_buffer == nullptr);
  size_t const size = std::max(options_.staging_size, 2 * slot_size);
  auto buffer = allocate_staging(size);
  if (!buffer.ok())
    return buffer.error();
  impl_->staging_buffer = buffer.value();
  auto created =
      create_stager(std::move(opened).value(), std::move(queue).value(), {buffer.value(), size});
  if (!created.ok())
    return created.error();
  TND_TRY(join_stagers(*created.value()));
  impl_->staging = std::move(created).value();
  impl_->staging->start();
  serves_remote_ = true;
  if (device != nullptr)
    has_both_wake_sources_ = true;  // the stager's thread also wakes waits
  // No PE sends to a stager that does not know it yet.
  return launcher_.barrier(options_.timeout_ns);
}

result<std::unique_ptr<stager>> job::create_stager(std::unique_ptr<seams::fabric_endpoint> endpoint,
                                                   std::unique_ptr<seams::device_queue> queue,
                                                   std::span<std::byte> buffer) {
  auto *const device = options_.device;
  auto const view = heap_view(*endpoint);
  auto const memory = device_segment();
  stager::options const chosen{.timeout_ns = options_.timeout_ns,
                               .time = time_,
                               .make_progress = [this] { progress(); },
                               .is_device_memory =
                                   [device](const void *addr) {
                                     return device != nullptr && device->is_device_memory(addr);
                                   },
                               .failed_pe = [this] { return launcher_failed_pe(); },
                               .on_heap_changed =
                                   [this, memory](size_t offset, size_t length) {
                                     wake(me(), memory.data() + offset, length);
                                   },
                               .is_oversubscribed = is_oversubscribed_,
                               .heap = memory,
                               .staging_buffer = buffer,
                               .slot_size = slot_size,
                               .message_server = options_.message_server,
                               .heap_view = view,
                               .flush_fabric_writes =
                                   [device] {
                                     return device->flush_fabric_writes();
                                   }};
  auto created = stager::create(std::move(endpoint), std::move(queue), me(), chosen);
  if (created.ok() && view.addr != nullptr && !created.value()->is_direct()) {
    log(log_level::warning,
        "pgas: staging the device memory of PE {}: the fabric refused it",
        me());
  }
  return created;
}

// The control memory, in which kernels signal, and the heap. Empty without a device.
std::span<std::byte> job::device_segment() const noexcept {
  if (options_.device == nullptr)
    return {};
  return {static_cast<std::byte *>(impl_->own_device_block.addr),
          options_.device_control_size + options_.device_heap_size};
}

// Gives the stager the contacts of the other PEs.
status job::join_stagers(stager &added) {
  staging_contact own_contact{.provider = {}, .stager_contact = added.own_contact()};
  impl_->provider.copy(own_contact.provider.data(), own_contact.provider.size() - 1);
  TND_TRY(launcher_.publish("pgas.staging", std::as_bytes(std::span{&own_contact, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  std::vector<stager::contact> contacts;
  for (pe_index pe = 0; pe < count(); pe++) {
    auto published = launcher_.lookup(pe, "pgas.staging");
    if (!published.ok())
      return published.error();
    staging_contact contact;
    if (published.value().size() != sizeof contact)
      return fail(status::protocol, "PE {} runs another version of the library", pe);
    std::memcpy(&contact, published.value().data(), sizeof contact);
    auto &address = contact.stager_contact.address;
    address.size = std::min(address.size, address.bytes.size());
    if (contact.provider != own_contact.provider) {
      return fail(status::invalid,
                  "PE {} has chosen another fabric than {}: set TND_PGAS_FABRIC",
                  pe,
                  impl_->provider);
    }
    contacts.push_back(contact.stager_contact);
  }
  return added.join(contacts);
}

void job::close_staging() noexcept {
  impl_->is_device_busy = impl_->staging && !impl_->staging->stop();
  impl_->staging.reset();
  if (impl_->is_device_busy) {
    log(log_level::warning,
        "pgas: the device of PE {} may still access memory of the job, which stays allocated",
        me());
  } else if (impl_->staging_buffer != nullptr && options_.device != nullptr) {
    options_.device->free_host(impl_->staging_buffer);
  } else {
    std::free(impl_->staging_buffer);
  }
  impl_->staging_buffer = nullptr;
}

stager *job::staging() const noexcept {
  return impl_->staging.get();
}

}  // namespace tanada::onesided
