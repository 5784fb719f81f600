#include "backends/file/file_ring.hpp"

#include <liburing.h>
#include <sys/uio.h>

#include <bit>
#include <deque>

#include "backends/file/io_vectors.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/store_op_check.hpp"

namespace tanada::port {
namespace {

constexpr uint32_t ring_entries_max = 256;  // at the kernel at a time; deeper queues keep the rest
constexpr uint32_t unsent_count_max = 16;
constexpr uint64_t cached_read_size_max = 64u << 10;
constexpr uint64_t abandon_ns = 2'000'000'000;
constexpr uint64_t no_deadline_ns = ~uint64_t{0};

// A ring may get the memory of one that another thread has given back. The kernel orders the two;
// this mutex says so to the memory model (and to ThreadSanitizer, which cannot see liburing's
// system calls).
tanada::mutex &ring_memory() {
  static tanada::mutex mutex;
  return mutex;
}

void ring_destroy(io_uring &ring) {
  lock_guard lock{ring_memory()};
  io_uring_queue_exit(&ring);
}

struct transfer {
  store_op op;
  std::shared_ptr<local_file> file;
  io_vectors left;
  uint64_t size = 0;   // bytes asked for
  uint64_t moved = 0;  // bytes
  bool direct = false;
  bool cancelled = false;  // past its deadline; the kernel has been asked to stop
};

class file_ring_queue final : public store_queue {
 public:
  file_ring_queue(std::shared_ptr<ring_engine> engine, std::unique_ptr<store_queue> metadata,
                  uint32_t depth, std::unique_ptr<io_uring> ring)
      : engine_{std::move(engine)},
        metadata_{std::move(metadata)},
        ring_{std::move(ring)},
        depth_{depth},
        ring_count_max_{std::min(depth, ring_entries_max)} {}

  ~file_ring_queue() override;
  status post(store_op op) override;
  size_t poll(std::span<store_completion> completions) override;
  bool try_perform(const store_op &op, store_completion &completion) override;
  size_t pending_count() const noexcept override {
    return active_ + done_.size() + metadata_->pending_count();
  }

 private:
  std::shared_ptr<local_file> file_for(const store_op &op) const;
  bool try_read_cached(const local_file &file, const store_op &op, store_completion &completion);
  transfer &acquire();
  bool prepare(transfer &which);
  void send() noexcept;
  void send_backlog();
  void reap();
  void arrived(transfer &which, int moved);
  void failed(transfer &which, int number);
  void finish(transfer &which, status code);
  void expire(uint64_t now_ns);

