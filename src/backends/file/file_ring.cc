// backends/file/file_ring.cc: a store queue that submits transfers through io_uring.
#include "backends/file/file_ring.hpp"

#include <liburing.h>
#include <sys/uio.h>

#include <bit>
#include <deque>

#include "backends/file/io_vectors.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/store_op_check.hpp"

namespace tanada::backends {
namespace {

constexpr uint32_t ring_entries_max = 256;  // in the kernel at a time; deeper queues keep the rest
                                            // in a backlog
constexpr uint32_t unsent_count_max = 16;
static_assert(std::has_single_bit(ring_entries_max) && unsent_count_max <= ring_entries_max);
constexpr uint64_t cached_read_size_max = 64u << 10;
constexpr uint64_t abandon_ns = 2'000'000'000;
constexpr uint64_t no_deadline_ns = ~uint64_t{0};

// A ring may reuse memory of a ring that another thread destroyed. The kernel orders the two; this
// mutex makes that order visible to the memory model, and to ThreadSanitizer, which does not see
// liburing's system calls.
tanada::mutex &ring_memory() {
  static tanada::mutex mutex;
  return mutex;
}

void ring_destroy(io_uring &ring) {
  lock_guard lock{ring_memory()};
  io_uring_queue_exit(&ring);
}

struct transfer {
  seams::store_op op;
  std::shared_ptr<local_file> file;
  io_vectors remaining;
  uint64_t size = 0;   // bytes requested
  uint64_t moved = 0;  // bytes
  bool direct = false;
  bool cancelled = false;  // past its deadline; a cancel was submitted to the kernel
};

class file_ring_queue final : public seams::store_queue {
 public:
  file_ring_queue(std::shared_ptr<ring_engine> engine,
                  std::unique_ptr<seams::store_queue> metadata,
                  uint32_t depth,
                  std::unique_ptr<io_uring> ring)
      : engine_{std::move(engine)},
        metadata_{std::move(metadata)},
        ring_{std::move(ring)},
        depth_{depth},
        ring_count_max_{std::min(depth, ring_entries_max)} {}

  ~file_ring_queue() override;
  status post(seams::store_op op) override;
  size_t poll(std::span<seams::store_completion> completions) override;
  bool try_perform(const seams::store_op &op, seams::store_completion &completion) override;
  void try_read_each(seams::store_file file, std::span<seams::store_read> reads) override {
    if (!engine_->try_read_each(file, reads))
      store_queue::try_read_each(file, reads);
  }
  // Rings are polled.
  void set_listener(std::function<void()> listener) override {
    metadata_->set_listener(std::move(listener));
  }
  bool is_listened() const noexcept override {
    return active_ == 0 && done_.empty() && metadata_->is_listened();
  }
  size_t pending_count() const noexcept override {
    return active_ + done_.size() + metadata_->pending_count();
  }

 private:
  std::shared_ptr<local_file> find_file(const seams::store_op &op) const;
  bool try_read_cached(const local_file &file,
                       const seams::store_op &op,
                       seams::store_completion &completion);
  bool is_direct(const transfer &request) const;
  transfer &acquire();
  bool prepare(transfer &request);
  void send() noexcept;
  void send_backlog();
  void reap();
  void handle_result(transfer &request, int moved);
  void handle_error(transfer &request, int number);
  void finish(transfer &request, status code);
  void expire(uint64_t now_ns);

