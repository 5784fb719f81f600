// Operations that are not sent at once: they are created, queued or batched, and finished.
//
// No function here throws. If memory runs out for an operation that has begun, it calls
// set_out_of_memory(). From then on nothing is sent and received bytes are ignored, and the call or
// drive in progress makes the engine fail when it ends.

#include "core/base/assert.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint64_t batch_size_max = 16384;  // bytes written at once
constexpr uint32_t corked_count_max = 31;   // operations: as many as one write accepts
static_assert(batch_size_max >= sizeof(envelope) + inject_size_max);

}  // namespace

// Returns null if there is no memory.
operation *engine_core::make_operation(const envelope &head, std::span<const iovec> body) noexcept {
  TND_ASSERT(body.size() <= part_count_max);
  operation *const op = operations_.acquire();
  if (op == nullptr)
    return nullptr;
  op->head = head;
  op->part_count = uint32_t(body.size());
  std::ranges::copy(body, op->parts.begin());
  op->body_size = size_of(body);
  return op;
}

// Copies the body, so that the caller may reuse its memory. False: no memory.
bool engine_core::copy_body(operation &op) noexcept {
  TND_ASSERT(op.copy == nullptr && !op.is_queued);
  if (op.body_size == 0)
    return true;
  op.copy.reset(new (std::nothrow) std::byte[op.body_size]);
  if (op.copy == nullptr)
    return false;
  std::byte *destination = op.copy.get();
  for (iovec const &part : op.body()) {
    if (part.iov_len != 0)
      std::memcpy(destination, part.iov_base, part.iov_len);
    destination += part.iov_len;
  }
  op.copy_size = op.body_size;
  op.parts[0] = {op.copy.get(), op.body_size};
  op.part_count = 1;
  return true;
}

// Creates an operation of the program, with an ID if it waits for a reply. Null: no memory, and
// nothing was begun.
operation *engine_core::make_request(const envelope &head,
                                     std::span<const iovec> body,
                                     bool must_copy,
                                     bool expects_reply) noexcept {
  operation *const op = make_operation(head, body);
  if (op == nullptr)
    return nullptr;
  bool const has_copy = !must_copy || copy_body(*op);
  if (has_copy && expects_reply) {
    op->id = awaiting_reply_.add(op);
    op->head.id = op->id;
  }
  if (has_copy && (!expects_reply || op->id != 0))
    return op;
  operations_.release(op);
  return nullptr;
}

void engine_core::send_operation(link &peer_link, operation *op, bool can_delay) noexcept {
  if (!peer_link.batch.empty())
    flush_batch(peer_link);
  enqueue(peer_link, op, can_delay);
}

void engine_core::enqueue(link &peer_link, operation *op, bool can_delay) noexcept {
  TND_ASSERT(mutex_.is_locked());
  bool const was_empty = peer_link.first == nullptr;
  peer_link.push(op);
  if (can_delay && cork(peer_link, *op, was_empty))
    return;
  if (was_empty || peer_link.is_self || peer_link.is_corked)
    flush(peer_link);
}

// Holds back a queue so that its operations are sent together, in their order. Used for the replies
// of one drive, and for a put that another request follows. They are sent at the end of the drive,
// or when batches are flushed. Not used while the progress thread drives or callers sleep, because
// then no poll is about to follow. False: send at once.
bool engine_core::cork(link &peer_link, const operation &op, bool was_empty) noexcept {
  if (!is_driving_ && (progress_thread_.is_driving() || progress_thread_.has_sleepers()))
    return false;
  bool const could_go = peer_link.current_phase == link::phase::established &&
                        !peer_link.is_blocked && !peer_link.is_self &&
                        (was_empty || peer_link.is_corked);
  if (!could_go || (is_driving_ && op.body_size > small_body_size_max))
    return false;
  if (!std::exchange(peer_link.is_corked, true) || peer_link.only_delayed_acks) {
    if (std::exchange(peer_link.only_delayed_acks, false))
      std::erase(delayed_ack_links_, &peer_link);
    else
      peer_link.corked_count = 0;
    batched_links_.push_back(&peer_link);
  }
  return ++peer_link.corked_count < corked_count_max;
}

