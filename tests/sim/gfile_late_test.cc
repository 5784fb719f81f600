// Goal: a change whose call timed out, and that the host carries out later, is visible to every
// later call. A close that found no request slot is carried out, too. Method: gfile in one thread,
// kernels of one call each; the test stalls the store, or the host's service, while a call's time
// runs out.
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

using tanada::gfile_ref;
using tanada::status;
using tanada::u32;
using tanada::u64;
using tanada::u8;
using namespace tanada;

constexpr u64 file_size = 3 * 4096 + 10, timeout_ns = 1'000'000;
constexpr const char *url = "sim://late";
// Of 32 blocks that claim a slot, this one's is in the last part of the mailbox, which the host
// polls last.
constexpr u32 last_block = 9, slot_of_first_block = 0;

class late : public testing::Test {
 protected:
  void SetUp() override {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.page_size = 4096;
    config.device_tier_size = 16 * 4096;
    config.host_tier_size = 16 * 4096;
    config.service_threads = 0;
    config.file_count_max = 64;
    config.timeout_ns = 100'000'000;
    auto stores = std::make_unique<backends::store_registry>();
    auto made_store = std::make_unique<sim::store>(world_);
    store_ = made_store.get();
    stores->add(std::move(made_store));
    auto made = tanada::gfile::session::create(
        config, {seams::host_gpu_open(), std::move(stores), &clock_});
    ASSERT_TRUE(made.ok());
    session_ = std::move(made).value();
    perform([&](gfile_ref files) {
      fd_ = -1;
      ASSERT_EQ(gopen(files, url, g_rdwr | g_creat, &fd_), status::ok);
      std::vector<u8> const bytes(file_size, 7);
      ASSERT_EQ(gwrite(files, fd_, bytes.data(), 0, bytes.size()).status, status::ok);
      ASSERT_EQ(gfsync(files, fd_), status::ok);
    });
    ASSERT_EQ(read_all(), file_size);  // so that kernels hold the pages
  }

  void TearDown() override {
    store_->heal();
    if (session_ != nullptr) {
      EXPECT_EQ(session_->shut_down(), status::ok);
    }
  }

  tanada::gfile::device_state &state() {
    return *static_cast<tanada::gfile::device_state *>(session_->ref().state);
  }

