// Lanes over a fabric that does not report when a peer has died.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "onesided/job/remote.hpp"

namespace tanada::onesided {
namespace {

constexpr uint64_t timeout_ns = 20'000'000'000, soon_ns = 5'000'000'000;

// Operations posted to a peer stay outstanding until the peer is removed. If `answers_` is set, all
// of them succeed.
class silent_endpoint final : public seams::fabric_endpoint {
 public:
  explicit silent_endpoint(const std::atomic<bool> &answers) : answers_{answers} {
    properties_.provider = "silent";
    properties_.depth = 4;
    properties_.has_atomics = true;
    properties_.is_ordered = true;
    properties_.has_auto_progress = true;
  }

  const seams::fabric_properties &properties() const noexcept override {
    return properties_;
  }
  const seams::fabric_address &address() const noexcept override {
    return address_;
  }
  result<seams::fabric_peer> peer_add(std::span<const std::byte> address) override {
    return seams::fabric_peer(address[0]);
  }

  status peer_remove(seams::fabric_peer peer) override {
    end_if([peer](const seams::fabric_op &op) { return op.peer == peer; }, status::canceled);
    return status::ok;
  }

  result<seams::fabric_region> region_register(const seams::fabric_memory &,
                                               seams::fabric_access) override {
    return status::not_supported;
  }
  status region_release(seams::fabric_region_id) override {
    return status::no_entry;
  }
  void memory_forget(const std::byte *, size_t) override {}

  status post(const seams::fabric_op &op) override {
    if (posted_.size() == properties_.depth)
      return status::again;
    posted_.push_back(op);
    return status::ok;
  }

  size_t poll(std::span<seams::fabric_completion> completions) override {
    if (answers_)
      end_if([](const seams::fabric_op &) { return true; }, status::ok);
    size_t count = 0;
    for (; count < completions.size() && !ready_.empty(); count++) {
      completions[count] = ready_.front();
      ready_.pop_front();
    }
    return count;
  }

  status wait(uint64_t deadline_ns) override {
    while (ready_.empty() && !answers_ && !is_woken_.exchange(false) &&
           seams::monotonic_clock().now_ns() < deadline_ns) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    return status::ok;
  }

  void wake() noexcept override {
    is_woken_ = true;
  }
  size_t pending_count() const noexcept override {
    return posted_.size();
  }
  seams::fabric_counters counters() const noexcept override {
    return {};
  }

 private:
  template <class Predicate>
  void end_if(Predicate &&predicate, status code) {
    std::erase_if(posted_, [&](const seams::fabric_op &op) {
      if (!predicate(op))
        return false;
      ready_.push_back({.op_id = op.op_id, .code = code, .peer = op.peer});
      return true;
    });
  }

  const std::atomic<bool> &answers_;
  seams::fabric_properties properties_;
  seams::fabric_address address_;
  std::deque<seams::fabric_op> posted_;
  std::deque<seams::fabric_completion> ready_;
  std::atomic<bool> is_woken_{false};
};

// PE 0 of three, with a context. The other PEs do not exist.
class lane_of_a_dead_pe : public testing::Test {
 protected:
  lane_of_a_dead_pe() {
    std::vector<seams::fabric_address> addresses(3);
    for (size_t i = 0; i < addresses.size(); i++) {
      addresses[i].bytes[0] = std::byte(i);
      addresses[i].size = 1;
    }
    lane::options const chosen{.timeout_ns = timeout_ns,
                               .time = &seams::monotonic_clock(),
                               .make_progress = {},
                               .on_first_outstanding = {},
                               .failed_pe = [this] {
                                 return dead_.load();
                               }};
    lane_ = std::make_unique<lane>(
        std::make_unique<silent_endpoint>(answers_), std::move(addresses), chosen);
    context_ = std::make_unique<remote_context>(*lane_);
    words_.size = sizeof(uint64_t);
    words_.remote.resize(3, {.base = 0, .key = 0, .size = sizeof(uint64_t)});
  }

  ~lane_of_a_dead_pe() override {
    if (later_.joinable())
      later_.join();
    answers_ = true;
    (void)context_->quiet();
  }

  symmetric_address word() const {
    return {.segment_ptr = &words_};
  }

  // Runs `action` in another thread while this one waits.
  template <class Action>
  void later(Action &&action) {
    later_ = std::thread{[action] {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      action();
    }};
  }

  bool is_early() const {
    return seams::monotonic_clock().now_ns() - began_ns_ < soon_ns;
  }

  std::atomic<bool> answers_{false};
  std::atomic<pe_index> dead_{-1};
  segment words_;
  std::unique_ptr<lane> lane_;
  std::unique_ptr<remote_context> context_;
  std::thread later_;
  uint64_t const began_ns_ = seams::monotonic_clock().now_ns();
};

TEST_F(lane_of_a_dead_pe, an_atomic_that_waits_for_it_ends) {
  later([this] { dead_ = 1; });
  uint64_t before = 0;
  EXPECT_EQ(
      context_->update(
          1,
          word(),
          {.kind = seams::fabric_atomic::add, .element = seams::fabric_element::u64, .operand = 1},
          &before),
      status::peer_lost);
  EXPECT_TRUE(is_early());
}

TEST_F(lane_of_a_dead_pe, what_is_under_way_to_it_ends) {
  uint64_t const value = 1;
  ASSERT_EQ(context_->put_nbi(1, word(), &value, sizeof value), status::ok);
  later([this] { dead_ = 1; });
  EXPECT_EQ(context_->quiet(), status::peer_lost);
  EXPECT_EQ(context_->put_nbi(1, word(), &value, sizeof value), status::peer_lost) << "from now on";
  EXPECT_TRUE(is_early());
}

TEST_F(lane_of_a_dead_pe, who_waits_for_room_goes_on) {
  uint64_t const value = 1;
  for (uint32_t i = 0; i < 4; i++)
    ASSERT_EQ(context_->put_nbi(1, word(), &value, sizeof value), status::ok);
  later([this] { dead_ = 1; });
  EXPECT_EQ(context_->put_nbi(1, word(), &value, sizeof value), status::peer_lost);
  EXPECT_EQ(context_->quiet(), status::peer_lost);
  EXPECT_TRUE(is_early());
}

TEST_F(lane_of_a_dead_pe, operations_on_others_go_on) {
  dead_ = 2;
  later([this] { answers_ = true; });
  uint64_t before = 0;
  EXPECT_EQ(
      context_->update(
          1,
          word(),
          {.kind = seams::fabric_atomic::add, .element = seams::fabric_element::u64, .operand = 1},
          &before),
      status::ok);
}

}  // namespace
}  // namespace tanada::onesided
