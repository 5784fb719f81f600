// Requests: sent at once if possible, otherwise queued in their link.

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint32_t burst_count_min = 16;  // messages to one peer, each soon after the previous one
constexpr uint64_t long_wait_ns = 10'000'000'000;
constexpr uint64_t burst_pause_ns = 20'000;  // the longest pause between them

// The completion of a peek, or of discarding a claimed message.
completion describe(const message &unexpected) {
  completion done;
  done.kind = completion_kind::receive;
  done.tagged = (unexpected.info.flags & wire::o2g::tagged) != 0;
  done.size = unexpected.info.size;
  done.tag = unexpected.info.tag;
  done.data = unexpected.info.data;
  done.has_data = (unexpected.info.flags & wire::o2g::has_data) != 0;
  done.source = unexpected.info.source;
  return done;
}

envelope message_head(const send_request &request, uint64_t size) {
  envelope head;
  head.kind = uint8_t(kind::message);
  head.flags = uint8_t((request.tagged ? wire::o2g::tagged : 0) |
                       (request.has_data ? wire::o2g::has_data : 0) |
                       (request.delivery_complete ? wire::o2g::wants_ack : 0));
  head.size = size;
  head.tag = request.tag;
  head.data = request.data;
  return head;
}

completion send_completion(const send_request &request, uint64_t size) {
  completion done;
  done.kind = completion_kind::send;
  done.tagged = request.tagged;
  done.context = request.context;
  done.owner = request.owner;
  done.size = size;
  done.tag = request.tag;
  return done;
}

bool has_valid_count(std::span<const iovec> parts) {
  return parts.size() <= part_count_max;
}

}  // namespace

// Rejects bytes at the address NULL, which would fault in the middle of an operation. Some MPI
// implementations pass MPI_BOTTOM unchanged.
bool engine_core::has_null_part(std::span<const iovec> parts) noexcept {
  auto const null_part = std::ranges::find_if(
      parts, [](const iovec &part) { return part.iov_base == nullptr && part.iov_len != 0; });
  if (null_part == parts.end())
    return false;
  log_peer_error([&] {
    log(log_level::error,
        "o2g: a request with {} bytes at the address NULL fails: pass the address of the data",
        null_part->iov_len);
  });
  return true;
}

// Fails a request by its completion, not its status: Open MPI ignores the status of starting a
// persistent request, and would wait without end.
status engine_core::complete_with_fault(completion done) noexcept {
  done.code = status::fault;
  complete(done);
  return status::ok;
}

// Whether a request must be refused because the peer does not read and its send queue is full.
// Makes progress in that case, so that a caller that retries without polling succeeds in the end.
bool engine_core::is_full(link &peer_link) {
  if (is_running_deferred_ || !peer_link.is_full()) {
    peer_link.full_since_ns = 0;
    return false;
  }
  log_long_wait(peer_link);
  drive();
  return true;
}

// Logs once that a queue has been full for long because receives are missing.
void engine_core::log_long_wait(link &peer_link) noexcept {
  uint64_t const now_ns = clock_.now_ns();
  if (peer_link.full_since_ns == 0)
    peer_link.full_since_ns = now_ns;
  if (peer_link.held_count == 0 || now_ns < peer_link.full_since_ns + long_wait_ns)
    return;
  peer_link.full_since_ns = ~uint64_t{0} - long_wait_ns;
  log_peer_error([&] {
    log(log_level::warning,
        "o2g: requests to {} have waited for {} s: {} messages to it wait for receives there, and "
        "fill TND_O2G_SEND_QUEUE={}",
        to_text(peers_[peer_link.peer].address),
        long_wait_ns / 1'000'000'000,
        peer_link.held_count,
        options_.send_queue_size);
  });
}

// Returns the link for a request to a peer. again: its send queue is full.
result<link *> engine_core::link_for_request(peer_index target, bool is_continuation) {
  auto const link_result = link_for_peer(target);
  if (!link_result.ok())
    return link_result;
  link *const peer_link = result<link *>{link_result}.value();
  TND_ASSERT(peer_link != nullptr && peer_link->current_phase != link::phase::closed);
  if (!is_continuation && is_full(*peer_link))
    return status::again;
  return peer_link;
}

