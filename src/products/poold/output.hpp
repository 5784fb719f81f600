// products/poold/output.hpp: the queue of replies to be sent to a client.
#pragma once

#include <deque>
#include <vector>

#include "products/pool/memory_parts.hpp"
#include "products/poold/cold_read.hpp"
#include "products/poold/object.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::poold {

class output {
 public:
  ~output() {
    clear();
  }
  void clear();  // drop everything that was not sent
  bool empty() const noexcept {
    return items_.empty();
  }
  uint64_t size() const noexcept {
    return size_;
  }  // bytes of frames and of lists of parts, without objects' bytes

  // Queue a frame, followed by `parts`, the memory of `hold`, which is referenced until they are
  // sent. `descriptor`, if not -1, is sent along; the queue owns and closes it.
  void add(std::vector<std::byte> frame,
           std::vector<iovec> parts = {},
           object_ref hold = {},
           int descriptor = -1);

  // Queue a frame, followed by the bytes of a stream, as they are read.
  void add_stream(std::vector<std::byte> frame, std::shared_ptr<cold_stream> stream);

  // The next bytes are still being read.
  bool is_reading() const;

  // Replies queued from now on are not sent before this position is settled. See cluster_gate.
  void set_barrier(uint64_t position) noexcept {
    barrier_ = position;
  }
  // The position that the first reply waits for.
  uint64_t first_barrier() const noexcept {
    return items_.empty() ? 0 : items_.front().barrier;
  }

  // Send up to `budget` bytes without blocking, and add the number of bytes sent to `moved`. ok:
  // everything that is settled and read, or the budget, was sent. again: the socket is full.
  // peer_lost: the connection ended. fault: bytes of an object are lost, so that what was sent of
  // it is invalid.
  status flush(seams::stream &stream,
               uint64_t budget,
               uint64_t &moved,
               uint64_t settled_position = ~uint64_t{0});

 private:
  struct item {
    std::vector<std::byte> frame;
    pool::part_cursor data;
    object_ref hold;
    int descriptor = -1;
    uint64_t barrier = 0;
    uint64_t frame_sent = 0;                   // bytes
    std::shared_ptr<cold_stream> stream = {};  // its bytes follow those of `data`
    bool is_sent() const {
      return frame_sent == frame.size() && data.is_at_end() &&
             (stream == nullptr || stream->is_at_end());
    }
    // The status of the bytes that are sent next: ok, again (they are being read), or an error.
    status next_state() const;
  };
  pool::part_list collect_parts(uint64_t budget, uint64_t settled_position) const;
  bool consume_sent(uint64_t size);

  std::deque<item> items_;
  uint64_t barrier_ = 0;
  uint64_t size_ = 0;
};

}  // namespace tanada::poold
