// backends/sockets/ring_stream.hpp: a stream through shared memory, beside a UNIX socket.
//
// Bytes travel through two rings. After some fruitless polls a side sleeps in the kernel, and the
// other one wakes it by a byte over the socket. Descriptors travel over the socket, too, each
// before the bytes that it belongs to. The socket ends with either process, and the stream with it,
// once the bytes in the ring were received.
#pragma once

#include <deque>
#include <memory>

#include "backends/sockets/ring_memory.hpp"
#include "backends/sockets/spin.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::backends {

// The side that created the rings, and the one that received their descriptor.
enum class ring_side : uint8_t { creator, joiner };

struct ring_settings {
  ring_side side = ring_side::creator;
  uint64_t spin_ns = 0;              // how long wait() polls before it sleeps
  bool accepts_descriptors = false;  // else those that the peer sends are closed
  // receive() looks for the end of the connection whenever it has no bytes, which takes a system
  // call. Otherwise only after note_event().
  bool checks_socket = false;
};

class ring_stream final : public seams::stream {
 public:
  // `socket` is a connected UNIX socket. Both sides create the stream once they have received all
  // that was sent over the socket before.
  ring_stream(std::unique_ptr<seams::stream> socket,
              std::shared_ptr<ring_memory> memory,
              const ring_settings &settings);
  ~ring_stream() override;

  // Bytes have arrived, or the peer's state is invalid, which receive() reports. Takes a load.
  bool has_input() const noexcept;

  // The socket is readable.
  void note_event() noexcept {
    has_event_ = true;
  }

  // Before a sleep until the socket is readable. False: bytes have arrived, so do not sleep.
  bool arm() noexcept;

  result<size_t> receive(std::span<const iovec> parts) override;
  result<size_t> send(std::span<const iovec> parts, int descriptor) override;
  int take_descriptor() override;
  status wait(bool to_receive, bool to_send, uint64_t deadline_ns) override;
  int descriptor() const noexcept override {
    return socket_->descriptor();
  }
  events events_for(events wanted) const noexcept override;
  bool is_local() const noexcept override {
    return true;
  }
  std::string peer() const override {
    return socket_->peer();
  }
  std::optional<uint32_t> peer_user() const override {
    return socket_->peer_user();
  }
  std::string peer_host() const override {
    return socket_->peer_host();
  }

 private:
  status drain();
  void disarm();
  uint64_t space() noexcept;
  bool has_space_now() noexcept;
  bool is_ready(bool to_receive, bool to_send) noexcept;
  uint64_t copy_out(std::span<const iovec> parts, uint64_t size) noexcept;
  void copy_in(const std::byte *source, uint64_t size) noexcept;
  void send_parts(std::span<const iovec> parts, uint64_t size) noexcept;
  void publish() noexcept;
  void wake_peer() noexcept;

  std::unique_ptr<seams::stream> const socket_;
  std::shared_ptr<ring_memory> const memory_;
  ring_settings const settings_;
  ring_state &incoming_, &outgoing_;
  std::byte *const incoming_bytes_, *const outgoing_bytes_;
  uint64_t head_ = 0;           // of `incoming_`
  uint64_t tail_ = 0;           // of `outgoing_`
  uint64_t peer_head_ = 0;      // of `outgoing_`, when it was last read
  bool is_armed_ = false;       // the peer may have sent a byte over the socket
  bool is_blocked_ = false;     // the last send had no space
  bool awaits_socket_ = false;  // ... for a descriptor, in the socket
  bool has_event_ = false;      // the socket was reported to be readable
  bool is_ended_ = false;
  spinner spinner_;
  std::deque<int> descriptors_;
};

}  // namespace tanada::backends
