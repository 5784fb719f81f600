// The service threads, driven as kernels do: through the mailbox, by plain writes from the test's
// thread.
#include "products/gfile/host/engine.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "products/gfile/host/session.hpp"

namespace tanada::gfile {
namespace {

constexpr u32 page_size = 4096, page_count = 512;
constexpr u64 limit_ns = 60'000'000'000;

class engine_test : public testing::Test {
 protected:
  void start(u32 threads) {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.page_size = page_size;
    config.device_tier_size = 1u << 20;
    config.host_tier_size = page_count * page_size / 4;
    config.service_threads = threads;
    auto created = session::create(config,
                                   {seams::host_gpu_open(),
                                    std::make_unique<backends::store_registry>(),
                                    &seams::monotonic_clock()});
    ASSERT_TRUE(created.ok());
    session_ = std::move(created).value();
    auto const &state = *static_cast<const device_state *>(session_->ref().state);
    ring_ = state.ring;
    frames_ = state.host_frames;
  }

  void TearDown() override {
    if (session_ != nullptr) {
      EXPECT_EQ(session_->shut_down(), status::ok);
    }
  }

  void post(
      u32 slot, op request_op, u32 file, std::initializer_list<u64> words, const char *url = "") {
    rpc::ticket const ticket{slot, ++sequences_[slot]};
    rpc::request &body = ring_.body(ticket);
    body.op = u32(request_op);
    body.file = file;
    std::copy(words.begin(), words.end(), body.words);
    std::strcpy(ring_.text(ticket), url);
    ring_.post(ticket);
  }

  rpc::reply wait(u32 slot) {
    return ring_.wait({slot, sequences_[slot]}, seams::monotonic_clock().now_ns() + limit_ns);
  }

  bool answered(u32 slot) const {
    u64 const code = simt::system_atomic<u64>(ring_.mail->answers[slot].head[0]).load_acquire();
    return u32(code >> 32) == sequences_[slot];
  }

  void finish(u32 slot) {
    ring_.finish({slot, sequences_[slot]}, false);
  }

  std::unique_ptr<session> session_;
  rpc::ring_ref ring_{};
  u32 sequences_[rpc::slot_count] = {};
  u8 *frames_ = nullptr;
};

TEST_F(engine_test, helpers_wake_when_much_is_asked_and_park_when_nothing_is) {
  start(3);
  post(0, op::open, 0, {u64(O_RDWR | O_CREAT)}, "mem://engine_test/load");
  rpc::reply const opened = wait(0);
  ASSERT_EQ(opened.code, status::ok);
  finish(0);
  post(0, op::truncate, opened.value, {page_count * page_size});
  ASSERT_EQ(wait(0).code, status::ok);
  finish(0);
  u32 most_awake = 1;
  u64 const end_ns = seams::monotonic_clock().now_ns() + limit_ns;
  for (u32 round = 0; most_awake < 3 && seams::monotonic_clock().now_ns() < end_ns; round++) {
    constexpr u32 batch_size =
        page_count / 8;  // at most half of the tier: no request waits for a frame
    for (u32 i = 0; i < batch_size; i++)
      post(i, op::read, opened.value, {(round * batch_size + i) * 7 % page_count, 1});
    for (u32 i = 0; i < batch_size; i++) {
      rpc::reply const reply = wait(i);
      ASSERT_EQ(reply.code, status::ok);
      most_awake = std::max(most_awake, session_->service().awake_count());
      ASSERT_EQ(frames_[u64(reply.value & ~granted_at_once) * page_size], 0);
      finish(i);
    }
  }
  EXPECT_EQ(most_awake, 3u);
  while (session_->service().awake_count() > 1 && seams::monotonic_clock().now_ns() < end_ns)
    seams::monotonic_clock().sleep_ns(1'000'000);
  EXPECT_EQ(session_->service().awake_count(), 1u);
}

TEST_F(engine_test, a_plugin_that_is_slow_to_load_holds_up_nobody_else) {
  setenv("TND_PLUGIN_PATH", TND_TEST_SLOW_PLUGIN_FOLDER, 1);
  start(2);
  post(0, op::open, 0, {u64(O_RDONLY)}, "gfarm:///x");
  seams::monotonic_clock().sleep_ns(50'000'000);
  post(1, op::open, 0, {u64(O_RDWR | O_CREAT)}, "mem://engine_test/meanwhile");
  EXPECT_EQ(wait(1).code, status::ok);
  finish(1);
  EXPECT_FALSE(answered(0));
  EXPECT_EQ(wait(0).code, status::no_plugin);
  finish(0);
  unsetenv("TND_PLUGIN_PATH");
}

}  // namespace
}  // namespace tanada::gfile