// Whether a message is to be batched. A write costs a microsecond in the kernel whatever its size.
// A program that sends many small messages to one peer without polling does not wait for a reply to
// any of them. From the 17th on they are batched. The batch is sent with the next poll, the next
// message that is not small, when it is large enough, or when the progress thread takes over.
bool engine_core::should_batch(link &peer_link, uint64_t size) {
  uint64_t const visit = progress_thread_.visit_count();
  uint64_t const now_ns = clock_.now_ns();
  bool const continues_burst =
      peer_link.burst_visit == visit && now_ns < peer_link.burst_ns + burst_pause_ns;
  ack_batcher_.record_send(now_ns);
  peer_link.burst_visit = visit;
  peer_link.burst_ns = now_ns;
  peer_link.burst_count = continues_burst ? peer_link.burst_count + 1 : 0;
  return peer_link.burst_count >= burst_count_min && size <= inject_size_max;
}

// Writes a message and returns the number of bytes accepted of envelope and body.
uint64_t engine_core::send_now(const link &peer_link,
                               const envelope &head,
                               std::span<const iovec> body) noexcept {
  TND_ASSERT(body.size() <= part_count_max);
  std::array<iovec, part_count_max + 1> parts;
  std::array<std::byte, sizeof head + small_body_size_max> joined;
  size_t count = body.size() + 1;
  if (head.size <= small_body_size_max) {  // one part is cheaper than two
    std::memcpy(joined.data(), &head, sizeof head);
    size_t offset = sizeof head;
    for (iovec const &part : body) {
      if (part.iov_len != 0)
        std::memcpy(joined.data() + offset, part.iov_base, part.iov_len);
      offset += part.iov_len;
    }
    parts[0] = {joined.data(), offset};
    count = 1;
  } else {
    parts[0] = {const_cast<envelope *>(&head), sizeof head};
    std::ranges::copy(body, parts.begin() + 1);
  }
  return write_parts(peer_link, {parts.data(), count});
}

status engine_core::post_send(const send_request &request) {
  return post(&engine_core::send, completion_kind::send, request);
}

status engine_core::send(const send_request &request) {
  uint64_t const size = size_of(request.parts);
  if (!has_valid_count(request.parts) || size > wire::o2g::message_size_max ||
      (request.inject && size > inject_size_max))
    return status::invalid;
  if (has_null_part(request.parts)) {
    if (request.inject)
      return status::invalid;
    return complete_with_fault({.kind = completion_kind::send,
                                .tagged = request.tagged,
                                .context = request.context,
                                .owner = request.owner});
  }
  auto const link_result = link_for_request(request.target);
  if (!link_result.ok())
    return link_result.error();
  link &peer_link = *result<link *>{link_result}.value();
  return send_on(peer_link, request, size);
}

// Whether a message needs no operation: its connection accepts it now, and it has no reply.
bool engine_core::can_send_at_once(const link &peer_link,
                                   const send_request &request,
                                   uint64_t size) const {
  return peer_link.current_phase == link::phase::established && peer_link.first == nullptr &&
         !peer_link.is_blocked && !peer_link.is_self && !request.delivery_complete &&
         has_credit(peer_link, size);
}

status engine_core::send_on(link &peer_link, const send_request &request, uint64_t size) {
  envelope const head = message_head(request, size);
  counters_.sent_count++;
  bool const is_flood = should_batch(peer_link, size);
  bool const can_send_now = can_send_at_once(peer_link, request, size);
  if (can_send_now && is_flood) {
    use_credit(peer_link, size);
    add_to_batch(peer_link, head, request.parts);
    if (!request.errors_only)
      complete(send_completion(request, size));
    return status::ok;
  }
  if (!peer_link.batch.empty())
    flush_batch(peer_link);
  uint64_t written_size = 0;
  bool const is_begun = can_send_now && peer_link.first == nullptr && !is_out_of_memory_;
  if (is_begun) {
    use_credit(peer_link, size);
    written_size = send_now(peer_link, head, request.parts);
    if (written_size == sizeof head + size) {
      if (!request.errors_only)
        complete(send_completion(request, size));
      return status::ok;
    }
    peer_link.is_blocked = true;
  }
  return queue_send(peer_link, request, head, {written_size, is_begun});
}

// Queues a message that may have been begun.
status engine_core::queue_send(link &peer_link,
                               const send_request &request,
                               const envelope &head,
                               send_start start) {
  operation *const op =
      make_request(head, request.parts, request.inject, request.delivery_complete);
  if (op == nullptr) {
    if (start.written_size != 0)
      drop_link(peer_link, status::no_memory);  // a partly sent message cannot be withdrawn
    else if (start.is_credited)
      return_credit(peer_link, head.size);
    return status::no_memory;
  }
  TND_ASSERT(start.written_size < op->size());
  op->done = send_completion(request, head.size);
  op->errors_only = request.errors_only;
  op->written_size = start.written_size;
  op->is_credited = start.is_credited;
  send_operation(peer_link, op);
  return status::ok;
}

