// Goal: a read never returns bytes of another file, and the size of a file never belongs to another
// state of it, whatever changes between the steps of a call. Method: gfile in one thread; the test
// delays a kernel's request while another kernel learns of a change, or preempts kernels between
// any two loads.
#include <tanada/device/gfile.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "products/gfile/host/session.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

namespace gfile_sim {
namespace {

using namespace tanada;

constexpr u32 page_size = 4096;
constexpr const char *url = "sim://cut";
constexpr const char *other_url = "sim://other";
constexpr u64 long_size = 3000, short_size = 100;

class view : public testing::Test {
 protected:
  void SetUp() override {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.page_size = page_size;
    config.device_tier_size = 16 * page_size;
    config.host_tier_size = page_size;  // files use its only frame in turn
    config.service_threads = 0;
    config.file_count_max = 64;
    auto stores = std::make_unique<backends::store_registry>();
    auto made_store = std::make_unique<sim::store>(world_);
    store_ = made_store.get();
    stores->add(std::move(made_store));
    auto made =
        gfile::session::create(config, {seams::host_gpu_open(), std::move(stores), &clock_});
    ASSERT_TRUE(made.ok());
    session_ = std::move(made).value();
    store_->contents_set(url, std::string(long_size, 'c'));
    store_->contents_set(other_url, std::string(page_size, 'o'));
  }

  void TearDown() override {
    if (session_ != nullptr) {
      EXPECT_EQ(session_->shut_down(), status::ok);
    }
  }

  gfile::device_state &state() {
    return *static_cast<gfile::device_state *>(session_->ref().state);
  }

  // Blocks of one thread each run `body`; the host serves between their steps.
  void perform(u32 block_count,
               u32 preempt_permille,
               u64 seed,
               const std::function<void(gfile_ref)> &body) {
    simt::host::inline_options options;
    options.seed = seed;
    options.preempt_permille = preempt_permille;
    options.between_turns = [this] {
      before_step_();
      (void)session_->service().step(0);
      world_.advance(1'000);
    };
    options.clock_ns = [this] {
      return world_.now_ns();
    };
    gfile_ref const files{session_->ref().state, 1'000'000'000};
    simt::host::run_inline({block_count, 1, 1}, {1, 1, 1}, [&] { body(files); }, options);
  }

  void perform(const std::function<void(gfile_ref)> &body) {
    perform(1, 0, 1, body);
  }

  // The frame of the host tier holds bytes of another file.
  void read_other() {
    perform([&](gfile_ref files) {
      int fd = -1;
      u8 bytes[page_size];
      ASSERT_EQ(gopen(files, other_url, g_rdonly, &fd), status::ok);
      ASSERT_EQ(gread(files, fd, bytes, 0, page_size).size, page_size);
      ASSERT_EQ(gclose(files, fd), status::ok);
    });
  }

  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store *store_ = nullptr;
  std::unique_ptr<gfile::session> session_;
  std::function<void()> before_step_ = [] {
  };
};

TEST_F(view, read_that_began_before_a_cut_returns_no_bytes_of_another_file) {
  std::vector<u8> bytes(long_size, 'x');
  int fd = -1;
  perform([&](gfile_ref files) { ASSERT_EQ(gopen(files, url, g_rdonly, &fd), status::ok); });
  read_other();

  // The reader's request reaches the host after the answer to the opener has reached its kernel.
  auto &posted = state().ring.mail->posted;
  std::vector<u32> const before(std::begin(posted), std::end(posted));
  u32 reader_slot = rpc::no_slot, request = 0;
  bool is_open = false;
  before_step_ = [&] {
    for (u32 slot = 0; slot < rpc::slot_count && reader_slot == rpc::no_slot; slot++)
      if (posted[slot] != before[slot])
        reader_slot = slot;
    if (reader_slot == rpc::no_slot)
      return;
    if (posted[reader_slot] != before[reader_slot])
      request = posted[reader_slot];
    posted[reader_slot] = is_open ? request : before[reader_slot];
  };
  perform(2, 0, 1, [&](gfile_ref files) {
    if (simt::block_rank() == 0) {
      gio_result const got = gread(files, fd, bytes.data(), 0, long_size);
      EXPECT_EQ(got.status, status::ok);
      bytes.resize(got.size);
      return;
    }
    while (reader_slot == rpc::no_slot)
      simt::pause();
    store_->contents_set(url, std::string(short_size, 'n'));
    int newer_fd = -1;
    // Flags that no other descriptor has, so the host checks the file again.
    EXPECT_EQ(gopen(files, url, g_rdonly | g_trunc, &newer_fd), status::ok);
    EXPECT_EQ(gfstat(files, newer_fd).size, short_size);
    is_open = true;
  });
  ASSERT_GE(bytes.size(), short_size);
  for (u64 i = 0; i < bytes.size(); i++)
    ASSERT_EQ(bytes[i], i < short_size ? 'n' : 0) << "byte " << i;
}

// A page of an earlier state of the file, with the size of a later one or vice versa, would be read
// past its end.
TEST_F(view, size_and_key_that_a_call_takes_are_of_one_state_of_the_file) {
  int fd = -1;
  perform([&](gfile_ref files) { ASSERT_EQ(gopen(files, url, g_rdonly, &fd), status::ok); });
  constexpr u32 view_count = 64, first_key = 1000;
  auto const size_of = [](u32 file_key) {
    return file_key % 2 == 0 ? long_size : short_size;
  };
  u32 seen_count = 0;
  for (u64 seed = 1; seed <= 40; seed++) {
    bool is_done = false;
    perform(2, 200, seed, [&](gfile_ref) {
      namespace d = gfile::device;
      gfile::node &of = state().nodes[state().descriptors[0].node];
      if (simt::block_rank() == 0) {
        for (u32 i = 0; i < view_count; i++) {
          u32 const file_key = first_key + i, epoch = u32(1000 * seed) + i;
          d::adopt_view(of, {epoch, file_key, size_of(file_key)});
        }
        is_done = true;
        return;
      }
      while (!is_done) {
        d::range_check const seen = d::check_range(state(), fd, 0, 1, d::direction::read);
        ASSERT_EQ(seen.status, status::ok);
        if (seen.file_key < first_key)
          continue;
        seen_count++;
        ASSERT_EQ(seen.file_size, size_of(seen.file_key)) << "key " << seen.file_key;
      }
    });
  }
  EXPECT_GT(seen_count, 1000u);
}

}  // namespace
}  // namespace gfile_sim