  // One thread of block `block` runs `body`; the host serves while `is_served`.
  void perform(const std::function<void(gfile_ref)> &body, u32 block = 0) {
    simt::host::inline_options options;
    options.seed = 1;
    options.between_turns = [this] {
      if (is_served_())
        (void)session_->service().step(0);
      world_.advance(1'000);
    };
    options.clock_ns = [this] {
      return world_.now_ns();
    };
    gfile_ref const files{session_->ref().state, timeout_ns};
    simt::host::run_inline(
        {block + 1, 1, 1},
        {1, 1, 1},
        [&] {
          if (simt::block_rank() == block)
            body(files);
        },
        options);
  }

  // The request completes.
  void settle() {
    for (u32 i = 0; i < 5'000; i++) {
      (void)session_->service().step(0);
      world_.advance(10'000);
    }
  }

  // The host serves no request until one is posted in the first block's slot.
  void serve_first_block_first() {
    u32 const before = state().ring.mail->posted[slot_of_first_block];
    is_served_ = [this, before] {
      return state().ring.mail->posted[slot_of_first_block] != before;
    };
  }

  u64 size() {
    u64 seen = 0;
    perform([&](gfile_ref files) {
      gstat_result const got = gfstat(files, fd_);
      EXPECT_EQ(got.status, status::ok);
      seen = got.size;
    });
    return seen;
  }

  u64 read_all() {
    std::vector<u8> bytes(2 * file_size);
    u64 seen = 0;
    perform([&](gfile_ref files) {
      gio_result const got = gread(files, fd_, bytes.data(), 0, bytes.size());
      EXPECT_EQ(got.status, status::ok);
      seen = got.size;
    });
    return seen;
  }

  status open(int flags, int &fd, u32 block = 0) {
    status code = status::ok;
    perform([&](gfile_ref files) { code = gopen(files, url, flags, &fd); }, block);
    return code;
  }

  u64 requests() {
    tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
    EXPECT_EQ(session_->get_statistics(all), status::ok);
    return all.requests;
  }

  u32 opens() {
    std::vector<tnd_gfile_file> files;
    EXPECT_EQ(session_->get_files(files), status::ok);
    u32 sum = 0;
    for (auto const &each : files)
      sum += each.opens;
    return sum;
  }

  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store *store_ = nullptr;
  std::unique_ptr<tanada::gfile::session> session_;
  std::function<bool()> is_served_ = [] {
    return true;
  };
  int fd_ = -1;
};

TEST_F(late, truncate_of_a_slow_store_is_seen_once_it_is_done) {
  store_->stall();
  perform([&](gfile_ref files) { EXPECT_EQ(gftruncate(files, fd_, 100), status::timed_out); });
  EXPECT_EQ(size(), file_size);
  store_->heal();
  settle();
  EXPECT_EQ(size(), 100u);
  EXPECT_EQ(read_all(), 100u);
}

TEST_F(late, truncate_is_seen_by_a_read_and_asked_about_no_longer) {
  store_->stall();
  perform([&](gfile_ref files) { EXPECT_EQ(gftruncate(files, fd_, 4096), status::timed_out); });
  EXPECT_EQ(read_all(), file_size);
  store_->heal();
  settle();
  EXPECT_EQ(read_all(), 4096u);
  u64 const before = requests();
  EXPECT_EQ(size(), 4096u);
  EXPECT_EQ(read_all(), 4096u);
  EXPECT_EQ(requests(), before);
}

TEST_F(late, truncate_that_the_host_sees_after_a_later_question_is_seen) {
  is_served_ = [] {
    return false;
  };
  perform([&](gfile_ref files) { EXPECT_EQ(gftruncate(files, fd_, 100), status::timed_out); },
          last_block);
  serve_first_block_first();
  EXPECT_EQ(size(), file_size);
  is_served_ = [] {
    return true;
  };
  settle();
  EXPECT_EQ(size(), 100u);
  EXPECT_EQ(read_all(), 100u);
}

TEST_F(late, write_after_a_truncate_that_timed_out_makes_the_file_longer) {
  store_->stall();
  perform([&](gfile_ref files) { EXPECT_EQ(gftruncate(files, fd_, 100), status::timed_out); });
  store_->heal();
  settle();
  perform(
      [&](gfile_ref files) { EXPECT_EQ(gwrite(files, fd_, "late", 5000, 4).status, status::ok); });
  EXPECT_EQ(size(), 5004u);
  EXPECT_EQ(read_all(), 5004u);
}

TEST_F(late, open_that_truncates_is_seen_by_who_has_the_file_open) {
  int fd = -1;
  store_->stall();
  EXPECT_EQ(open(g_rdwr | g_trunc, fd), status::timed_out);
  EXPECT_EQ(size(), file_size);
  store_->heal();
  settle();
  EXPECT_EQ(size(), 0u);
}

TEST_F(late, open_that_truncates_is_seen_by_an_open_that_the_host_saw_before) {
  int fd = -1;
  is_served_ = [] {
    return false;
  };
  EXPECT_EQ(open(g_rdwr | g_trunc, fd, last_block), status::timed_out);
  serve_first_block_first();
  EXPECT_EQ(open(g_rdwr, fd_), status::ok);
  is_served_ = [] {
    return true;
  };
  settle();
  EXPECT_EQ(size(), 0u);
}

TEST_F(late, unlink_of_a_slow_store_leaves_no_descriptor_to_join) {
  store_->stall();
  perform([&](gfile_ref files) { EXPECT_EQ(gunlink(files, url), status::timed_out); });
  store_->heal();
  settle();
  int fd = -1;
  EXPECT_EQ(open(g_rdwr | g_creat, fd), status::ok);
  std::swap(fd, fd_);
  EXPECT_EQ(size(), 0u) << "a new file";
  std::swap(fd, fd_);
  EXPECT_EQ(size(), file_size) << "the file that is open keeps its bytes";
}

TEST_F(late, unlink_that_the_host_sees_after_an_open_leaves_no_descriptor_to_join) {
  is_served_ = [] {
    return false;
  };
  perform([&](gfile_ref files) { EXPECT_EQ(gunlink(files, url), status::timed_out); }, last_block);
  serve_first_block_first();
  int fd = -1;
  EXPECT_EQ(open(g_rdonly, fd), status::ok) << "the file is there as yet";
  is_served_ = [] {
    return true;
  };
  settle();
  EXPECT_EQ(open(g_rdonly, fd), status::no_entry);
}

// ---- closes without a slot

class late_close : public late {
 protected:
  // Other requests hold every slot while `body` runs.
  void perform_without_slots(const std::function<void(gfile_ref)> &body) {
    auto &slots = state().ring.slots->slots;
    u64 before[rpc::slot_count];
    std::copy(std::begin(slots), std::end(slots), before);
    for (u64 &word : slots)
      word |= rpc::slot_word::claimed;
    perform(body);
    std::copy(std::begin(before), std::end(before), slots);
  }

  void write_some() {
    perform(
        [&](gfile_ref files) { EXPECT_EQ(gwrite(files, fd_, "late", 0, 4).status, status::ok); });
  }
};

TEST_F(late_close, without_a_slot_is_carried_out_by_the_host) {
  write_some();
  perform_without_slots([&](gfile_ref files) { EXPECT_EQ(gclose(files, fd_), status::timed_out); });
  EXPECT_EQ(opens(), 1u);
  settle();
  EXPECT_EQ(opens(), 0u);
  EXPECT_EQ(store_->contents(url).value().substr(0, 4), "late");
}

TEST_F(late_close, without_a_slot_counts_once_for_each) {
  int readers[3];
  for (int &fd : readers)
    EXPECT_EQ(open(g_rdonly, fd), status::ok);  // one descriptor
  int writer = -1;
  EXPECT_EQ(open(g_wronly, writer), status::ok);
  ASSERT_EQ(opens(), 3u);
  for (int fd : {readers[0], readers[1], readers[2], writer})
    perform_without_slots([&](gfile_ref files) { (void)gclose(files, fd); });
  settle();
  EXPECT_EQ(opens(), 1u) << "the fixture's";
  EXPECT_EQ(read_all(), file_size);
  perform_without_slots([&](gfile_ref files) { (void)gclose(files, fd_); });
  EXPECT_EQ(open(g_rdonly, fd_), status::ok);
  settle();
  EXPECT_EQ(opens(), 1u) << "the close before the open is not taken for the open's";
}

TEST_F(late_close, without_a_slot_is_of_no_later_file_with_its_number) {
  perform_without_slots([&](gfile_ref files) { EXPECT_EQ(gclose(files, fd_), status::timed_out); });
  settle();
  perform([&](gfile_ref files) { EXPECT_EQ(gunlink(files, url), status::ok); });
  EXPECT_EQ(open(g_rdwr | g_creat, fd_), status::ok);
  settle();
  EXPECT_EQ(opens(), 1u);
}

TEST_F(late_close, without_a_slot_keeps_its_error_for_the_host) {
  sim::store_faults faults;
  faults.errors[size_t(seams::store_op_kind::close)] = {100, status::stale};
  store_->faults_set(faults);
  perform_without_slots([&](gfile_ref files) { EXPECT_EQ(gclose(files, fd_), status::timed_out); });
  settle();
  EXPECT_EQ(session_->wait(0), status::stale);
  EXPECT_EQ(session_->wait(0), status::ok);
}

// ---- failures of write-back, which each descriptor returns that was open

class late_failure : public late_close {
 protected:
  void SetUp() override {
    late::SetUp();
    set_write_error(100);
  }
  void TearDown() override {
    set_write_error(0);
    late::TearDown();
  }

  void set_write_error(u32 percent) {
    sim::store_faults faults;
    faults.errors[size_t(seams::store_op_kind::write)] = {percent, status::no_space};
    store_->faults_set(faults);
  }

  status sync(int fd) {
    status code = status::ok;
    perform([&](gfile_ref files) { code = gfsync(files, fd); });
    return code;
  }

  status close(int fd) {
    status code = status::ok;
    perform([&](gfile_ref files) { code = gclose(files, fd); });
    return code;
  }
};

TEST_F(late_failure, is_returned_once_to_a_descriptor) {
  write_some();
  EXPECT_EQ(sync(fd_), status::no_space);
  EXPECT_EQ(sync(fd_), status::ok) << "nothing is left to be written";
  write_some();
  EXPECT_EQ(sync(fd_), status::no_space);
  set_write_error(0);
  write_some();
  EXPECT_EQ(sync(fd_), status::ok);
  EXPECT_EQ(close(fd_), status::ok);
  EXPECT_EQ(session_->wait(0), status::ok);
}

TEST_F(late_failure, is_returned_to_each_descriptor_that_was_open) {
  int other = -1;
  ASSERT_EQ(open(g_wronly, other), status::ok);
  write_some();
  settle();
  EXPECT_EQ(close(other), status::no_space);
  ASSERT_EQ(open(g_wronly, other), status::ok);
  EXPECT_EQ(sync(other), status::ok) << "it was opened after the failure";
  EXPECT_EQ(sync(fd_), status::no_space);
  EXPECT_EQ(close(fd_), status::ok);
  EXPECT_EQ(close(other), status::ok);
}

TEST_F(late_failure, is_returned_to_all_callers_that_share_a_descriptor) {
  int other = -1;
  ASSERT_EQ(open(g_rdwr | g_creat, other), status::ok);
  ASSERT_EQ(other, fd_);
  write_some();
  EXPECT_EQ(sync(other), status::no_space);
  EXPECT_EQ(sync(fd_), status::no_space);
  EXPECT_EQ(close(other), status::ok) << "the descriptor stays open";
  EXPECT_EQ(close(fd_), status::no_space);
}

TEST_F(late_failure, is_not_taken_by_an_earlier_close_without_a_slot) {
  int earlier = -1;
  ASSERT_EQ(open(g_wronly, earlier), status::ok);
  perform_without_slots(
      [&](gfile_ref files) { EXPECT_EQ(gclose(files, earlier), status::timed_out); });
  write_some();
  settle();
  ASSERT_EQ(opens(), 1u);
  EXPECT_EQ(sync(fd_), status::no_space);
  EXPECT_EQ(session_->wait(0), status::no_space) << "of the close";
}

TEST_F(late_failure, is_not_taken_by_the_host) {
  write_some();
  settle();
  EXPECT_EQ(session_->wait(0), status::no_space);
  EXPECT_EQ(session_->wait(0), status::ok);
  EXPECT_EQ(sync(fd_), status::no_space);
}

// ---- files that are only read

class late_reader : public late {
 protected:
  void SetUp() override {
    late::SetUp();
    close(fd_);
    fd_ = -1;
  }

  void close(int fd) {
    perform([&](gfile_ref files) { EXPECT_EQ(gclose(files, fd), status::ok); });
  }

  // The kernel's close is posted. The host does not reach it before a request is posted in the
  // first block's slot.
  void close_unserved(int fd) {
    is_served_ = [] {
      return false;
    };
    close(fd);
    serve_first_block_first();
  }

  // Another node replaces the file by another one.
  void replace(const std::string &name, const std::string &bytes) {
    auto const queue = std::move(store_->queue_create(4)).value();
    auto const now = [&](seams::store_op op) {
      EXPECT_EQ(queue->post(std::move(op)), status::ok);
      seams::store_completion done[1];
      while (queue->poll(done) == 0)
        world_.advance(1'000);
      return done[0].file;
    };
    seams::store_op op;
    op.kind = seams::store_op_kind::unlink;
    op.url = name;
    (void)now(op);
    op.kind = seams::store_op_kind::open;
    op.open_flags = {.read = true, .write = true, .create = true};
    op.file = now(op);
    op.kind = seams::store_op_kind::close;
    (void)now(op);
    store_->contents_set(name, bytes);
  }

  // Opens, reads and closes a file of one page that is new to the instance.
  struct outcome {
    status opened, read;
    u64 requests;
  };
  outcome read_once(u32 number) {
    std::string const name = "sim://small" + std::to_string(number);
    store_->contents_set(name, std::string(1'000, char('a' + number % 26)));
    outcome seen{};
    u64 const before = requests();
    int fd = -1;
    char bytes[1'000];
    perform([&](gfile_ref files) {
      seen.opened = gopen(files, name.c_str(), g_rdonly, &fd);
      seen.read = gread(files, fd, bytes, 0, sizeof bytes).status;
      EXPECT_EQ(gclose(files, fd), status::ok);
    });
    bool const is_good = seen.read != status::ok || bytes[999] == char('a' + number % 26);
    EXPECT_TRUE(is_good) << name;
    settle();
    seen.requests = requests() - before;
    return seen;
  }
};

TEST_F(late_reader, an_open_is_served_after_the_close_before_it) {
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  close_unserved(fd_);
  replace(url, "another");
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  EXPECT_EQ(size(), 7u);
  EXPECT_EQ(read_all(), 7u);
  close(fd_);
}

TEST_F(late_reader, an_open_waits_for_a_close_that_is_on_its_way) {
  u64 const ticket = state().closes_posted++;
  EXPECT_EQ(open(g_rdonly, fd_), status::timed_out);
  EXPECT_EQ(opens(), 0u);
  using tanada::gfile::close_list_size;
  state().closes->entries[ticket % close_list_size] = tanada::gfile::close_entry(ticket, 60);
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  settle();
  EXPECT_EQ(opens(), 1u) << "the open that nobody waited for is not carried out";
  close(fd_);
}

TEST_F(late_reader, a_name_is_deleted_after_the_close_before) {
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  close_unserved(fd_);
  perform([&](gfile_ref files) { EXPECT_EQ(gunlink(files, url), status::ok); });
  EXPECT_EQ(opens(), 0u);
  EXPECT_EQ(open(g_rdonly, fd_), status::no_entry);
}

TEST_F(late_reader, closes_that_are_pending_at_the_end_are_carried_out) {
  int fds[3];
  for (u32 i = 0; i < 3; i++) {
    std::string const name = "sim://pending" + std::to_string(i);
    store_->contents_set(name, "bytes");
    perform([&](gfile_ref files) {
      ASSERT_EQ(gopen(files, name.c_str(), g_rdonly, &fds[i]), status::ok);
    });
  }
  for (int fd : fds)
    close_unserved(fd);
  EXPECT_EQ(opens(), 3u);
  is_served_ = [] {
    return true;
  };
  EXPECT_EQ(session_->shut_down(), status::ok);
  EXPECT_EQ(opens(), 0u);
}

TEST_F(late_reader, a_wait_comes_after_the_closes_of_kernels) {
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  close_unserved(fd_);
  EXPECT_EQ(opens(), 1u);
  EXPECT_EQ(session_->wait(50'000'000), status::ok);
  EXPECT_EQ(opens(), 0u);
}

TEST_F(late_reader, a_close_that_fails_after_reading_has_lost_nothing) {
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  sim::store_faults faults;
  faults.errors[size_t(seams::store_op_kind::close)] = {100, status::stale};
  store_->faults_set(faults);
  close(fd_);
  settle();
  EXPECT_EQ(opens(), 0u);
  EXPECT_EQ(session_->wait(0), status::ok);
}

TEST_F(late_reader, a_close_of_a_store_that_does_not_answer_holds_up_one_wait) {
  ASSERT_EQ(open(g_rdonly, fd_), status::ok);
  store_->stall();
  close(fd_);
  u64 const began_ns = world_.now_ns();
  EXPECT_EQ(session_->wait(TND_NO_DEADLINE), status::ok);
  u64 const first_ns = world_.now_ns() - began_ns;
  EXPECT_GE(first_ns, 100'000'000u) << "the instance's timeout";
  EXPECT_EQ(session_->wait(TND_NO_DEADLINE), status::ok);
  EXPECT_LT(world_.now_ns() - began_ns - first_ns, 1'000'000u);
}

// The simulated store sometimes returns bytes with an open.
TEST_F(late_reader, a_small_file_takes_one_request_where_its_bytes_come_with_the_open) {
  u32 count[3] = {};
  for (u32 i = 0; i < 24; i++) {
    outcome const seen = read_once(i);
    EXPECT_EQ(seen.read, status::ok);
    ASSERT_TRUE(seen.requests == 1 || seen.requests == 2) << seen.requests;
    count[seen.requests]++;
  }
  EXPECT_GT(count[1], 0u);
  EXPECT_GT(count[2], 0u);
}

TEST_F(late_reader, an_open_without_its_bytes_is_good_and_the_read_has_the_error) {
  sim::store_faults faults;
  faults.errors[size_t(seams::store_op_kind::read)] = {100, status::io};
  store_->faults_set(faults);
  u32 failed = 0;
  for (u32 i = 0; i < 24; i++) {
    outcome const seen = read_once(i);
    EXPECT_EQ(seen.opened, status::ok);
    EXPECT_TRUE(seen.read == status::ok || seen.read == status::io);
    failed += seen.read == status::io;
  }
  EXPECT_GT(failed, 0u);
}

// ---- an end that is late

class late_end : public late {
 protected:
  void write(u64 offset) {
    perform([&](gfile_ref files) {
      EXPECT_EQ(gwrite(files, fd_, "late", offset, 4).status, status::ok);
    });
  }
};

TEST_F(late_end, tells_the_write_error_that_is_known) {
  sim::store_faults faults;
  faults.errors[size_t(seams::store_op_kind::write)] = {100, status::no_space};
  store_->faults_set(faults);
  write(0);
  settle();
  store_->faults_set({});
  store_->stall();
  write(4096);
  testing::internal::CaptureStderr();
  EXPECT_EQ(session_->shut_down(), status::no_space);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("did not reach its store: ENOSPC"),
            std::string::npos);
  EXPECT_TRUE(session_->must_leak());
  std::string const said = tnd_last_message();
  EXPECT_NE(said.find("ENOSPC"), std::string::npos) << said;
  EXPECT_NE(said.find("within the timeout"), std::string::npos) << said;
}

TEST_F(late_end, is_a_timeout_where_no_error_is_known) {
  store_->stall();
  write(4096);
  EXPECT_EQ(session_->shut_down(), status::timed_out);
  EXPECT_TRUE(session_->must_leak());
}

}  // namespace
}  // namespace gfile_sim
