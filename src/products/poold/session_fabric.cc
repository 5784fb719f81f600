// A session's fabric endpoint: the client names its address, proves that it owns it, and requests
// transfers from and to its memory.
//
// An unproven address is only a claim. The daemon sends a secret to it, as a message over the
// fabric. The client, which its key has authenticated, returns the secret over the stream. This
// proves that it receives messages at that address (as RFC 9000, section 8.2, validates a path).
// Both the message and the reply carry a tag, by which a client distinguishes its own challenge
// from one that the claim of another client has sent to it.
#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/session.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;

status session::on_fabric(std::span<const std::byte> body) {
  fabric_request request;
  TND_TRY(wire::decode(body, request));
  if (service_.fabric == nullptr)
    return fail(status::not_supported, "the daemon has no fabric");
  fabric_reply reply;
  reply.provider = service_.fabric->provider();
  reply.address = service_.fabric->address();
  if (request.provider != reply.provider)
    return fail(status::not_supported, "the daemon's fabric is {}", reply.provider);
  bool const good =
      !request.address.empty() && request.address.size() <= seams::fabric_address_size_max;
  if (!good || fabric_claim_ != claim::unclaimed)
    return status::protocol;
  reply.tag = pool::random_bytes();
  fabric_secret_ = pool::random_bytes();
  fabric_claim_ = claim::pending;
  fabric_peer_ = request.address;
  fabric_deadline_ns_ =
      seams::deadline_after(seams::monotonic_clock().now_ns(), service_.limits.fabric_proof_ns);
  service_.fabric->acquire_peer(fabric_peer_);
  if (!send_challenge(reply.tag)) {
    fabric_claim_ = claim::failed;
    return fail(status::busy, "the daemon's fabric queue is full: try again later");
  }
  send_reply(reply);
  return status::ok;
}

// Send the secret to the claimed address. False: the fabric queue is full.
bool session::send_challenge(const bytes32 &tag) {
  TND_ASSERT(fabric_claim_ == claim::pending && !fabric_peer_.empty());
  fabric_challenge challenge;
  challenge.tag = tag;
  challenge.secret = fabric_secret_;
  auto const message = std::make_shared<std::vector<std::byte>>();
  wire::encode(challenge, *message);
  transfer message_transfer;
  message_transfer.peer = fabric_peer_;
  message_transfer.kind = seams::fabric_op_kind::send;
  message_transfer.timeout_ns = service_.limits.fabric_proof_ns;
  message_transfer.parts = {{message->data(), message->size()}};
  message_transfer.callback = [message](status) {
  };  // the callback keeps the message's memory alive
  return service_.fabric->submit(std::move(message_transfer));
}

status session::on_fabric_proof(std::span<const std::byte> body) {
  fabric_proof request;
  TND_TRY(wire::decode(body, request));
  if (fabric_claim_ != claim::pending)
    return fail(status::invalid, "the connection has no fabric address without a proof");
  fabric_claim_ = claim::failed;
  if (seams::monotonic_clock().now_ns() >= fabric_deadline_ns_)
    return fail(status::timed_out, "the proof of the fabric address arrived after its deadline");
  if (!pool::is_equal(request.secret, fabric_secret_)) {
    log(log_level::warning,
        "pool: {}, key \"{}\", claimed a fabric address that it does not own",
        connection_->peer(),
        key_id_);
    return fail(status::access,
                "the proof differs from the secret that was sent to the fabric address");
  }
  fabric_claim_ = claim::proven;
  send_reply(empty_message{});
  return status::ok;
}

status session::on_rma_write(std::span<const std::byte> body) {
  return on_rma(body, true);
}

status session::on_rma_read(std::span<const std::byte> body) {
  return on_rma(body, false);
}

status session::on_rma(std::span<const std::byte> body, bool to_pool) {
  rma_request request;
  TND_TRY(wire::decode(body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  handle &target = *entry.value();
  TND_TRY(check_rma(request, target, to_pool));
  if (target.reader != nullptr) {
    auto job = std::make_unique<byte_job>();
    job->own_handle.name = target.name;
    job->body.assign(body.begin(), body.end());
    job->on_loaded = &session::rma_loaded;
    return begin_load({target.object, target.reader}, std::move(job));
  }
  uint64_t const end = request.offset + request.size;
  if (end > target.object->metadata.size)
    TND_TRY(note_lack(service_.objects.grow(*target.object, end, allocation_mode())));
  TND_TRY(submit_rma(request, target, to_pool));
  deferred_count_++;
  if (to_pool) {
    fabric_writes_[head_.tag] = {request.handle, request.offset, request.size};
    count_written(fabric_path(), request.size);
  } else {
    count_read(fabric_path(), request.size);
  }
  return status::ok;
}

status session::check_rma(const rma_request &request, const handle &target, bool to_pool) const {
  bool const in_range = range_fits(request.offset, request.size, object_size_max) &&
                        range_fits(request.memory_offset, request.size, request.region_size);
  if (fabric_claim_ == claim::unclaimed || request.size == 0)
    return status::invalid;
  if (fabric_claim_ != claim::proven)
    return fail(status::access, "the client has not proven that it owns the fabric address");
  if (!in_range || fabric_writes_.contains(head_.tag))
    return status::range;
  if (to_pool != target.is_writer)
    return status::bad_file;
  bool const exceeds_object = request.offset + request.size > target.object->metadata.size;
  return !to_pool && exceeds_object ? status::range : status::ok;
}

// busy: the fabric queue is full.
status session::submit_rma(const rma_request &request, const handle &target, bool to_pool) {
  TND_ASSERT(service_.fabric != nullptr && !fabric_peer_.empty());
  transfer bulk_transfer;
  bulk_transfer.peer = fabric_peer_;
  bulk_transfer.timeout_ns = service_.limits.stall_ns;
  bulk_transfer.kind = to_pool ? seams::fabric_op_kind::read : seams::fabric_op_kind::write;
  bulk_transfer.remote = {request.base, request.key, request.region_size};
  bulk_transfer.offset = request.memory_offset;
  target.object->append_parts(request.offset, request.size, bulk_transfer.parts);
  bulk_transfer.callback = [answers = mailbox_,
                            id = id_,
                            tag = head_.tag,
                            request_kind = head_.kind,
                            hold = target.object](status code) mutable {
    answers->put({id, tag, request_kind, code, {}, std::move(hold)});
  };
  return service_.fabric->submit(std::move(bulk_transfer)) ? status::ok : status::busy;
}

void session::finish_fabric_write(uint64_t tag, status code) {
  auto const it = fabric_writes_.find(tag);
  if (it == fabric_writes_.end())
    return;
  fabric_write const done = it->second;
  fabric_writes_.erase(it);
  auto entry = find_handle(done.handle);
  if (code == status::ok && entry.ok() && entry.value()->is_writer) {
    entry.value()->written.add(done.offset, done.size);
    limit_ranges(*entry.value());
  }
}

}  // namespace tanada::poold