  std::shared_ptr<ring_engine> engine_;
  std::unique_ptr<seams::store_queue> metadata_;
  std::unique_ptr<io_uring> ring_;
  size_t depth_;
  size_t ring_count_max_;
  size_t ring_count_ = 0;  // transfers in the kernel
  size_t active_ = 0;
  std::vector<std::unique_ptr<transfer>> transfers_;
  std::vector<transfer *> free_;
  std::deque<transfer *> backlog_;  // submitted when the ring has space
  std::deque<seams::store_completion> done_;
  uint64_t expire_at_ns_ = no_deadline_ns;
};

transfer &file_ring_queue::acquire() {
  active_++;
  if (free_.empty()) {
    transfers_.push_back(std::make_unique<transfer>());
    return *transfers_.back();
  }
  auto &request = *free_.back();
  free_.pop_back();
  TND_ASSERT(request.file == nullptr && active_ <= transfers_.size());
  return request;
}

// Returns the file if its descriptor can serve this operation through the ring.
std::shared_ptr<local_file> file_ring_queue::find_file(const seams::store_op &op) const {
  bool const reads =
      op.kind == seams::store_op_kind::read && !engine_->reader().on_device(op.buffers);
  bool const changes =
      op.kind == seams::store_op_kind::write || op.kind == seams::store_op_kind::sync;
  if (!reads && !changes)
    return nullptr;
  auto file = engine_->find(op.file);
  return file && (reads || file->writable) ? file : nullptr;
}

// Whether a transfer bypasses the page cache.
bool file_ring_queue::is_direct(const transfer &request) const {
  auto const &op = request.op;
  auto const &reader = engine_->reader();
  switch (op.kind) {
    case seams::store_op_kind::read:
      return reader.reads_direct(*request.file, op.offset, op.buffers);
    case seams::store_op_kind::write:
      return reader.writes_direct(*request.file, op.offset, op.buffers);
    default:
      return false;
  }
}

status file_ring_queue::post(seams::store_op op) {
  if (pending_count() >= depth_)
    return status::again;
  auto file = find_file(op);
  if (!file)
    return metadata_->post(std::move(op));
  TND_TRY(seams::op_check(op, engine_->scheme()));
  auto &request = acquire();
  request.op = std::move(op);
  bool const moves = request.op.kind != seams::store_op_kind::sync;
  request.size = moves ? seams::buffers_size(request.op.buffers) : 0;
  request.file = std::move(file);
  bool const is_late = request.op.deadline_ns != no_deadline_ns &&
                       seams::monotonic_clock().now_ns() >= request.op.deadline_ns;
  if (is_late || (moves && request.size == 0)) {
    finish(request, is_late ? status::timed_out : status::ok);
    return status::ok;
  }
  request.remaining = moves ? io_vectors{request.op.buffers} : io_vectors{};
  request.direct = is_direct(request);
  expire_at_ns_ = std::min(expire_at_ns_, request.op.deadline_ns);
  if (!backlog_.empty() || !prepare(request))
    backlog_.push_back(&request);
  if (io_uring_sq_ready(ring_.get()) >= unsent_count_max)
    send();
  return status::ok;
}

// Copies to and from in-memory files do not wait, and a ring would pass each copy to a kernel
// thread.
bool file_ring_queue::try_perform(const seams::store_op &op, seams::store_completion &completion) {
  if (op.kind == seams::store_op_kind::open || op.kind == seams::store_op_kind::close)
    return engine_->try_perform(op, completion);
  if (op.kind != seams::store_op_kind::read && op.kind != seams::store_op_kind::write)
    return false;
  auto const file = engine_->find(op.file);
  if (!file || engine_->reader().on_device(op.buffers))
    return false;
  if (!file->in_memory)
    return op.kind == seams::store_op_kind::read && try_read_cached(*file, op, completion);
  if (op.kind == seams::store_op_kind::write && !file->writable)
    return false;
  completion.op_id = op.op_id;
  completion.code = seams::op_check(op, engine_->scheme());
  if (completion.code != status::ok)
    return true;
  completion.code = op.kind == seams::store_op_kind::read
                        ? engine_->read(op.file, op.offset, op.buffers, completion.size)
                        : engine_->write(op.file, op.offset, op.buffers, completion.size);
  return true;
}

// Serves a small read from the page cache if all of it is cached. A ring costs more than the copy.
bool file_ring_queue::try_read_cached(const local_file &file,
                                      const seams::store_op &op,
                                      seams::store_completion &completion) {
  uint64_t const size = seams::buffers_size(op.buffers);
  if (file.direct_fd >= 0 || size == 0 || size > cached_read_size_max)
    return false;
  if (seams::op_check(op, engine_->scheme()) != status::ok)
    return false;
  io_vectors remaining{op.buffers};
  uint64_t moved = 0;
  while (moved < size) {
    ssize_t const got = preadv2(file.fd,
                                remaining.next(),
                                int(remaining.next_count()),
                                off_t(op.offset + moved),
                                RWF_NOWAIT);
    if (got < 0)
      return false;
    if (got == 0)
      break;
    remaining.advance(size_t(got));
    moved += uint64_t(got);
  }
  completion.op_id = op.op_id;
  completion.code = status::ok;
  completion.size = moved;
  return true;
}

// Returns false if the ring is full.
bool file_ring_queue::prepare(transfer &request) {
  TND_ASSERT(request.file != nullptr && request.moved <= request.size);
  if (ring_count_ >= ring_count_max_)
    return false;
  io_uring_sqe *const entry = io_uring_get_sqe(ring_.get());
  if (entry == nullptr)
    return false;
  uint64_t const offset = request.op.offset + request.moved;
  int const fd = request.direct ? request.file->direct_fd : request.file->fd;
  switch (request.op.kind) {
    case seams::store_op_kind::read:
      io_uring_prep_readv(
          entry, fd, request.remaining.next(), request.remaining.next_count(), offset);
      break;
    case seams::store_op_kind::write:
      io_uring_prep_writev(
          entry, fd, request.remaining.next(), request.remaining.next_count(), offset);
      break;
    default:
      io_uring_prep_fsync(entry, request.file->fd, IORING_FSYNC_DATASYNC);
      break;
  }
  io_uring_sqe_set_data(entry, &request);
  ring_count_++;
  return true;
}

// On failure (the kernel has insufficient memory) the entries stay in the ring until the next poll.
void file_ring_queue::send() noexcept {
  if (io_uring_sq_ready(ring_.get()) != 0)
    io_uring_submit(ring_.get());
}

void file_ring_queue::send_backlog() {
  while (!backlog_.empty() && prepare(*backlog_.front()))
    backlog_.pop_front();
  send();
}

void file_ring_queue::reap() {
  io_uring_cqe *entries[64];
  auto const peek = [&] {
    return io_uring_peek_batch_cqe(ring_.get(), entries, std::size(entries));
  };
  for (unsigned count = peek(); count != 0; count = peek()) {
    for (unsigned i = 0; i < count; i++) {
      auto *const request = static_cast<transfer *>(io_uring_cqe_get_data(entries[i]));
      if (request == nullptr)
        continue;  // the completion of a cancel
      TND_ASSERT(ring_count_ != 0 && request->file != nullptr);
      ring_count_--;
      int const moved = entries[i]->res;
      if (moved < 0)
        handle_error(*request, -moved);
      else
        handle_result(*request, moved);
    }
    io_uring_cq_advance(ring_.get(), count);
  }
}

void file_ring_queue::handle_result(transfer &request, int moved) {
  if (request.op.kind == seams::store_op_kind::sync)
    return finish(request, status::ok);
  if (moved == 0)
    return finish(request, request.op.kind == seams::store_op_kind::read ? status::ok : status::io);
  request.remaining.advance(size_t(moved));
  request.moved += uint64_t(moved);
  TND_ASSERT(request.moved <= request.size);
  if (request.moved == request.size)
    return finish(request, status::ok);
  if (request.cancelled)
    return finish(request, status::timed_out);
  request.direct = request.direct && request.moved % direct_alignment == 0;
  backlog_.push_back(&request);
}

void file_ring_queue::handle_error(transfer &request, int number) {
  // When a thread exits, the kernel cancels the requests that it submitted. An ECANCELED that this
  // queue did not cause is retried.
  bool const is_retried = number == EINTR || number == EAGAIN || number == ECANCELED;
  if (is_retried && request.cancelled)
    return finish(request, status::timed_out);
  if (request.direct && number == EINVAL) {
    request.file->direct_refused.store(true, std::memory_order_relaxed);
    request.direct = false;
  } else if (!is_retried) {
    return finish(request, seams::errno_status(number));
  }
  backlog_.push_back(&request);
}

void file_ring_queue::finish(transfer &request, status code) {
  TND_ASSERT(active_ != 0 && request.file != nullptr);
  seams::store_completion completion;
  completion.op_id = request.op.op_id;
  completion.code = code;
  completion.size = request.moved;
  done_.push_back(std::move(completion));
  request = transfer{};
  free_.push_back(&request);
  active_--;
}

void file_ring_queue::expire(uint64_t now_ns) {
  expire_at_ns_ = no_deadline_ns;
  for (auto it = backlog_.begin(); it != backlog_.end();) {
    if ((*it)->op.deadline_ns > now_ns) {
      ++it;
      continue;
    }
    finish(**it, status::timed_out);
    it = backlog_.erase(it);
  }
  for (const auto &request : transfers_) {
    if (request->file == nullptr || request->cancelled)
      continue;
    if (request->op.deadline_ns > now_ns) {
      expire_at_ns_ = std::min(expire_at_ns_, request->op.deadline_ns);
      continue;
    }
    io_uring_sqe *const entry = io_uring_get_sqe(ring_.get());
    if (entry == nullptr) {
      expire_at_ns_ = now_ns;  // try again at the next poll
      return;
    }
    io_uring_prep_cancel(entry, request.get(), 0);
    io_uring_sqe_set_data(entry, nullptr);
    request->cancelled = true;
  }
}

size_t file_ring_queue::poll(std::span<seams::store_completion> completions) {
  size_t count = 0;
  if (active_ != 0) {
    send_backlog();
    reap();
    if (expire_at_ns_ != no_deadline_ns) {
      uint64_t const now_ns = seams::monotonic_clock().now_ns();
      if (now_ns >= expire_at_ns_)
        expire(now_ns);
    }
    send_backlog();
  }
  for (; count < completions.size() && !done_.empty(); count++) {
    completions[count] = std::move(done_.front());
    done_.pop_front();
  }
  return count + metadata_->poll(completions.subspan(count));
}

file_ring_queue::~file_ring_queue() {
  uint64_t const limit_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), abandon_ns);
  for (const auto &request : transfers_)
    request->op.deadline_ns = 0;  // no operation is waited for any longer
  while (active_ != 0 && seams::monotonic_clock().now_ns() < limit_ns) {
    reap();
    expire(seams::monotonic_clock().now_ns());
    send();
    if (active_ != 0)
      seams::monotonic_clock().sleep_ns(100'000);
  }
  if (active_ == 0) {
    TND_ASSERT(ring_count_ == 0 && backlog_.empty());
    ring_destroy(*ring_);
    return;
  }
  log(log_level::error,
      "{}: a queue is destroyed with {} operations in the kernel; its memory is leaked",
      engine_->scheme(),
      active_);
  (void)ring_.release();
  for (auto &request : transfers_)
    (void)request.release();
}

result<std::unique_ptr<io_uring>> ring_create(uint32_t entries) {
  auto ring = std::make_unique<io_uring>();
  lock_guard lock{ring_memory()};
  int const code = io_uring_queue_init(entries, ring.get(), 0);
  if (code < 0)
    return seams::errno_status(-code);
  return ring;
}

}  // namespace

result<std::unique_ptr<seams::store_queue>> file_ring_queue_create(
    std::shared_ptr<ring_engine> engine,
    std::unique_ptr<seams::store_queue> metadata,
    uint32_t depth) {
  auto ring =
      ring_create(std::bit_ceil(std::min(std::max(depth, unsent_count_max), ring_entries_max)));
  if (!ring.ok())
    return ring.error();
  return std::unique_ptr<seams::store_queue>{std::make_unique<file_ring_queue>(
      std::move(engine), std::move(metadata), depth, std::move(ring).value())};
}

status file_ring_probe() {
  auto ring = ring_create(1);
  if (!ring.ok())
    return ring.error();
  ring_destroy(*ring.value());
  return status::ok;
}

}  // namespace tanada::backends
