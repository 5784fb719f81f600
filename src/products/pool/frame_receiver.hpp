// products/pool/frame_receiver.hpp: one direction of a connection between a client of the pool and
// its daemon: frames, and the data that follow them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "products/pool/memory_parts.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::pool {

// The largest sizes that the peer may announce at present.
struct frame_limits {
  size_t body_size_max = wire::pool::body_size_max;
  uint64_t data_size_max = wire::pool::object_size_max;
};

struct received_frame {
  wire::pool::frame head;
  std::span<const std::byte> body;  // valid until the next receive()
};

// Bodies of at most this size fit in the small buffer.
inline constexpr size_t small_body_size_max = 4096 - sizeof(wire::pool::frame);

// A state machine over a non-blocking stream. The bytes are untrusted. The caller alternates
// receive(), which never parses, with next() and store_data(), which never receive, so that it can
// limit the work of one turn. Descriptors that arrive along stay with the stream. Used by one
// thread at a time.
class frame_receiver {
 public:
  explicit frame_receiver(const frame_limits &limits);

  // Applies to frames that next() has not returned yet.
  void set_limits(const frame_limits &limits);

  struct arrival {
    uint64_t size = 0;        // bytes taken from the connection
    uint64_t data_size = 0;   // of these, stored in the data's destination
    bool is_drained = false;  // the connection had fewer bytes than fit
  };

  // Receives once: the data of the current frame into their destination, and what follows them into
  // the buffer. again, peer_lost, fault: as for stream::receive; nothing was received. After
  // `fault`, the caller may skip_data() and receive the same bytes again.
  result<arrival> receive(seams::stream &connection);

  // The next frame. again: its body has not arrived completely. protocol: it is no frame, or larger
  // than the limits; the connection is to be closed. Bytes that cannot begin a frame are refused
  // before a frame's size has arrived. All data of the frame before must have been
  // received.
  result<received_frame> next();

  // Set the destination of the current frame's data. Without one, and past its end, data are
  // skipped.
  void set_destination(std::vector<iovec> parts);
  // Release the destination's memory; the rest of the data is skipped.
  void skip_data();
  // Move data from the buffer to their destination. Returns how many bytes were stored.
  uint64_t store_data();
  // Bytes of the current frame's data that are neither stored nor skipped.
  uint64_t remaining_data_size() const noexcept {
    return remaining_data_size_;
  }

  // The bytes that next() has refused begin an HTTP response.
  bool has_http_response() const noexcept;

  // No byte of an incomplete frame, or of one that next() has not returned, was received.
  bool is_idle() const noexcept {
    return begin_ == end_ && remaining_data_size_ == 0;
  }
  // Makes the buffer small again. Only if is_idle().
  void shrink_buffer();

 private:
  void make_space();

  frame_limits limits_;
  std::vector<std::byte> buffer_;  // grows once it was full
  size_t begin_ = 0, end_ = 0;     // of the bytes in the buffer that are not parsed yet
  part_cursor destination_;
  uint64_t remaining_data_size_ = 0;
};

}  // namespace tanada::pool
