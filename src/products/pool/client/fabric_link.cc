// The client's fabric endpoint: regions, and the proof that the endpoint is its own.
#include "products/pool/client/fabric_link.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t receive_id = 1;

}  // namespace

result<std::unique_ptr<fabric_link>> fabric_link::open(const seams::fabric_request &request) {
  auto endpoint = seams::fabric_open(request);
  if (!endpoint.ok())
    return endpoint.error();
  return std::unique_ptr<fabric_link>{new fabric_link{std::move(endpoint).value()}};
}

std::string fabric_link::address() const {
  auto const bytes = endpoint_->address().span();
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

fabric_link::regions::const_iterator fabric_link::find_registered(std::byte *addr,
                                                                  uint64_t size) const {
  auto const after = registered_.upper_bound(addr);
  if (after == registered_.begin())
    return registered_.end();
  auto const known = std::prev(after);
  uint64_t const offset = uint64_t(addr - known->first), region_size = known->second.size;
  return offset < region_size && size <= region_size - offset ? known : registered_.end();
}

result<fabric_link::region_use> fabric_link::acquire_region(std::byte *addr,
                                                            uint64_t size,
                                                            bool on_device,
                                                            bool to_be_read) {
  if (auto const known = find_registered(addr, size); known != registered_.end())
    return region_use{known->second.region.remote, uint64_t(addr - known->first)};
  auto registered =
      open_region(addr, size, on_device, {.remote_read = to_be_read, .remote_write = !to_be_read});
  if (!registered.ok())
    return registered.error();
  return region_use{registered.value().remote, 0, registered.value().id};
}

result<seams::fabric_region> fabric_link::open_region(std::byte *addr,
                                                      uint64_t size,
                                                      bool on_device,
                                                      seams::fabric_access access) {
  seams::fabric_memory const memory{
      addr, size, on_device ? seams::fabric_memory_kind::cuda : seams::fabric_memory_kind::host};
  auto registered = endpoint_->region_register(memory, access);
  if (!on_device || registered.error() != status::not_supported)
    return registered;
  refuses_devices_ = true;
  return fail(status::not_supported,
              "provider {} cannot register memory of this GPU; its transfers are staged",
              endpoint_->properties().provider);
}

void fabric_link::release_region(const region_use &region) {
  if (region.id != seams::no_fabric_region)
    (void)endpoint_->region_release(region.id);
}

status fabric_link::register_memory(std::byte *addr, uint64_t size, bool on_device) {
  auto const after = registered_.lower_bound(addr);
  bool const overlaps = (after != registered_.end() && after->first < addr + size) ||
                        (after != registered_.begin() &&
                         std::prev(after)->first + std::prev(after)->second.size > addr);
  if (overlaps)
    return fail(status::exists, "a part of this memory is registered already");
  auto registered = open_region(addr, size, on_device, {.remote_read = true, .remote_write = true});
  if (!registered.ok())
    return registered.error();
  registered_[addr] = {size, registered.value()};
  return status::ok;
}

status fabric_link::unregister_memory(std::byte *addr) {
  auto const it = registered_.find(addr);
  if (it == registered_.end())
    return status::no_entry;
  TND_TRY(endpoint_->region_release(it->second.region.id));
  registered_.erase(it);
  return status::ok;
}

void fabric_link::unregister_containing(std::byte *addr) {
  auto after = registered_.upper_bound(addr);
  if (after == registered_.begin())
    return;
  auto const &[begin, known] = *std::prev(after);
  if (uint64_t(addr - begin) < known.size)
    (void)unregister_memory(begin);
}

void fabric_link::receive() {
  TND_ASSERT(!is_receiving_);
  seams::fabric_op op;
  op.kind = seams::fabric_op_kind::receive;
  op.op_id = receive_id;
  op.addr = message_.data();
  op.size = message_.size();
  is_receiving_ = endpoint_->post(op) == status::ok;
}

void fabric_link::serve(uint64_t deadline_ns) {
  if (!is_receiving_)
    receive();
  received_ = status::again;
  (void)endpoint_->wait(deadline_ns);
  seams::fabric_completion done[8];
  for (size_t count = endpoint_->poll(done); count > 0; count = endpoint_->poll(done)) {
    for (size_t i = 0; i < count; i++) {
      if (done[i].op_id != receive_id || !done[i].settled)
        continue;
      TND_ASSERT(is_receiving_);
      is_receiving_ = false;
      received_ = done[i].code;
      std::span const bytes{message_.data(),
                            size_t(std::min<uint64_t>(done[i].size, message_.size()))};
      if (received_ == status::ok && wire::decode(bytes, challenge_) != status::ok)
        received_ = status::again;
    }
  }
}

result<wire::pool::bytes32> fabric_link::await_secret(const wire::pool::bytes32 &tag,
                                                      uint64_t deadline_ns) {
  for (;;) {
    serve(deadline_ns);
    if (received_ == status::ok && challenge_.tag == tag)
      return challenge_.secret;
    if (received_ != status::ok && received_ != status::again)
      return fail(received_, "the fabric endpoint cannot receive");
    if (seams::monotonic_clock().now_ns() >= deadline_ns) {
      return fail(status::timed_out,
                  "the daemon's message over the fabric has not arrived at this endpoint");
    }
  }
}

}  // namespace tanada::pool