// Returns null if there is no memory.
receive *engine_core::make_receive(const receive_request &request) noexcept {
  TND_ASSERT(has_valid_count(request.parts));
  receive *const receiver = receives_.acquire();
  if (receiver == nullptr)
    return nullptr;
  std::ranges::copy(request.parts, receiver->parts.begin());
  receiver->part_count = uint32_t(request.parts.size());
  receiver->capacity = size_of(request.parts);
  receiver->done.context = request.context;
  receiver->done.owner = request.owner;
  receiver->errors_only = request.errors_only;
  receiver->tagged = request.tagged;
  return receiver;
}

status engine_core::post_receive(const receive_request &request) {
  return post(&engine_core::start_receive, completion_kind::receive, request);
}

status engine_core::start_receive(const receive_request &request) {
  if (!has_valid_count(request.parts) ||
      (request.multi_receive_min != 0 && request.parts.size() != 1))
    return status::invalid;
  if (has_null_part(request.parts))
    return complete_with_fault({.kind = completion_kind::receive,
                                .tagged = request.tagged,
                                .context = request.context,
                                .owner = request.owner});
  receive *const receiver = make_receive(request);
  if (receiver == nullptr)
    return status::no_memory;
  receiver->pattern = request.pattern;
  if (!request.tagged) {
    receiver->pattern.tag = 0;
    receiver->pattern.ignore = 0;
  }
  receiver->multi_receive_min = request.multi_receive_min;
  if (receive_arrived(*receiver))
    return update_credit();
  bool const is_named = receiver->pattern.source < peers_.size();
  if (is_named && peers_[receiver->pattern.source].has_failed &&
      peers_[receiver->pattern.source].current == nullptr) {
    fail_receive(receiver, status::peer_lost);
    return update_credit();
  }
  if (request.tagged && !put_in_driver(*receiver)) {
    receives_.release(receiver);
    return status::no_memory;
  }
  matcher_for(request.tagged).add(*receiver);
  return update_credit();
}

// Receives the unexpected messages that match a new receive. True: the receive accepts no more, and
// may have been freed.
bool engine_core::receive_arrived(receive &receiver) {
  TND_ASSERT(!receiver.is_queued);
  matcher &queue = matcher_for(receiver.tagged);
  for (;;) {
    arrived_entry *const entry = queue.find_arrived(receiver.pattern);
    if (entry == nullptr)
      return false;
    auto *const unexpected = static_cast<message *>(entry);
    std::byte *buffer = nullptr;
    if (!reserve_space(receiver, unexpected->info, buffer))
      return true;  // the multi-receive is full and has ended
    queue.remove(*unexpected);
    bool const is_done =
        receiver.multi_receive_min == 0 || receiver.is_closed;  // the next call may free it
    consume_unexpected(&receiver, unexpected, buffer);
    if (is_done)
      return true;
  }
}

// Grants credit for memory that a request has freed. Always returns ok.
status engine_core::update_credit() noexcept {
  if (credit_changed_)
    grant_due_credit();
  return status::ok;
}

// Receives an unexpected message that was queued or claimed.
void engine_core::consume_unexpected(receive *receiver,
                                     message *unexpected,
                                     std::byte *buffer) noexcept {
  TND_ASSERT(!unexpected->is_queued && unexpected->receiver == nullptr);
  switch (unexpected->current_state) {
    case message::state::complete: {
      receive_parts(*receiver, unexpected->info, buffer)
          .put({unexpected->bytes(), unexpected->info.size});
      incoming const info = unexpected->info;
      free_unexpected(unexpected);
      return finish_receive(receiver, info, buffer, status::ok);
    }
    case message::state::arriving:
      unexpected->receiver = receiver;
      unexpected->receive_buffer = buffer;
      return;
    case message::state::failed: {
      incoming const info = unexpected->info;
      free_unexpected(unexpected);
      return finish_receive(receiver, info, buffer, status::peer_lost);
    }
    case message::state::rendezvous:
      pulled_message const pulled{receiver, buffer, unexpected->peer_link, unexpected->info};
      free_unexpected(unexpected);
      return request_body(pulled);
  }
}