  std::shared_ptr<ring_engine> engine_;
  std::unique_ptr<store_queue> metadata_;
  std::unique_ptr<io_uring> ring_;
  size_t depth_;
  size_t ring_count_max_;
  size_t ring_count_ = 0;  // transfers the kernel has
  size_t active_ = 0;
  std::vector<std::unique_ptr<transfer>> transfers_;
  std::vector<transfer *> free_;
  std::deque<transfer *> backlog_;  // to be sent when the ring has room
  std::deque<store_completion> done_;
  uint64_t expire_at_ns_ = no_deadline_ns;
};

transfer &file_ring_queue::acquire() {
  active_++;
  if (free_.empty()) {
    transfers_.push_back(std::make_unique<transfer>());
    return *transfers_.back();
  }
  auto &which = *free_.back();
  free_.pop_back();
  return which;
}

// A file's own calls are for the ring where it has a descriptor.
std::shared_ptr<local_file> file_ring_queue::file_for(const store_op &op) const {
  bool const reads = op.kind == store_op_kind::read && !engine_->reader().on_device(op.buffers);
  bool const changes = op.kind == store_op_kind::write || op.kind == store_op_kind::sync;
  if (!reads && !changes)
    return nullptr;
  auto file = engine_->find(op.file);
  return file && (reads || file->writable) ? file : nullptr;
}

status file_ring_queue::post(store_op op) {
  if (pending_count() >= depth_)
    return status::again;
  auto file = file_for(op);
  if (!file)
    return metadata_->post(std::move(op));
  TND_TRY(op_check(op, engine_->scheme()));
  auto &which = acquire();
  which.op = std::move(op);
  bool const moves = which.op.kind != store_op_kind::sync;
  which.size = moves ? buffers_size(which.op.buffers) : 0;
  which.file = std::move(file);
  bool const late =
      which.op.deadline_ns != no_deadline_ns && monotonic_clock().now_ns() >= which.op.deadline_ns;
  if (late || (moves && which.size == 0)) {
    finish(which, late ? status::timed_out : status::ok);
    return status::ok;
  }
  which.left = moves ? io_vectors{which.op.buffers} : io_vectors{};
  auto const &reader = engine_->reader();
  which.direct =
      which.op.kind == store_op_kind::read
          ? reader.reads_direct(*which.file, which.op.offset, which.op.buffers)
          : moves && reader.writes_direct(*which.file, which.op.offset, which.op.buffers);
  expire_at_ns_ = std::min(expire_at_ns_, which.op.deadline_ns);
  if (!backlog_.empty() || !prepare(which))
    backlog_.push_back(&which);
  if (io_uring_sq_ready(ring_.get()) >= unsent_count_max)
    send();
  return status::ok;
}

// Where pages are memory there is nothing to wait for, and a ring would hand each copy to a thread
// of the kernel's.
bool file_ring_queue::try_perform(const store_op &op, store_completion &completion) {
  if (op.kind == store_op_kind::open || op.kind == store_op_kind::close)
    return engine_->try_perform(op, completion);
  if (op.kind != store_op_kind::read && op.kind != store_op_kind::write)
    return false;
  auto const file = engine_->find(op.file);
  if (!file || engine_->reader().on_device(op.buffers))
    return false;
  if (!file->in_memory)
    return op.kind == store_op_kind::read && try_read_cached(*file, op, completion);
  if (op.kind == store_op_kind::write && !file->writable)
    return false;
  completion.op_id = op.op_id;
  completion.code = op_check(op, engine_->scheme());
  if (completion.code != status::ok)
    return true;
  completion.code = op.kind == store_op_kind::read
                        ? engine_->read(op.file, op.offset, op.buffers, completion.size)
                        : engine_->write(op.file, op.offset, op.buffers, completion.size);
  return true;
}

// A small read of what the page cache has, as a whole: a ring costs more than the copy.
bool file_ring_queue::try_read_cached(const local_file &file, const store_op &op,
                                      store_completion &completion) {
  uint64_t const size = buffers_size(op.buffers);
  if (file.direct_fd >= 0 || size == 0 || size > cached_read_size_max)
    return false;
  if (op_check(op, engine_->scheme()) != status::ok)
    return false;
  io_vectors left{op.buffers};
  uint64_t moved = 0;
  while (moved < size) {
    ssize_t const got =
        preadv2(file.fd, left.next(), int(left.next_count()), off_t(op.offset + moved), RWF_NOWAIT);
    if (got < 0)
      return false;
    if (got == 0)
      break;
    left.advance(size_t(got));
    moved += uint64_t(got);
  }
  completion.op_id = op.op_id;
  completion.code = status::ok;
  completion.size = moved;
  return true;
}

// False: the ring is full for now.
bool file_ring_queue::prepare(transfer &which) {
  if (ring_count_ >= ring_count_max_)
    return false;
  io_uring_sqe *const entry = io_uring_get_sqe(ring_.get());
  if (entry == nullptr)
    return false;
  uint64_t const offset = which.op.offset + which.moved;
  int const fd = which.direct ? which.file->direct_fd : which.file->fd;
  switch (which.op.kind) {
    case store_op_kind::read:
      io_uring_prep_readv(entry, fd, which.left.next(), which.left.next_count(), offset);
      break;
    case store_op_kind::write:
      io_uring_prep_writev(entry, fd, which.left.next(), which.left.next_count(), offset);
      break;
    default: io_uring_prep_fsync(entry, which.file->fd, IORING_FSYNC_DATASYNC); break;
  }
  io_uring_sqe_set_data(entry, &which);
  ring_count_++;
  return true;
}

// A refusal (the kernel is short of memory) leaves the entries in the ring for the next poll.
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
      auto *const which = static_cast<transfer *>(io_uring_cqe_get_data(entries[i]));
      if (which == nullptr)
        continue;  // the answer to a cancel
      ring_count_--;
      int const moved = entries[i]->res;
      if (moved < 0)
        failed(*which, -moved);
      else
        arrived(*which, moved);
    }
    io_uring_cq_advance(ring_.get(), count);
  }
}

