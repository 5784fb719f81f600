// Goal: pages of a hung store leave space in every set of the host tier for pages of other files
// and stores. Method: only the core; the test takes the outbox and completes selected operations.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "products/gfile/host/core.hpp"

namespace tanada::gfile {
namespace {

constexpr uint32_t stalled_page_size = 4096;
constexpr uint32_t frame_count = 64;
constexpr uint64_t stalled_page_count = 100'000;  // of each file

// The core uses a store only to distinguish it from others.
class named_store final : public seams::store {
 public:
  explicit named_store(std::string scheme) : scheme_{std::move(scheme)} {}
  std::string_view scheme() const noexcept override {
    return scheme_;
  }
  result<std::unique_ptr<seams::store_queue>> queue_create(uint32_t) override {
    return status::not_supported;
  }

 private:
  std::string const scheme_;
};

// Stops until the test advances it.
class still_clock final : public seams::clock {
 public:
  uint64_t now_ns() noexcept override {
    return now_ns_;
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    now_ns_ += duration_ns;
  }

 private:
  uint64_t now_ns_ = 1'000'000'000;
};

class stalled_store : public testing::Test {
 protected:
  explicit stalled_store(uint32_t file_count_max = 8, uint32_t open_read_size_max = 0)
      : options_{.page_size = stalled_page_size,
                 .page_shift = 12,
                 .file_count_max = file_count_max,
                 .on_recycled = {},
                 .open_read_size_max = open_read_size_max} {}

  void SetUp() override {
    for (const char *scheme : {"slow", "quick"})
      stores_.add(std::make_unique<named_store>(scheme));
  }

  uint32_t open(const std::string &url) {
    uint32_t const file = opened_++;
    send_request(op::open, 0, {}, url);
    for (auto &io : outbox()) {
      seams::store_completion done;
      done.file = file + 1;
      done.stat = {
          .size = stalled_page_count * stalled_page_size, .version = 1, .is_version_stable = true};
      core_.on_completion(std::move(io), std::move(done));
    }
    return file;
  }

  // Returns true if the page was requested from its store.
  bool request_page(uint32_t file, uint64_t page) {
    send_request(op::read, file, page, "");
    auto operations = outbox();
    for (auto &io : operations)
      unfinished_.push_back(std::move(io));
    return !operations.empty();
  }

  // Post an open that waits for another file's close, or for its store. Returns its slot.
  uint32_t request_open(const std::string &url) {
    send_request(op::open, 0, {}, url);
    return slot_ - 1;
  }

  // Cancel the request of the kernel that waits at the slot.
  void cancel(uint32_t slot) {
    mail_->finished[slot][1] = 1 << 1 | 1;
  }

  void request_close(uint32_t file) {
    send_request(op::close, file, 0, "");
  }

  void tick() {
    core_.tick();
  }

  // Complete all operations posted since the last call, opens with `open_code`. Returns the URLs of
  // the opens.
  std::vector<std::string> complete_all(status open_code = status::ok) {
    std::vector<std::string> opened;
    for (auto operations = outbox(); !operations.empty(); operations = outbox()) {
      for (auto &io : operations) {
        seams::store_completion done;
        if (io->body.kind == seams::store_op_kind::open) {
          opened.push_back(io->body.url);
          done.code = open_code;
        }
        done.file = 100 + opened.size();
        done.stat = {.size = stalled_page_size, .version = 1, .is_version_stable = true};
        core_.on_completion(std::move(io), std::move(done));
      }
    }
    return opened;
  }

  status code_of(uint32_t slot) const {
    return status(int32_t(mail_->answers[slot].head[0] & 0xffffffff));
  }

  // Pages of a file that belong to the set of the host tier.
  std::vector<uint64_t> pages_of_set(uint32_t file, uint32_t set, size_t count) const {
    std::vector<uint64_t> pages;
    for (uint64_t page = 0; pages.size() < count && page < stalled_page_count;
         page += 64)  // not sequential, so nothing is read ahead
      if (table_.set_of(tier::page_key(file + 1, page)) == set)
        pages.push_back(page);  // keys are assigned in order
    return pages;
  }

  uint32_t ways() const {
    return table_.shape.ways;
  }

  std::vector<std::unique_ptr<operation>> outbox() {
    std::vector<std::unique_ptr<operation>> operations;
    core_.empty_outbox([&](std::unique_ptr<operation> io) { operations.push_back(std::move(io)); });
    return operations;
  }

  bool core_is_idle() const {
    return core_.idle();
  }

  void complete(std::unique_ptr<operation> io) {
    core_.on_completion(std::move(io), {});
  }

 private:
  void send_request(op operation, uint32_t file, uint64_t page, const std::string &url) {
    uint32_t const slot = slot_++;
    rpc::request &request = mail_->requests[slot];
    request.op = u32(operation);
    request.file = file;
    request.words[0] = page;
    request.words[1] = 1;
    std::memcpy(mail_->texts[slot], url.c_str(), url.size() + 1);
    mail_->posted[slot] = 1 << 1;
    for (uint32_t share = 0; share < rpc::share_count; share++)
      server_.poll(share, core_);
  }

