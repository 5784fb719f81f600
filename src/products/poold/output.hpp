// products/poold/output.hpp: answers on their way to a client.
#pragma once

#include <deque>
#include <vector>

#include "products/poold/object.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::poold {

class output {
 public:
  ~output() {
    clear();
  }
  void clear();  // nothing of it is sent any more
  bool empty() const noexcept {
    return items_.empty();
  }
  uint64_t size() const noexcept {
    return size_;
  }  // bytes of frames and of lists of parts, without objects' own

  // `parts` are memory of `hold`, which is kept until they are sent. `descriptor`, if not -1, is
  // taken over and goes along.
  void add(std::vector<std::byte> frame, std::vector<iovec> parts = {}, object_ref hold = {},
           int descriptor = -1);

  // Send what can be sent, `budget` bytes at most. ok: all is sent, or the budget; again: no room;
  // peer_lost; fault: bytes of an object are gone, and what was sent of it is worth nothing.
  // `moved` gets the bytes sent.
  status flush(port::stream &to, uint64_t budget, uint64_t &moved);

 private:
  struct item {
    std::vector<std::byte> frame;
    std::vector<iovec> parts;
    object_ref hold;
    int descriptor = -1;
    uint64_t frame_sent = 0;  // bytes
    size_t part = 0;          // the first that is not sent as a whole; its beginning moves on
  };
  size_t gather(std::vector<iovec> &parts, uint64_t budget) const;
  bool sent(uint64_t size);

  std::deque<item> items_;
  uint64_t size_ = 0;
};

}  // namespace tanada::poold
