// backends/sockets/ring_stream.cc: bytes through rings, and the wake-ups of sleeping sides.
#include "backends/sockets/ring_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/bulk_copy.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t capacity = ring_memory::capacity;
constexpr size_t ring_descriptor_count_max = 1024;  // received and not taken yet
constexpr uint64_t large_part_size = 1024;
constexpr uint64_t piece_size = 4096;  // bytes copied before the peer sees them

}  // namespace

ring_stream::ring_stream(std::unique_ptr<seams::stream> socket,
                         std::shared_ptr<ring_memory> memory,
                         const ring_settings &settings)
    : socket_{std::move(socket)},
      memory_{std::move(memory)},
      settings_{settings},
      incoming_{memory_->state(settings.side == ring_side::creator ? 0 : 1)},
      outgoing_{memory_->state(settings.side == ring_side::creator ? 1 : 0)},
      incoming_bytes_{memory_->bytes(settings.side == ring_side::creator ? 0 : 1)},
      outgoing_bytes_{memory_->bytes(settings.side == ring_side::creator ? 1 : 0)},
      spinner_{settings.spin_ns} {
  TND_ASSERT(socket_ != nullptr && socket_->is_local());
}

ring_stream::~ring_stream() {
  for (int const received : descriptors_)
    close(received);
}

bool ring_stream::has_input() const noexcept {
  return incoming_.tail.load(std::memory_order_acquire) != head_;
}

// The peer stores its position, then reads the flag; this side stores the flag, then reads the
// position. In one total order of these, at least one of the two sees the other's store.
bool ring_stream::arm() noexcept {
  is_armed_ = true;
  incoming_.receiver_waits.store(1, std::memory_order_seq_cst);
  if (incoming_.tail.load(std::memory_order_seq_cst) == head_)
    return true;
  disarm();
  return false;
}

// If the peer has reset the flag, its byte is in the socket, or will be: then remove it.
void ring_stream::disarm() {
  if (!is_armed_)
    return;
  is_armed_ = false;
  if (incoming_.receiver_waits.exchange(0, std::memory_order_relaxed) == 0)
    (void)drain();
}

void ring_stream::wake_peer() noexcept {
  std::byte byte{};
  iovec const part{&byte, 1};
  // With a full socket, the peer has bytes to wake up by.
  (void)socket_->send({&part, 1}, -1);
}

// Receives all bytes from the socket, which only wake up, and the descriptors. peer_lost: the
// connection has ended, and so has the stream after the bytes in the ring.
status ring_stream::drain() {
  while (!is_ended_) {
    std::byte bytes[64];
    iovec const part{bytes, sizeof bytes};
    auto const size = socket_->receive({&part, 1});
    for (int received = socket_->take_descriptor(); received >= 0;
         received = socket_->take_descriptor()) {
      if (settings_.accepts_descriptors && descriptors_.size() < ring_descriptor_count_max)
        descriptors_.push_back(received);
      else
        close(received);
    }
    if (size.ok())
      continue;
    if (size.error() == status::again)
      return status::ok;
    is_ended_ = true;
  }
  return status::peer_lost;
}

// Copies at most `size` bytes to the parts, and returns how many.
uint64_t ring_stream::copy_out(std::span<const iovec> parts, uint64_t size) noexcept {
  uint64_t received = 0;
  for (const iovec &part : parts) {
    uint64_t const part_size = std::min<uint64_t>(part.iov_len, size - received);
    auto *const target = static_cast<std::byte *>(part.iov_base);
    uint64_t const position = (head_ + received) % capacity;
    uint64_t const first = std::min(part_size, capacity - position);
    if (first > 0) {
      seams::fetch_from_other_processor(incoming_bytes_ + position, first);
      std::memcpy(target, incoming_bytes_ + position, first);
    }
    if (first < part_size)
      std::memcpy(target + first, incoming_bytes_, part_size - first);
    received += part_size;
  }
  return received;
}

result<size_t> ring_stream::receive(std::span<const iovec> parts) {
  disarm();
  uint64_t size = incoming_.tail.load(std::memory_order_acquire) - head_;
  if (size == 0 && !settings_.checks_socket && !std::exchange(has_event_, false))
    return is_ended_ ? status::peer_lost : status::again;
  if (size == 0) {
    status const code = drain();
    // The peer may have sent more before its end.
    size = incoming_.tail.load(std::memory_order_acquire) - head_;
    if (size == 0)
      return code == status::ok ? status::again : code;
  }
  if (size > capacity) {
    if (std::exchange(is_ended_, true))
      return status::peer_lost;
    return fail(status::peer_lost, "{}: the state of its ring is invalid", socket_->peer());
  }
  uint64_t const received = copy_out(parts, size);
  head_ += received;
  incoming_.head.store(head_, std::memory_order_seq_cst);
  if (incoming_.sender_waits.load(std::memory_order_seq_cst) != 0 &&
      incoming_.sender_waits.exchange(0, std::memory_order_relaxed) != 0)
    wake_peer();
  return size_t(received);
}