  backends::store_registry stores_;
  std::unique_ptr<rpc::mailbox> mail_ = std::make_unique<rpc::mailbox>();
  rpc::server server_{*mail_};
  tier::geometry const shape_ = tier::geometry_of(frame_count);
  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(65536);
  host_table const table_ =
      tier::table_over<simt::scope::system>(memory_.get(), shape_, tier::replacement::lru);
  std::vector<u8> frames_ = std::vector<u8>(size_t(frame_count) * stalled_page_size);
  core_options const options_;
  still_clock clock_;
  core core_{options_,
             server_,
             {.host = {table_, frames_.data(), 12, 0}, .window = {}},
             stores_,
             clock_,
             nullptr};
  std::vector<std::unique_ptr<operation>> unfinished_;  // never completed
  uint32_t slot_ = 0, opened_ = 0;
};

TEST_F(stalled_store, a_file_leaves_room_in_each_set_for_others_of_its_store_and_of_other_stores) {
  uint32_t const first = open("slow://first"), second = open("slow://second"),
                 quick = open("quick://other");
  ASSERT_EQ(ways(), 8u);
  uint32_t held_count = 0;
  for (uint64_t page : pages_of_set(first, 3, 12))
    held_count += request_page(first, page);
  EXPECT_EQ(held_count, ways() - 2);
  EXPECT_TRUE(request_page(second, pages_of_set(second, 3, 1)[0]));
  EXPECT_FALSE(request_page(second, pages_of_set(second, 3, 2)[1]))
      << "the store has all it may hold of the set";
  EXPECT_TRUE(request_page(quick, pages_of_set(quick, 3, 1)[0]));
  EXPECT_TRUE(request_page(second, pages_of_set(second, 4, 1)[0])) << "another set";
}

// Otherwise it could truncate or create a file whose caller received a failure.
TEST_F(stalled_store, an_open_that_its_caller_gave_up_is_not_carried_out_once_a_record_is_free) {
  for (int i = 0; i < 8; i++)
    (void)open("quick://" + std::to_string(i));
  tick();
  uint32_t const canceled = request_open("quick://given-up"),
                 waiting = request_open("quick://patient");
  EXPECT_TRUE(complete_all().empty());
  cancel(canceled);
  request_close(0);
  (void)complete_all();
  tick();
  EXPECT_EQ(complete_all(), std::vector<std::string>{"quick://patient"});
  EXPECT_EQ(code_of(canceled), status::canceled);
  EXPECT_EQ(code_of(waiting), status::ok);
}

// Several opens of one file are deferred. Only a file that is closed can make them succeed.
TEST_F(stalled_store, opens_without_a_descriptor_are_retried_only_after_a_close) {
  uint32_t const held = open("quick://held");
  tick();
  uint32_t const first = request_open("quick://wanted");
  (void)request_open("quick://wanted");
  (void)request_open("quick://wanted");
  EXPECT_EQ(complete_all(status::too_many_files).size(), 3u);
  tick();
  EXPECT_TRUE(complete_all().empty()) << "no file was closed";
  request_close(held);
  (void)complete_all();
  tick();
  EXPECT_EQ(complete_all(), std::vector<std::string>{"quick://wanted"});
  EXPECT_EQ(code_of(first), status::ok);
}

// To pass an operation to another thread and back takes longer than a close.
TEST_F(stalled_store, closes_of_readers_share_an_operation_unless_the_store_would_wait) {
  uint32_t const first = open("quick://first"), second = open("quick://second"),
                 slow = open("slow://third");
  for (uint32_t file : {first, second, slow})
    request_close(file);
  auto batches = outbox();
  ASSERT_EQ(batches.size(), 2u) << "one for each store";
  ASSERT_EQ(batches[0]->type, operation::kind::close_batch);
  ASSERT_EQ(batches[0]->closes.size(), 2u);
  ASSERT_EQ(batches[1]->closes.size(), 1u);
  EXPECT_EQ(batches[0]->closes[1].store_file, second + 1);
  batches[0]->closes[0].is_done = true;
  complete(std::move(batches[0]));
  auto single = outbox();
  ASSERT_EQ(single.size(), 1u) << "only the close that was not done";
  EXPECT_EQ(single[0]->type, operation::kind::close);
  EXPECT_EQ(single[0]->body.file, second + 1);
  EXPECT_FALSE(core_is_idle());
  complete(std::move(single[0]));
  batches[1]->closes[0].is_done = true;
  complete(std::move(batches[1]));
  EXPECT_TRUE(core_is_idle());
}

class store_of_small_files : public stalled_store {
 protected:
  store_of_small_files() : stalled_store{64, 2 * stalled_page_size} {}
};

// Otherwise the bytes of most files would find no frame, and each of them would need two requests.
TEST_F(store_of_small_files, has_so_many_opens_at_a_time_that_each_has_frames) {
  std::vector<uint32_t> slots;
  for (int i = 0; i < 20; i++)
    slots.push_back(request_open("slow://" + std::to_string(i)));
  auto first = outbox();
  ASSERT_EQ(first.size(), 8u);
  for (auto const &io : first)
    EXPECT_FALSE(io->frames.empty()) << io->body.url;
  (void)request_open("quick://other");
  EXPECT_EQ(complete_all(), std::vector<std::string>{"quick://other"}) << "another store";
  complete(std::move(first[0]));
  EXPECT_EQ(complete_all().size(), 12u) << "each that ends lets another begin";
  EXPECT_EQ(code_of(slots[19]), status::ok);
}

}  // namespace
}  // namespace tanada::gfile
