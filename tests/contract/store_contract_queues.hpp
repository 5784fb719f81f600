// tests/contract/store_contract_queues.hpp: what every store must do when operations are many,
// late, or several queues'. Each binary that includes this instantiates the suite with the stores
// it runs: INSTANTIATE_TEST_SUITE_P(name, store_contract, testing::Values(...)).
#pragma once

#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "contract/store_contract.hpp"

namespace tanada::contract {

TEST_P(store_contract, a_full_queue_says_again_and_recovers) {
  fill("a", "0123456789");
  auto const file = driver().must_open(url("a"), store_read_only);
  auto made = subject_->store().queue_create(4);
  ASSERT_TRUE(made.ok());
  auto const queue = std::move(made).value();
  char bytes[4];
  seams::store_completion done[8];
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < 6; i++) {
      seams::store_op op;
      op.op_id = i;
      op.file = file;
      op.offset = i;
      op.buffers = {{reinterpret_cast<std::byte *>(&bytes[i % 4]), 1}};
      EXPECT_EQ(queue->post(op), i < 4 ? status::ok : status::again);
    }
    EXPECT_EQ(queue->pending_count(), 4u);
    size_t count = 0;
    for (int i = 0; i < 100'000 && count < 4; i++) {
      count += queue->poll(std::span{done}.subspan(count));
      if (count < 4)
        subject_->idle();
    }
    EXPECT_EQ(count, 4u);
    std::set<uint64_t> ids;
    for (size_t i = 0; i < count; i++) {
      EXPECT_EQ(done[i].code, status::ok);
      ids.insert(done[i].op_id);
    }
    EXPECT_EQ(ids, (std::set<uint64_t>{0, 1, 2, 3}));
    EXPECT_EQ(std::memcmp(bytes, "0123", 4), 0);
    EXPECT_EQ(queue->poll(done), 0u);
    EXPECT_EQ(queue->pending_count(), 0u);
  }
  EXPECT_FALSE(subject_->store().queue_create(0).ok());
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, a_deadline_in_the_past_is_timed_out) {
  fill("a", "0123456789");
  auto const file = driver().must_open(url("a"), store_update);
  for (auto const kind :
       {seams::store_op_kind::read, seams::store_op_kind::write, seams::store_op_kind::sync}) {
    char byte = '!';
    seams::store_op op;
    op.kind = kind;
    op.file = file;
    op.deadline_ns = 1;
    op.buffers = {{reinterpret_cast<std::byte *>(&byte), 1}};
    auto const done = driver().run(op);
    EXPECT_TRUE(done.code == status::timed_out || done.code == status::ok) << int(done.code);
    EXPECT_TRUE(byte == '!' || done.code == status::ok);  // a read given up has touched nothing
  }
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, a_far_deadline_changes_nothing) {
  fill("a", "0123456789");
  auto const file = driver().must_open(url("a"), store_read_only);
  char byte = '!';
  seams::store_op op;
  op.file = file;
  op.deadline_ns = seams::deadline_after(subject_->time().now_ns(), 20'000'000'000);
  op.buffers = {{reinterpret_cast<std::byte *>(&byte), 1}};
  EXPECT_EQ(driver().run(op).code, status::ok);
  EXPECT_EQ(byte, '0');
  EXPECT_EQ(driver().close(file).code, status::ok);
}

// Every thread (or, where one thread must do, every turn) writes and reads its own parts of one
// shared file over a queue of its own, many operations in flight, and counts one completion a post.
class store_contract_worker {
 public:
  static constexpr uint32_t block_size = 3000, blocks = 24;

  store_contract_worker(store_subject &subject, seams::store_file file, uint32_t rank)
      : subject_{subject}, file_{file}, rank_{rank}, driver_{subject, 8} {}

  void work(seams::store_op_kind kind) {
    std::vector<std::string> texts(blocks);
    std::vector<uint32_t> completed(blocks);
    uint32_t posted = 0, reaped = 0;
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (reaped < blocks && std::chrono::steady_clock::now() < limit) {
      while (posted < blocks && post(kind, posted, texts[posted]))
        posted++;
      seams::store_completion done[3];
      size_t const count = driver_.queue->poll(done);
      for (size_t i = 0; i < count; i++) {
        EXPECT_EQ(done[i].code, status::ok);
        EXPECT_EQ(done[i].size, block_size);
        completed.at(done[i].op_id)++;
      }
      reaped += uint32_t(count);
      if (count == 0)
        subject_.idle();
    }
    EXPECT_EQ(completed, std::vector<uint32_t>(blocks, 1));
    for (uint32_t i = 0; i < blocks; i++)
      EXPECT_EQ(texts[i], store_pattern(block_size, rank_ * 1000 + i));
  }

 private:
  bool post(seams::store_op_kind kind, uint32_t index, std::string &text) {
    text = kind == seams::store_op_kind::write ? store_pattern(block_size, rank_ * 1000 + index)
                                               : std::string(block_size, '?');
    seams::store_op op;
    op.kind = kind;
    op.op_id = index;
    op.file = file_;
    op.offset = (uint64_t{rank_} * blocks + index) * block_size;
    op.buffers = {{reinterpret_cast<std::byte *>(text.data()), text.size()}};
    auto const code = driver_.queue->post(std::move(op));
    EXPECT_TRUE(code == status::ok || code == status::again);
    return code == status::ok;
  }

  store_subject &subject_;
  seams::store_file file_;
  uint32_t rank_;
  store_driver driver_;
};

TEST_P(store_contract, several_queues_and_threads_share_a_file) {
  auto const file = driver().must_open(url("a"), store_make);
  for (auto const kind : {seams::store_op_kind::write, seams::store_op_kind::read}) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 4; rank++) {
      auto const turn = [&, rank] {
        store_contract_worker{*subject_, file, rank}.work(kind);
      };
      if (subject_->threads())
        threads.emplace_back(turn);
      else
        turn();
    }
    for (auto &thread : threads)
      thread.join();
  }
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, a_queue_may_go_with_reaped_and_unreaped_operations) {
  fill("a", "0123456789");
  auto const file = driver().must_open(url("a"), store_read_only);
  std::vector<char> bytes(8);  // outlives the queue
  auto made = subject_->store().queue_create(8);
  ASSERT_TRUE(made.ok());
  auto queue = std::move(made).value();
  for (size_t i = 0; i < bytes.size(); i++) {
    seams::store_op op;
    op.file = file;
    op.buffers = {{reinterpret_cast<std::byte *>(&bytes[i]), 1}};
    EXPECT_EQ(queue->post(op), status::ok);
  }
  queue.reset();
  EXPECT_EQ(driver().close(file).code, status::ok);
}

}  // namespace tanada::contract