// Sends replies at the end of a drive. If all of them are ACKs, which are less urgent than data,
// they may wait for the program's next call.
void engine_core::flush_replies() noexcept {
  bool const may_wait =
      !has_reply_data_ && !progress_thread_.is_driving() && !progress_thread_.has_sleepers();
  if (!may_wait || !ack_batcher_.should_delay(clock_.now_ns()))
    flush_all_batches();
}

void engine_core::uncork(link &peer_link) noexcept {
  if (std::exchange(peer_link.is_corked, false))
    std::erase(
        std::exchange(peer_link.only_delayed_acks, false) ? delayed_ack_links_ : batched_links_,
        &peer_link);
}

// Delays an ACK that is not urgent, because a message of its own costs both sides as much as data.
// It is sent before the next message to the peer, with corked_count_max of them, after
// or after ack_delay_ns, which also ends a sleep of this side. False: send it now.
bool engine_core::delay_ack(link &peer_link, operation *op) noexcept {
  if (!peer_link.batch.empty())
    flush_batch(peer_link);
  bool const could_go = peer_link.current_phase == link::phase::established &&
                        !peer_link.is_blocked && !peer_link.is_self &&
                        (peer_link.first == nullptr || peer_link.is_corked);
  if (!could_go || progress_thread_.is_driving() || progress_thread_.has_sleepers())
    return false;
  count_reply(peer_link, op);
  peer_link.push(op);
  if (!std::exchange(peer_link.is_corked, true)) {
    peer_link.corked_count = 0;
    peer_link.only_delayed_acks = true;
    if (delayed_ack_links_.empty())
      acks_delayed_since_ns_ = clock_.now_ns();
    delayed_ack_links_.push_back(&peer_link);
  }
  if (++peer_link.corked_count >= corked_count_max)
    flush(peer_link);
  return true;
}

void engine_core::flush_delayed_acks() noexcept {
  while (!delayed_ack_links_.empty())
    flush(*delayed_ack_links_.back());
}

void engine_core::flush_due_acks(uint64_t now_ns) noexcept {
  if (!delayed_ack_links_.empty() &&
      (progress_thread_.is_driving() || now_ns >= acks_delayed_since_ns_ + ack_delay_ns))
    flush_delayed_acks();
}

void engine_core::add_to_batch(link &peer_link, const envelope &head, std::span<const iovec> body) {
  if (peer_link.batch.empty()) {
    peer_link.batch.reserve(batch_size_max + sizeof head +
                            inject_size_max);  // so that appending cannot fail half-way
    batched_links_.push_back(&peer_link);
    if (progress_thread_.is_driving() || progress_thread_.has_sleepers())
      set_->wake();
  }
  TND_ASSERT(peer_link.batch.size() + sizeof head + head.size <= peer_link.batch.capacity());
  auto const append = [&](const void *source, size_t size) {
    auto const *const bytes = static_cast<const std::byte *>(source);
    peer_link.batch.insert(peer_link.batch.end(), bytes, bytes + size);
  };
  append(&head, sizeof head);
  for (iovec const &part : body)
    append(part.iov_base, part.iov_len);
  if (peer_link.batch.size() >= batch_size_max)
    flush_batch(peer_link);
}

// Sends the batch as one operation, whose body contains the envelopes.
void engine_core::flush_batch(link &peer_link) noexcept {
  if (peer_link.is_corked)
    return flush(peer_link);
  std::erase(batched_links_, &peer_link);
  if (peer_link.batch.empty())
    return;
  iovec const body{peer_link.batch.data(), peer_link.batch.size()};
  operation *const op = make_operation({}, {&body, 1});
  if (op == nullptr)
    return set_out_of_memory();
  op->is_internal = true;
  op->is_batch = true;
  if (!copy_body(*op)) {
    operations_.release(op);
    return set_out_of_memory();
  }
  peer_link.batch.clear();
  enqueue(peer_link, op);
}

void engine_core::flush_all_batches() noexcept {
  while (!batched_links_.empty())
    flush_batch(*batched_links_.back());
}

// Frees an operation that waits for no reply, and completes it.
void engine_core::finish(operation *op, status code) noexcept {
  TND_ASSERT(op != nullptr && !op->is_queued);
  completion done = op->done;
  bool const is_wanted = !op->is_internal && (!op->errors_only || code != status::ok);
  operations_.release(op);
  done.code = code;
  if (is_wanted)
    complete(done);
}

}  // namespace tanada::o2g