void file_ring_queue::arrived(transfer &which, int moved) {
  if (which.op.kind == store_op_kind::sync)
    return finish(which, status::ok);
  if (moved == 0)
    return finish(which, which.op.kind == store_op_kind::read ? status::ok : status::io);
  which.left.advance(size_t(moved));
  which.moved += uint64_t(moved);
  if (which.moved == which.size)
    return finish(which, status::ok);
  if (which.cancelled)
    return finish(which, status::timed_out);
  which.direct = which.direct && which.moved % direct_alignment == 0;
  backlog_.push_back(&which);
}

void file_ring_queue::failed(transfer &which, int number) {
  // A thread that ends takes what it has sent along: ECANCELED without a cancel of ours is
  // repeated.
  bool const repeat = number == EINTR || number == EAGAIN || number == ECANCELED;
  if (repeat && which.cancelled)
    return finish(which, status::timed_out);
  if (which.direct && number == EINVAL) {
    which.file->direct_refused.store(true, std::memory_order_relaxed);
    which.direct = false;
  } else if (!repeat) {
    return finish(which, errno_status(number));
  }
  backlog_.push_back(&which);
}

void file_ring_queue::finish(transfer &which, status code) {
  store_completion completion;
  completion.op_id = which.op.op_id;
  completion.code = code;
  completion.size = which.moved;
  done_.push_back(std::move(completion));
  which = transfer{};
  free_.push_back(&which);
  active_--;
}

void file_ring_queue::expire(uint64_t now_ns) {
  expire_at_ns_ = no_deadline_ns;
  for (auto at = backlog_.begin(); at != backlog_.end();) {
    if ((*at)->op.deadline_ns > now_ns) {
      ++at;
      continue;
    }
    finish(**at, status::timed_out);
    at = backlog_.erase(at);
  }
  for (const auto &which : transfers_) {
    if (which->file == nullptr || which->cancelled)
      continue;
    if (which->op.deadline_ns > now_ns) {
      expire_at_ns_ = std::min(expire_at_ns_, which->op.deadline_ns);
      continue;
    }
    io_uring_sqe *const entry = io_uring_get_sqe(ring_.get());
    if (entry == nullptr) {
      expire_at_ns_ = now_ns;  // once more at the next poll
      return;
    }
    io_uring_prep_cancel(entry, which.get(), 0);
    io_uring_sqe_set_data(entry, nullptr);
    which->cancelled = true;
  }
}

size_t file_ring_queue::poll(std::span<store_completion> completions) {
  size_t count = 0;
  if (active_ != 0) {
    send_backlog();
    reap();
    if (expire_at_ns_ != no_deadline_ns) {
      uint64_t const now_ns = monotonic_clock().now_ns();
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
  uint64_t const limit_ns = deadline_after(monotonic_clock().now_ns(), abandon_ns);
  for (const auto &which : transfers_)
    which->op.deadline_ns = 0;  // none is worth waiting for any more
  while (active_ != 0 && monotonic_clock().now_ns() < limit_ns) {
    reap();
    expire(monotonic_clock().now_ns());
    send();
    if (active_ != 0)
      monotonic_clock().sleep_ns(100'000);
  }
  if (active_ == 0) {
    ring_destroy(*ring_);
    return;
  }
  log(log_level::error, "%s: a queue is destroyed with %zu operations in the kernel: left behind",
      engine_->scheme(), active_);
  (void)ring_.release();
  for (auto &which : transfers_)
    (void)which.release();
}

result<std::unique_ptr<io_uring>> ring_create(uint32_t entries) {
  auto ring = std::make_unique<io_uring>();
  lock_guard lock{ring_memory()};
  int const code = io_uring_queue_init(entries, ring.get(), 0);
  if (code < 0)
    return errno_status(-code);
  return ring;
}

}  // namespace

result<std::unique_ptr<store_queue>> file_ring_queue_create(std::shared_ptr<ring_engine> engine,
                                                            std::unique_ptr<store_queue> metadata,
                                                            uint32_t depth) {
  auto ring =
      ring_create(std::bit_ceil(std::min(std::max(depth, unsent_count_max), ring_entries_max)));
  if (!ring.ok())
    return ring.error();
  return std::unique_ptr<store_queue>{std::make_unique<file_ring_queue>(
      std::move(engine), std::move(metadata), depth, std::move(ring).value())};
}

status file_ring_probe() {
  auto ring = ring_create(1);
  if (!ring.ok())
    return ring.error();
  ring_destroy(*ring.value());
  return status::ok;
}

}  // namespace tanada::port
