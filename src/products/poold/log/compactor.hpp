// products/poold/log/compactor.hpp: makes room: files that nothing needs go, and what lives in the
// emptiest is moved.
#pragma once

#include "products/poold/log/writer.hpp"

namespace tanada::pool {

// One file at a time: copy what it is still needed for to the log's end, batch by batch, until
// nothing is left; make sure that a synced record says that all the file held was synced; unlink
// it, and wait until that holds.
class compactor {
 public:
  compactor(log_state &state, writer &writer, port::clock &clock)
      : state_{state}, writer_{writer}, clock_{clock} {}

  void advance();

  bool idle() const noexcept {
    return phase_ == phase::idle;
  }
  // Whether it is making room or could do so now.
  bool can_gain() const;
  // When to look again after a failure, in the clock's time.
  uint64_t retry_ns() const noexcept;

 private:
  enum class phase { idle, ready, copying, removing };
  struct batch {
    std::vector<fact> facts;
    block_buffer buffer;
    std::vector<uint64_t> offsets;  // of the puts' data in the buffer
    uint32_t reads_left = 0, records_left = 0;
    status code = status::ok;
  };

  void begin();
  std::shared_ptr<log_file> choose() const;
  bool worth_it(const log_file &file, uint64_t room) const;
  void copy(std::vector<fact> facts);
  void read(const std::shared_ptr<batch> &what);
  void drop_damaged(batch &what);
  void write(const std::shared_ptr<batch> &what);
  void submit(const std::shared_ptr<batch> &what, size_t begin, size_t end);
  void mark();
  void remove();
  void note_gain();
  void fail(status code, const char *what);

  log_state &state_;
  writer &writer_;
  port::clock &clock_;
  phase phase_ = phase::idle;
  std::shared_ptr<log_file> victim_;
  uint64_t retry_ns_ = 0;
  uint64_t urgent_retry_ns_ = 0;  // where the store is full: removals use up the reserve meanwhile
  uint64_t looked_sequence_ = ~uint64_t{0},
           looked_size_ = 0;  // of the log when nothing was worth it
  // As the log's content_count: with which lowest_size_ was the log's after a compaction, and with
  // which another one did not come below that.
  uint64_t compared_content_ = ~uint64_t{0}, barren_content_ = ~uint64_t{0};
  uint64_t lowest_size_ = ~uint64_t{0};  // bytes
};

}  // namespace tanada::pool