// The free bytes of the outgoing ring. A peer with an invalid position has ended.
uint64_t ring_stream::space() noexcept {
  if (tail_ - peer_head_ < capacity)
    return capacity - (tail_ - peer_head_);
  uint64_t const head = outgoing_.head.load(std::memory_order_seq_cst);
  if (tail_ - head > capacity) {
    is_ended_ = true;
    return 0;
  }
  peer_head_ = head;
  return capacity - (tail_ - peer_head_);
}

bool ring_stream::has_space_now() noexcept {
  return outgoing_.head.load(std::memory_order_acquire) != peer_head_ ||
         tail_ - peer_head_ < capacity;
}

// Makes the bytes up to tail_ visible to the peer, and wakes it if it sleeps.
void ring_stream::publish() noexcept {
  outgoing_.tail.store(tail_, std::memory_order_seq_cst);
  if (outgoing_.receiver_waits.load(std::memory_order_seq_cst) != 0 &&
      outgoing_.receiver_waits.exchange(0, std::memory_order_relaxed) != 0)
    wake_peer();
}

void ring_stream::copy_in(const std::byte *source, uint64_t size) noexcept {
  uint64_t const position = tail_ % capacity;
  uint64_t const first = std::min(size, capacity - position);
  if (first > 0)
    std::memcpy(outgoing_bytes_ + position, source, first);
  if (first < size)
    std::memcpy(outgoing_bytes_, source + first, size - first);
  tail_ += size;
}

// The peer sees what precedes a large part, and then each piece of it, while the rest is being
// copied: it processes a request before all of its data is there. Only the end looks whether the
// peer sleeps.
void ring_stream::send_parts(std::span<const iovec> parts, uint64_t size) noexcept {
  for (const iovec &part : parts) {
    auto const *source = static_cast<const std::byte *>(part.iov_base);
    uint64_t remaining = std::min<uint64_t>(part.iov_len, size);
    size -= remaining;
    bool const is_large = remaining >= large_part_size;
    while (remaining > 0) {
      if (is_large)
        outgoing_.tail.store(tail_, std::memory_order_release);
      uint64_t const piece = std::min(remaining, piece_size);
      copy_in(source, piece);
      source += piece;
      remaining -= piece;
    }
  }
  publish();
}

result<size_t> ring_stream::send(std::span<const iovec> parts, int descriptor) {
  if (is_blocked_)
    (void)drain();
  is_blocked_ = false;
  awaits_socket_ = false;
  uint64_t available = space();
  if (available == 0 && !is_ended_) {
    outgoing_.sender_waits.store(1, std::memory_order_seq_cst);
    available = space();
  }
  if (is_ended_)
    return status::peer_lost;
  if (available == 0) {
    is_blocked_ = true;
    return status::again;
  }
  if (descriptor >= 0) {
    std::byte byte{};
    iovec const part{&byte, 1};
    auto const sent = socket_->send({&part, 1}, descriptor);
    if (!sent.ok()) {
      awaits_socket_ = sent.error() == status::again;
      return sent.error();
    }
  }
  uint64_t total = 0;
  for (const iovec &part : parts)
    total += part.iov_len;
  uint64_t const size = std::min(total, available);
  send_parts(parts, size);
  return size_t(size);
}

int ring_stream::take_descriptor() {
  if (descriptors_.empty())
    (void)drain();
  if (descriptors_.empty())
    return -1;
  int const first = descriptors_.front();
  descriptors_.pop_front();
  return first;
}

// Space in the ring is announced by a byte over the socket.
seams::stream::events ring_stream::events_for(events wanted) const noexcept {
  bool const awaits_space = wanted.to_send && !awaits_socket_;
  return {wanted.to_receive || awaits_space, wanted.to_send && awaits_socket_};
}

bool ring_stream::is_ready(bool to_receive, bool to_send) noexcept {
  return (to_receive && has_input()) || (to_send && !awaits_socket_ && has_space_now());
}

status ring_stream::wait(bool to_receive, bool to_send, uint64_t deadline_ns) {
  if (is_ended_ || is_ready(to_receive, to_send))
    return status::ok;
  if (spinner_.spin(deadline_ns, [&] { return is_ready(to_receive, to_send); }))
    return status::ok;
  if (to_receive && !arm())
    return status::ok;
  if (to_send && !awaits_socket_) {
    outgoing_.sender_waits.store(1, std::memory_order_seq_cst);
    if (outgoing_.head.load(std::memory_order_seq_cst) != peer_head_)
      return status::ok;
  }
  status const code = socket_->wait(true, awaits_socket_, deadline_ns);
  is_armed_ = false;
  incoming_.receiver_waits.store(0, std::memory_order_relaxed);
  (void)drain();
  return code;
}

}  // namespace tanada::backends
