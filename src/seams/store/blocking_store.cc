// A store with queues over an engine whose calls block.
#include "seams/store/blocking_store.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/store_op_check.hpp"
#include "seams/store/worker_pool.hpp"

namespace tanada::seams {
namespace {

constexpr uint64_t expire_interval_ns = 5'000'000;

class blocking_queue final : public store_queue {
 public:
  blocking_queue(std::shared_ptr<worker_pool> pool, uint32_t depth)
      : pool_{std::move(pool)}, depth_{depth} {}

  ~blocking_queue() override {
    list_->set_listener({});  // abandoned operations may complete later
    if (pending_ == 0 || pool_->drain(*list_))
      return;
    log(log_level::error,
        "{}: a queue is destroyed with operations stuck in the store: abandoning them",
        pool_->scheme());
  }

  status post(store_op op) override {
    if (pending_ >= depth_)
      return status::again;
    TND_TRY(op_check(op, pool_->scheme()));
    next_expire_ns_ = std::min(next_expire_ns_, op.deadline_ns);
    TND_TRY(pool_->submit(std::move(op), list_));
    pending_++;
    return status::ok;
  }

  size_t poll(std::span<store_completion> completions) override {
    if (pending_ == 0)
      return 0;
    size_t count = list_->take(completions);
    if (count == 0) {
      uint64_t const now_ns = monotonic_clock().now_ns();
      if (now_ns >= next_expire_ns_ || now_ns >= last_expire_ns_ + expire_interval_ns) {
        pool_->expire(*list_, now_ns);
        last_expire_ns_ = now_ns;
        next_expire_ns_ = ~uint64_t{0};
        count = list_->take(completions);
      }
    }
    TND_ASSERT(count <= pending_);
    pending_ -= count;
    return count;
  }

  void set_listener(std::function<void()> listener) override {
    list_->set_listener(std::move(listener));
    has_listener_ = true;
  }
  bool is_listened() const noexcept override {
    return has_listener_;
  }

  size_t pending_count() const noexcept override {
    return pending_;
  }

 private:
  std::shared_ptr<worker_pool> pool_;
  std::shared_ptr<completion_list> list_ = std::make_shared<completion_list>();
  size_t depth_, pending_ = 0;
  bool has_listener_ = false;
  uint64_t last_expire_ns_ = 0, next_expire_ns_ = ~uint64_t{0};
};

class blocking_store final : public store {
 public:
  explicit blocking_store(std::shared_ptr<worker_pool> pool) : pool_{std::move(pool)} {}

  ~blocking_store() override {
    if (pool_->stop())
      return;
    log(log_level::error,
        "{}: the store is closed with threads stuck in it: abandoning them",
        pool_->scheme());
  }

  std::string_view scheme() const noexcept override {
    return pool_->scheme();
  }

  result<std::unique_ptr<store_queue>> queue_create(uint32_t depth) override {
    if (auto const code = queue_depth_check(depth); code != status::ok)
      return code;
    return std::unique_ptr<store_queue>{std::make_unique<blocking_queue>(pool_, depth)};
  }

 private:
  std::shared_ptr<worker_pool> pool_;
};

}  // namespace

std::unique_ptr<store> blocking_store_create(std::shared_ptr<blocking_engine> engine,
                                             blocking_limits limits) {
  return std::make_unique<blocking_store>(std::make_shared<worker_pool>(std::move(engine), limits));
}

}  // namespace tanada::seams
