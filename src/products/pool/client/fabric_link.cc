#include "products/pool/client/fabric_link.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t receive_id = 1;

}  // namespace

result<std::unique_ptr<fabric_link>> fabric_link::open(const std::string &provider) {
  auto endpoint = port::fabric_open({.provider = provider, .cuda = true});
  if (!endpoint.ok())
    return endpoint.error();
  return std::unique_ptr<fabric_link>{new fabric_link{std::move(endpoint).value()}};
}

std::string fabric_link::address() const {
  auto const bytes = endpoint_->address().span();
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

result<fabric_link::loan> fabric_link::lend(std::byte *addr, uint64_t size, bool on_device,
                                            bool to_be_read) {
  auto after = kept_.upper_bound(addr);
  if (after != kept_.begin()) {
    auto const &[begin, known] = *std::prev(after);
    uint64_t const offset = uint64_t(addr - begin);
    if (offset < known.size && size <= known.size - offset)
      return loan{known.region.remote, offset};
  }
  auto made =
      open_region(addr, size, on_device, {.remote_read = to_be_read, .remote_write = !to_be_read});
  if (!made.ok())
    return made.error();
  return loan{made.value().remote, 0, made.value().id};
}

result<port::fabric_region> fabric_link::open_region(std::byte *addr, uint64_t size, bool on_device,
                                                     port::fabric_access access) {
  port::fabric_memory const memory{
      addr, size, on_device ? port::fabric_memory_kind::cuda : port::fabric_memory_kind::host};
  auto made = endpoint_->region_register(memory, access);
  if (!on_device || made.error() != status::not_supported)
    return made;
  refuses_devices_ = true;
  return fail(status::not_supported, "provider %s takes no memory of this GPU: it is staged",
              endpoint_->properties().provider.c_str());
}

void fabric_link::let_go(const loan &which) {
  if (which.id != port::no_fabric_region)
    (void)endpoint_->region_release(which.id);
}

status fabric_link::keep(std::byte *addr, uint64_t size, bool on_device) {
  auto const after = kept_.lower_bound(addr);
  bool const overlaps =
      (after != kept_.end() && after->first < addr + size) ||
      (after != kept_.begin() && std::prev(after)->first + std::prev(after)->second.size > addr);
  if (overlaps)
    return fail(status::exists, "a part of this memory is registered already");
  auto made = open_region(addr, size, on_device, {.remote_read = true, .remote_write = true});
  if (!made.ok())
    return made.error();
  kept_[addr] = {size, made.value()};
  return status::ok;
}

status fabric_link::forget(std::byte *addr) {
  auto const found = kept_.find(addr);
  if (found == kept_.end())
    return status::no_entry;
  TND_TRY(endpoint_->region_release(found->second.region.id));
  kept_.erase(found);
  return status::ok;
}

void fabric_link::forget_holding(std::byte *addr) {
  auto after = kept_.upper_bound(addr);
  if (after == kept_.begin())
    return;
  auto const &[begin, known] = *std::prev(after);
  if (uint64_t(addr - begin) < known.size)
    (void)forget(begin);
}

void fabric_link::receive() {
  port::fabric_op op;
  op.kind = port::fabric_op_kind::receive;
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
  port::fabric_completion done[8];
  for (size_t count = endpoint_->poll(done); count > 0; count = endpoint_->poll(done)) {
    for (size_t i = 0; i < count; i++) {
      if (done[i].op_id != receive_id || !done[i].settled)
        continue;
      is_receiving_ = false;
      received_ = done[i].code;
      std::span const come{message_.data(),
                           size_t(std::min<uint64_t>(done[i].size, message_.size()))};
      if (received_ == status::ok && wire::decode(come, challenge_) != status::ok)
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
      return fail(received_, "the fabric's endpoint receives nothing");
    if (port::monotonic_clock().now_ns() >= deadline_ns) {
      return fail(status::timed_out,
                  "the daemon's message over the fabric has not come to this endpoint");
    }
  }
}

}  // namespace tanada::pool