void engine_core::discard_unexpected(message *unexpected) noexcept {
  TND_ASSERT(!unexpected->is_queued && unexpected->receiver == nullptr);
  if (unexpected->current_state == message::state::arriving) {
    unexpected->is_discarded = true;
    return;
  }
  bool const wants_reply = unexpected->current_state == message::state::rendezvous ||
                           (unexpected->info.flags & wire::o2g::wants_ack) != 0;
  link *const peer_link = unexpected->current_state == message::state::rendezvous
                              ? unexpected->peer_link
                              : peers_[unexpected->info.source].current;
  if (wants_reply && peer_link != nullptr && peer_link->serial == unexpected->info.link_serial)
    acknowledge(*peer_link, unexpected->info.id, status::ok);
  free_unexpected(unexpected);
}

status engine_core::post_peek(const peek_request &request) {
  return post(&engine_core::peek, completion_kind::receive, request);
}

status engine_core::peek(const peek_request &request) {
  matcher &queue = matcher_for(request.tagged);
  match_pattern pattern = request.pattern;
  if (!request.tagged) {
    pattern.tag = 0;
    pattern.ignore = 0;
  }
  auto *const unexpected = static_cast<message *>(queue.find_arrived(pattern));
  completion done;
  done.kind = completion_kind::receive;
  done.tagged = request.tagged;
  done.context = request.context;
  done.owner = request.owner;
  done.code = status::no_entry;
  if (unexpected != nullptr) {
    done = describe(*unexpected);
    done.context = request.context;
    done.owner = request.owner;
    if (request.claim && !request.discard) {
      claims_.emplace(request.context, unexpected);  // first, because it may throw
      unexpected->claim_context = request.context;
    }
    if (request.claim || request.discard)
      queue.remove(*unexpected);
    if (request.discard)
      discard_unexpected(unexpected);
  }
  complete(done);
  return update_credit();
}

status engine_core::post_receive_claimed(const receive_request &request) {
  return post(&engine_core::receive_claimed, completion_kind::receive, request);
}

status engine_core::receive_claimed(const receive_request &request) {
  auto const it = claims_.find(request.context);
  if (it == claims_.end())
    return status::no_entry;
  if (!has_valid_count(request.parts) || has_null_part(request.parts))
    return status::invalid;
  receive *const receiver = make_receive(request);
  if (receiver == nullptr)
    return status::no_memory;
  message *const unexpected = it->second;
  claims_.erase(it);
  std::byte *buffer = nullptr;
  reserve_space(*receiver, unexpected->info, buffer);
  consume_unexpected(receiver, unexpected, buffer);
  return update_credit();
}

status engine_core::discard_claimed(void *context, bool is_quiet, void *owner) {
  return post(&engine_core::discard_claimed_message,
              completion_kind::receive,
              discard_request{context, is_quiet, owner});
}

status engine_core::discard_claimed_message(const discard_request &request) {
  auto const it = claims_.find(request.context);
  if (it == claims_.end())
    return status::no_entry;
  message *const unexpected = it->second;
  claims_.erase(it);
  completion done = describe(*unexpected);
  done.context = request.context;
  done.owner = request.owner;
  discard_unexpected(unexpected);
  if (!request.errors_only)
    complete(done);
  return update_credit();
}

status engine_core::cancel(void *context) {
  status const code = post(&engine_core::cancel_posted, std::nullopt, cancel_request{context});
  return code == status::ok || code == status::again ? code : status::no_entry;
}

status engine_core::cancel_posted(const cancel_request &request) {
  for (matcher *queue : {&tagged_matcher_, &untagged_matcher_}) {
    auto *const receiver = static_cast<receive *>(queue->find_posted_if([&](posted_entry &entry) {
      return static_cast<receive &>(entry).done.context == request.context;
    }));
    if (receiver == nullptr)
      continue;
    if (!claim_posted(*receiver))
      return status::no_entry;
    remove_posted(*receiver);
    fail_receive(receiver, status::canceled);
    return status::ok;
  }
  return status::no_entry;
}

void engine_core::fail_receive(receive *receiver, status code) noexcept {
  TND_ASSERT(!receiver->is_queued && code != status::ok);
  receiver->is_closed = true;
  if (receiver->multi_receive_min != 0 && receiver->arriving_count != 0)
    return;  // the last message being received ends it
  completion done = receiver->done;
  done.kind = completion_kind::receive;
  done.tagged = receiver->tagged;
  done.code = code;
  receives_.release(receiver);
  complete(done);
}

}  // namespace tanada::o2g
