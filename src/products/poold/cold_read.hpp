// products/poold/cold_read.hpp: reads of cold objects: whole ones into memory, and ranges through
// buffers from which they are sent.
#pragma once

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/pool/memory_parts.hpp"
#include "products/poold/cold_store.hpp"
#include "products/poold/object.hpp"

namespace tanada::poold {

// Called from the journal's thread when a read has advanced. May be called later than needed.
using read_notice = std::function<void()>;

inline constexpr uint64_t cold_part_size = uint64_t{1} << 20;  // bytes of one request to the log
inline constexpr size_t cold_part_count_max = 4;               // requests under way for one read

// Reads all bytes of a cold object into memory, in several requests at a time.
class cold_load : public std::enable_shared_from_this<cold_load> {
 public:
  struct target {
    std::vector<iovec> parts;           // as large as the object
    std::shared_ptr<const void> owner;  // of this memory
  };
  // `notice` is called once, at the end.
  cold_load(std::shared_ptr<cold_reader> reader, target memory, read_notice notice);

  void start();
  bool is_done() const;
  status outcome() const;
  // Valid after a success.
  logged_checksum checksum() const {
    return reader_->checksum();
  }

 private:
  void post_next();
  void finish_part(status code);

  std::shared_ptr<cold_reader> const reader_;
  std::shared_ptr<const void> const owner_;
  read_notice const notice_;
  mutable mutex mutex_;
  pool::part_cursor rest_ TND_GUARDED_BY(mutex_);  // not requested yet
  uint64_t posted_size_ TND_GUARDED_BY(mutex_) = 0;
  size_t pending_count_ TND_GUARDED_BY(mutex_) = 0;
  status outcome_ TND_GUARDED_BY(mutex_) = status::ok;
};

// Bounds the memory of all buffers. Thread-safe.
class read_budget {
 public:
  explicit read_budget(uint64_t size) : size_{size} {}
  bool acquire(uint64_t amount) noexcept;
  void release(uint64_t amount) noexcept {
    used_.fetch_sub(amount, std::memory_order_relaxed);
  }
  uint64_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }

  // A sixteenth of the pool's memory, within bounds.
  static uint64_t size_for(uint64_t capacity) noexcept;

 private:
  uint64_t const size_;
  std::atomic<uint64_t> used_{0};
};

// Reads ranges of a cold object, ahead of the bytes that have been sent. Used by one thread, but
// for the completions of its requests.
//
// With a share of the budget it has several parts of cold_part_size under way. Without, one of
// small_part_size: then only parts that were sent are checked, and the end of the connection
// reports damage.
class cold_stream {
 public:
  static constexpr uint64_t small_part_size = uint64_t{64} << 10;

  struct selection {
    std::shared_ptr<cold_reader> reader;
    std::vector<wire::pool::range> ranges;
    bool is_whole = false;  // they are all bytes of the object: their checksum is compared
  };
  // `budget` may be null: no limit. `is_lone`: a stream without a share of the budget is allowed.
  // busy: there is no budget.
  static result<std::shared_ptr<cold_stream>> create(selection source,
                                                     std::shared_ptr<read_budget> budget,
                                                     bool is_lone,
                                                     read_notice notice);
  ~cold_stream();

  // Post the first requests.
  void start() {
    post_parts();
  }
  uint64_t size() const noexcept {
    return total_size_;
  }
  // All that is read ahead of the first byte has been read, or has failed.
  bool is_window_read() const;
  // Call it before the first byte is sent. Compares the checksum if all bytes have been read.
  // corrupt: they do not match it. Else the status of a failed request.
  status check_window();
  // All bytes are in the parts that have been read.
  bool is_complete() const {
    return posted_size_ == total_size_ && sent_size_ == 0 && is_window_read();
  }
  // Copy all bytes of a complete stream.
  void copy_to(std::span<const iovec> parts) const;

  // The status of the next bytes to be sent: ok; again: they have not been read; else what has
  // failed.
  status next_state();
  // Add bytes that have been read, at most `size_max`. Returns whether that is all of the rest.
  bool add_to(pool::part_list &list, uint64_t size_max);
  // `size` more bytes were sent. Returns how many of them are past the end.
  uint64_t advance(uint64_t size);
  bool is_at_end() const noexcept {
    return sent_size_ == total_size_;
  }

 private:
  struct part {
    struct deleter {
      void operator()(std::byte *bytes) const noexcept {
        std::free(bytes);
      }
    };
    explicit part(uint64_t part_size);
    std::unique_ptr<std::byte, deleter> bytes;
    uint64_t size, sent_size = 0;
    std::atomic<uint32_t> pending_count{0};
    std::atomic<status> code{status::ok};
    bool is_summed = false;

    bool is_read() const noexcept {
      return pending_count.load(std::memory_order_acquire) == 0;
    }
  };

  cold_stream(selection source, std::shared_ptr<read_budget> budget, read_notice notice);
  void post_parts();
  void post_part();
  status check_part(part &target);

  selection source_;
  std::shared_ptr<read_budget> const budget_;
  read_notice const notice_;
  uint64_t part_size_ = small_part_size, charged_size_ = 0;
  size_t part_count_max_ = 1;
  uint64_t total_size_ = 0, posted_size_ = 0, sent_size_ = 0;
  size_t range_ = 0;           // the position of the next request
  uint64_t range_offset_ = 0;  // in the range
  std::deque<std::shared_ptr<part>> parts_;
  std::unique_ptr<pool::checksum> sum_;  // of the parts that were checked
  uint64_t summed_size_ = 0;
};

}  // namespace tanada::poold
