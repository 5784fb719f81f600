// A session's endpoint in a fabric: the client names its address, shows that it is its own, and has
// its memory read and written.
//
// An address is but a claim. The daemon sends a secret there, as a message over the fabric, and the
// client, which is known by its key, hands it back over the stream: so it reads what arrives there
// (as RFC 9000, section 8.2, validates a path). The tag goes both ways: by it a client tells the
// message that was meant for it from one that another's claim has sent it.
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/session.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;

status session::on_fabric(std::span<const std::byte> body) {
  fabric_request in;
  TND_TRY(wire::decode(body, in));
  if (with_.fabric == nullptr)
    return fail(status::not_supported, "the daemon has no fabric");
  fabric_reply out;
  out.provider = with_.fabric->provider();
  out.address = with_.fabric->address();
  if (in.provider != out.provider)
    return fail(status::not_supported, "the daemon's fabric is %s", out.provider.c_str());
  bool const good = !in.address.empty() && in.address.size() <= port::fabric_address_size_max;
  if (!good || fabric_claim_ != claim::none)
    return status::protocol;
  fabric_challenge challenge;
  out.tag = pool::random_bytes();
  challenge.tag = out.tag;
  fabric_secret_ = pool::random_bytes();
  challenge.secret = fabric_secret_;
  auto const message = std::make_shared<std::vector<std::byte>>();
  wire::encode(challenge, *message);
  fabric_claim_ = claim::waits;
  fabric_peer_ = in.address;
  fabric_deadline_ns_ =
      port::deadline_after(port::monotonic_clock().now_ns(), with_.limits.fabric_proof_ns);
  with_.fabric->keep_peer(fabric_peer_);
  transfer made;
  made.peer = fabric_peer_;
  made.kind = port::fabric_op_kind::send;
  made.timeout_ns = with_.limits.fabric_proof_ns;
  made.parts = {{message->data(), message->size()}};
  made.done = [message](status) {
  };  // the message's memory lasts as long
  if (!with_.fabric->submit(std::move(made))) {
    fabric_claim_ = claim::failed;
    return fail(status::busy, "the daemon's fabric has too much to do");
  }
  answer(out);
  return status::ok;
}

status session::on_fabric_proof(std::span<const std::byte> body) {
  fabric_proof in;
  TND_TRY(wire::decode(body, in));
  if (fabric_claim_ != claim::waits)
    return fail(status::invalid, "no fabric address waits for its proof");
  fabric_claim_ = claim::failed;
  if (port::monotonic_clock().now_ns() >= fabric_deadline_ns_)
    return fail(status::timed_out, "the proof of the fabric address is late");
  if (!pool::is_equal(in.secret, fabric_secret_)) {
    log(log_level::warning, "pool: %s, key \"%s\", named a fabric address that is not its own",
        connection_->peer().c_str(), key_id_.c_str());
    return fail(status::access, "this is not what was sent to the fabric address");
  }
  fabric_claim_ = claim::proven;
  answer(empty_message{});
  return status::ok;
}

status session::on_rma(std::span<const std::byte> body, bool to_pool) {
  rma_request in;
  TND_TRY(wire::decode(body, in));
  auto which = find(in.handle);
  if (!which.ok())
    return which.error();
  bool const in_range = range_fits(in.offset, in.size, object_size_max) &&
                        range_fits(in.memory_offset, in.size, in.region_size);
  if (fabric_claim_ == claim::none || in.size == 0)
    return status::invalid;
  if (fabric_claim_ != claim::proven)
    return fail(status::access, "the client has not shown that the fabric address is its own");
  if (!in_range || fabric_writes_.contains(head_.tag))
    return status::range;
  handle &target = *which.value();
  if (to_pool != target.is_writer)
    return status::bad_file;
  uint64_t const end = in.offset + in.size;
  if (!to_pool && end > target.object->about.size)
    return status::range;
  if (to_pool && end > target.object->about.size)
    TND_TRY(with_.objects.grow(*target.object, end));
  transfer made;
  made.peer = fabric_peer_;
  made.timeout_ns = with_.limits.stall_ns;
  made.kind = to_pool ? port::fabric_op_kind::read : port::fabric_op_kind::write;
  made.remote = {in.base, in.key, in.region_size};
  made.offset = in.memory_offset;
  target.object->parts_of(in.offset, in.size, made.parts);
  made.done = [answers = answers_, id = id_, tag = head_.tag, what = head_.what,
               hold = target.object](status code) mutable {
    answers->put({id, tag, what, code, {}, std::move(hold)});
  };
  if (!with_.fabric->submit(std::move(made)))
    return status::busy;
  late_count_++;
  if (to_pool)
    fabric_writes_[head_.tag] = {in.handle, in.offset, in.size};
  if (to_pool)
    count_written(fabric_path(), in.size);
  else
    count_read(fabric_path(), in.size);
  return status::ok;
}

}  // namespace tanada::poold
