// products/poold/log/compactor.hpp: frees space by removing files that are not needed any more, and
// by copying the live objects of the emptiest ones.
#pragma once

#include "products/poold/log/writer.hpp"

namespace tanada::pool {

// Compacts one file at a time. Copies the changes that are still needed to the log's end, in
// batches. Then ensures that a synced record marks all records of the file as synced. Finally
// unlinks the file, and waits until that is durable.
class compactor {
 public:
  compactor(log_state &state, writer &writer, seams::clock &clock)
      : state_{state}, writer_{writer}, clock_{clock} {}

  void advance();

  bool is_idle() const noexcept {
    return phase_ == phase::idle;
  }
  // Whether it is freeing space, or could start to.
  bool can_gain() const;
  // When to try again after a failure, a time of the clock.
  uint64_t retry_ns() const noexcept;

 private:
  enum class phase { idle, ready, copying, removing };
  struct batch {
    std::vector<log_entry> entries;
    block_buffer buffer;
    std::vector<uint64_t> offsets;  // of each entry's data in the buffer, and the end
    uint32_t pending_read_count = 0, pending_record_count = 0;
    status code = status::ok;
  };

  void choose_victim();
  std::shared_ptr<log_file> find_victim() const;
  bool is_worthwhile(const log_file &file, uint64_t free_size) const;
  bool gains_enough(const log_file &file, uint64_t needed, uint64_t free_size) const;
  bool must_compact() const;
  void copy(std::vector<log_entry> entries);
  void read(const std::shared_ptr<batch> &work);
  void on_read_done(const std::shared_ptr<batch> &work, status code);
  void drop_damaged(batch &work);
  void write(const std::shared_ptr<batch> &work);
  void submit(const std::shared_ptr<batch> &work, size_t begin, size_t end);
  void on_record_done(batch &work, status code);
  void mark();
  void remove();
  void record_gain();
  void fail(status code, const char *action);

  log_state &state_;
  writer &writer_;
  seams::clock &clock_;
  phase phase_ = phase::idle;
  std::shared_ptr<log_file> victim_;
  uint64_t retry_ns_ = 0;
  uint64_t urgent_retry_ns_ = 0;  // in a full store, whose reserve removals use up meanwhile
  uint64_t checked_sequence_ = ~uint64_t{0},
           checked_size_ = 0;  // of the log at the last choice of a file
  // Values of the log's content_count: when lowest_size_ was last reset, and when a compaction last
  // failed to get below it.
  uint64_t compared_count_ = ~uint64_t{0}, fruitless_count_ = ~uint64_t{0};
  uint64_t lowest_size_ = ~uint64_t{0};  // bytes of the log after a compaction
};

}  // namespace tanada::pool
