// Unregistration of memory, also with a provider that hangs.
#include "products/poold/data_mover.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tanada::poold {
namespace {

constexpr uint64_t ms = 1'000'000;

// A fabric whose provider hangs in a call until it is released.
struct stuck_state {
  std::atomic<bool> stuck{false}, is_in{false};
  std::atomic<int> forgotten{0};
};

class stuck_endpoint final : public seams::fabric_endpoint {
 public:
  explicit stuck_endpoint(stuck_state &state) : state_{state} {
    about_.provider = "stuck";
  }
  const seams::fabric_properties &properties() const noexcept override {
    return about_;
  }
  const seams::fabric_address &address() const noexcept override {
    return address_;
  }
  result<seams::fabric_peer> peer_add(std::span<const std::byte>) override {
    return status::no_space;
  }
  status peer_remove(seams::fabric_peer) override {
    return status::no_entry;
  }
  result<seams::fabric_region> region_register(const seams::fabric_memory &,
                                               seams::fabric_access) override {
    return status::not_supported;
  }
  status region_release(seams::fabric_region_id) override {
    return status::no_entry;
  }
  void memory_forget(const std::byte *, size_t) override {
    state_.forgotten++;
  }
  status post(const seams::fabric_op &) override {
    return status::not_supported;
  }
  size_t poll(std::span<seams::fabric_completion>) override {
    while (state_.stuck) {
      state_.is_in = true;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    state_.is_in = false;
    return 0;
  }
  status wait(uint64_t) override {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return status::timed_out;
  }
  void wake() noexcept override {}
  size_t pending_count() const noexcept override {
    return 0;
  }
  seams::fabric_counters counters() const noexcept override {
    return {};
  }

 private:
  stuck_state &state_;
  seams::fabric_properties about_;
  seams::fabric_address address_;
};

class mover_forgets : public testing::Test {
 protected:
  void SetUp() override {
    auto started = data_mover::start(std::make_unique<stuck_endpoint>(fabric_));
    ASSERT_TRUE(started.ok());
    mover_ = std::move(started).value();
  }
  void TearDown() override {
    fabric_.stuck = false;
  }
  void stick() {
    fabric_.stuck = true;
    while (!fabric_.is_in)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  stuck_state fabric_;
  std::byte memory_[64]{};
  std::unique_ptr<data_mover> mover_;
};

TEST_F(mover_forgets, memory_that_nothing_touches) {
  EXPECT_TRUE(mover_->unregister_memory(memory_, sizeof memory_, 5'000 * ms));
  EXPECT_EQ(fabric_.forgotten, 1);
}

TEST_F(mover_forgets, a_provider_that_hangs_is_waited_for_as_long_as_was_said) {
  stick();
  auto const before = std::chrono::steady_clock::now();
  EXPECT_FALSE(mover_->unregister_memory(memory_, sizeof memory_, 50 * ms));
  EXPECT_FALSE(mover_->unregister_memory(memory_, sizeof memory_, 0))
      << "requested already, and not complete";
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds{5});
  fabric_.stuck = false;
  EXPECT_TRUE(mover_->unregister_memory(memory_, sizeof memory_, 5'000 * ms));
  EXPECT_EQ(fabric_.forgotten, 1) << "the first request is the one that counts";
}

}  // namespace
}  // namespace tanada::poold
