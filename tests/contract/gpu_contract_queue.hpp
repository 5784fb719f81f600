// The contract of seams/gpu/device_queue.hpp, as a typed suite: see gpu_contract.hpp.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "contract/gpu_kernels.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::contract {

// Two blocks of device memory, the second by a mapping as another process's is, and another
// device's where Subject::open_peer() gives one; and memory of this process.
template <class Subject>
class gpu_queue_contract : public testing::Test {
 protected:
  static constexpr size_t size = (size_t{64} << 20) + (size_t{64} << 10);
  enum kind { own, mapped, host, kind_count };

  void SetUp() override {
    peer_ = Subject::open_peer();
    auto opened = Subject::open();  // last: kernels are launched on it
    ASSERT_TRUE(opened.ok()) << last_message();
    gpu_ = std::move(opened).value();
    for (int i = 0; i < 2; i++) {
      auto made = owner(i).allocate_shared(size);
      ASSERT_TRUE(made.ok()) << last_message();
      blocks_[i] = made.value();
      ASSERT_EQ(owner(i).fill_device(blocks_[i].addr, 0, 1 << 20), status::ok);
    }
    auto again = gpu_->map_shared(blocks_[1].descriptor, blocks_[1].size);
    ASSERT_TRUE(again.ok()) << last_message();
    mapped_ = again.value();
    queue_ = open();
  }
  void TearDown() override {
    queue_.reset();
    if (mapped_ != nullptr)
      gpu_->unmap_shared(mapped_, blocks_[1].size);
    for (int i = 0; i < 2; i++) {
      if (blocks_[i].addr == nullptr)
        continue;
      owner(i).free_shared(blocks_[i].addr, blocks_[i].size);
      close(blocks_[i].descriptor);
    }
  }
  seams::gpu &owner(int block) {
    return block == 1 && peer_ ? *peer_ : *gpu_;
  }

  std::unique_ptr<seams::device_queue> open() {
    auto opened = gpu_->queue_open(60'000'000'000);
    EXPECT_TRUE(opened.ok()) << last_message();
    return std::move(opened).value();
  }
  static uint64_t soon() {
    return seams::deadline_after(seams::monotonic_clock().now_ns(), 20000000000);
  }

  std::byte *memory(kind of) {
    if (of == host && host_.empty())
      host_.resize(size);
    return of == own      ? static_cast<std::byte *>(blocks_[0].addr)
           : of == mapped ? static_cast<std::byte *>(mapped_)
                          : host_.data();
  }
  uint64_t *words(kind of) {
    return reinterpret_cast<uint64_t *>(memory(of));
  }
  void set(void *addr, const std::vector<uint8_t> &bytes) {
    ASSERT_EQ(gpu_->copy_to_device(addr, bytes.data(), bytes.size()), status::ok) << last_message();
  }
  std::vector<uint8_t> bytes_at(const void *addr, size_t count) {
    std::vector<uint8_t> bytes(count);
    EXPECT_EQ(gpu_->copy_to_host(bytes.data(), addr, count), status::ok) << last_message();
    return bytes;
  }
  uint64_t word_at(const uint64_t *addr) {
    uint64_t word = 0;
    EXPECT_EQ(gpu_->copy_to_host(&word, addr, sizeof word), status::ok) << last_message();
    return word;
  }
  static std::vector<uint8_t> some_bytes(size_t count, uint32_t seed) {
    std::vector<uint8_t> bytes(count);
    uint32_t state = seed * 2654435761u + 1;
    for (auto &each : bytes) {
      state = state * 1664525u + 1013904223u;
      each = uint8_t(state >> 24);
    }
    return bytes;
  }
  // As much as the device runs at once, and more.
  full_grid all_of_it() const {
    uint32_t const count = gpu_->info().multiprocessor_count;
    return Subject::is_cuda ? full_grid{count * 2, 1024} : full_grid{count, 32};
  }

  void expect_moved(const char *call,
                    kind to,
                    kind from,
                    size_t bytes,
                    size_t target_offset,
                    size_t source_offset);

  std::unique_ptr<seams::gpu> gpu_, peer_;
  std::unique_ptr<seams::device_queue> queue_;
  seams::shared_block blocks_[2];
  void *mapped_ = nullptr;
  std::vector<std::byte> host_;
};
TYPED_TEST_SUITE_P(gpu_queue_contract);

// The bytes, and none beside them. The target lies in the first half of its memory, the source in
// the second.
template <class Subject>
void gpu_queue_contract<Subject>::expect_moved(const char *call,
                                               kind to,
                                               kind from,
                                               size_t bytes,
                                               size_t target_offset,
                                               size_t source_offset) {
  SCOPED_TRACE(testing::Message() << call << " of " << bytes << " bytes, kinds " << from << " to "
                                  << to << ", offsets " << source_offset << " to "
                                  << target_offset);
  constexpr size_t around = 64;
  bool const is_large = bytes > size / 2 - 4096;
  std::byte *const target = memory(to) + around + target_offset;
  std::byte *const source = memory(from) + (is_large ? 0 : size / 2) + around + source_offset;
  if (is_large && to == from)
    return;
  auto const sent = some_bytes(bytes, uint32_t(bytes + target_offset)),
             before = some_bytes(bytes + 2 * around, 7);
  set(source, sent);
  set(target - around, before);
  status code = status::ok;
  if (call[0] == 'p')
    code = queue_->put(target, source, bytes);
  if (call[0] == 'g')
    code = queue_->get(target, source, bytes);
  if (call[0] == 'c')
    code = queue_->copy(target, source, bytes);
  ASSERT_EQ(code, status::ok) << last_message();
  if (call[0] == 'p' && from == host)
    std::memset(source, 0xee, bytes);  // it is the caller's again
  if (call[0] != 'g') {
    ASSERT_EQ(queue_->wait(soon()), status::ok) << last_message();
  }
  auto expected = before;
  if (bytes != 0)
    std::memcpy(expected.data() + around, sent.data(), bytes);
  ASSERT_TRUE(bytes_at(target - around, bytes + 2 * around) == expected);
}

TYPED_TEST_P(gpu_queue_contract, moves_bytes_between_all_kinds_of_memory) {
  using fixture = gpu_queue_contract<TypeParam>;
  constexpr size_t sizes[] = {0,  1,  3,   4,    7,    8,    12,    16,    47,    48,    49,     63,
                              64, 65, 511, 2048, 2049, 5000, 16384, 16385, 65536, 65537, 1000003};
  constexpr size_t offsets[][2] = {{0, 0}, {1, 0}, {0, 3}, {4, 4}, {8, 12}, {5, 5}};
  for (int to = 0; to < fixture::kind_count; to++) {
    for (int from = 0; from < fixture::kind_count; from++) {
      for (size_t bytes : sizes) {
        for (auto const &offset : offsets) {
          for (const char *call : {"put", "get", "copy"}) {
            this->expect_moved(call,
                               typename fixture::kind(to),
                               typename fixture::kind(from),
                               bytes,
                               offset[0],
                               offset[1]);
            if (this->HasFatalFailure())
              return;
          }
        }
      }
    }
  }
}

TYPED_TEST_P(gpu_queue_contract, moves_64_MiB) {
  using fixture = gpu_queue_contract<TypeParam>;
  constexpr size_t bytes = size_t{64} << 20;
  this->expect_moved("put", fixture::mapped, fixture::own, bytes, 0, 0);
  this->expect_moved("copy", fixture::own, fixture::host, bytes, 1, 0);
  this->expect_moved("get", fixture::host, fixture::mapped, bytes, 0, 8);
  this->expect_moved("put", fixture::mapped, fixture::host, bytes, 0, 0);
}

TYPED_TEST_P(gpu_queue_contract, copies_rows_between_all_kinds_of_memory) {
  using fixture = gpu_queue_contract<TypeParam>;
  constexpr seams::row_shape shapes[] = {{8, 5, 24, 16},
                                         {1, 100, 3, 2},
                                         {4, 1000, 4, 8},
                                         {24, 33, -32, 40},
                                         {3, 7, 5, -9},
                                         {100, 900, 100, 128},
                                         {8, 20000, 16, 24},
                                         {5000, 3, 6000, 5000},
                                         {64, 3000, 65, 64},
                                         {8, 1, 0, 0},
                                         {0, 5, 8, 8},
                                         {8, 0, 8, 8}};
  constexpr size_t span = 1 << 20, start = span / 4;
  for (int to = 0; to < fixture::kind_count; to++) {
    for (int from = 0; from < fixture::kind_count; from++) {
      for (auto const &shape : shapes) {
        SCOPED_TRACE(testing::Message() << "kinds " << from << " to " << to << ": " << shape.count
                                        << " rows of " << shape.row_size);
        std::byte *const target = this->memory(typename fixture::kind(to)),
                         *const source = this->memory(typename fixture::kind(from)) + span;
        auto const sent = this->some_bytes(span, 3);
        auto expected = this->some_bytes(span, 5);
        this->set(source, sent);
        this->set(target, expected);
        ASSERT_EQ(this->queue_->copy_rows(target + start, source + start, shape), status::ok)
            << last_message();
        ASSERT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
        for (size_t i = 0; i < shape.count; i++) {
          std::memcpy(expected.data() + start + ptrdiff_t(i) * shape.target_stride,
                      sent.data() + start + ptrdiff_t(i) * shape.source_stride,
                      shape.row_size);
        }
        ASSERT_TRUE(this->bytes_at(target, span) == expected);
      }
    }
  }
}

TYPED_TEST_P(gpu_queue_contract, updates_words_and_tells_what_was_there) {
  using fixture = gpu_queue_contract<TypeParam>;
  using enum seams::fabric_atomic;
  struct expectation {
    seams::fabric_atomic kind;
    uint64_t operand, compare, after;  // of a word that holds `before`
  };
  constexpr uint64_t before = 0xf0f0'0f0f'1234'5678;
  constexpr expectation all[] = {{add, 5, 0, before + 5},
                                 {bit_and, 0xff, 0, before & 0xff},
                                 {bit_or, 0xff, 0, before | 0xff},
                                 {bit_xor, 0xff, 0, before ^ 0xff},
                                 {swap, 9, 0, 9},
                                 {compare_swap, 9, before, 9},
                                 {compare_swap, 9, before + 1, before},
                                 {fetch, 9, 9, before}};
  for (int of = 0; of < fixture::kind_count; of++) {
    uint64_t *const word = this->words(typename fixture::kind(of)) + 3;
    for (auto const &each : all) {
      for (bool is_short : {false, true}) {
        for (bool is_asked : {true, false}) {
          if (!is_asked && (each.kind == fetch || each.kind == compare_swap))
            continue;
          SCOPED_TRACE(testing::Message() << "kind " << int(each.kind) << ", memory " << of
                                          << (is_short ? ", short" : ""));
          this->set(word, {0x78, 0x56, 0x34, 0x12, 0x0f, 0x0f, 0xf0, 0xf0});
          auto const element = is_short ? seams::fabric_element::u32 : seams::fabric_element::u64;
          uint64_t there = 0;
          ASSERT_EQ(this->queue_->update(word,
                                         {each.kind, element, each.operand, each.compare},
                                         is_asked ? &there : nullptr),
                    status::ok)
              << last_message();
          ASSERT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
          constexpr uint64_t low = 0xffffffff;
          if (is_asked) {
            EXPECT_EQ(there, is_short ? before & low : before);
          }
          EXPECT_EQ(this->word_at(word),
                    is_short ? (before & ~low) | (each.after & low) : each.after);
        }
      }
    }
  }
}

TYPED_TEST_P(gpu_queue_contract, updates_a_word_together_with_kernels_and_other_queues) {
  uint64_t *const word = this->words(this->own), *const mine = this->words(this->mapped);
  constexpr uint32_t threads = 256, rounds = 2000, updates = 500;
  launch_add_ones(word, threads, rounds);
  std::vector<std::thread> updaters;
  std::vector<uint64_t> sums(4);
  for (size_t i = 0; i < sums.size(); i++) {
    updaters.emplace_back([&, i, queue = this->open()] {
      for (uint32_t k = 0; k < updates; k++) {
        uint64_t there = 0;
        EXPECT_EQ(queue->update(word,
                                {seams::fabric_atomic::add, seams::fabric_element::u64, 1, 0},
                                k % 2 == 0 ? nullptr : &there),
                  status::ok);
        EXPECT_EQ(
            queue->update(
                mine, {seams::fabric_atomic::add, seams::fabric_element::u64, i + 1, 0}, nullptr),
            status::ok);
      }
      EXPECT_EQ(queue->wait(this->soon()), status::ok) << last_message();
    });
  }
  for (auto &each : updaters)
    each.join();
  ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
  EXPECT_EQ(this->word_at(word), uint64_t{threads} * rounds + 4 * updates);
  EXPECT_EQ(this->word_at(mine), updates * (1 + 2 + 3 + 4));
}

// What a kernel sees: who sees the flag sees the data that were put before order().
TYPED_TEST_P(gpu_queue_contract, order_holds_for_kernels) {
  constexpr uint32_t count = 4;
  constexpr uint64_t last = 3000;
  auto made = this->gpu_->allocate_host(sizeof(litmus_result));
  ASSERT_TRUE(made.ok());
  auto *const result = static_cast<litmus_result *>(made.value());
  uint64_t *const data = this->words(this->own), *const flag = this->words(this->mapped);
  std::vector<uint8_t> large(100000);
  launch_read_behind_flag(flag, data, count, result, last);
  for (uint64_t i = 1; i <= last; i++) {
    bool const is_large = i % 500 == 0;  // by another way than the flag
    for (uint32_t k = 0; k < count; k++)
      ASSERT_EQ(this->queue_->put(data + k * 17, &i, sizeof i), status::ok) << last_message();
    if (is_large) {
      ASSERT_EQ(this->queue_->put(data + 1000, large.data(), large.size()), status::ok)
          << last_message();
    }
    ASSERT_EQ(this->queue_->order(), status::ok);
    status const code =
        i % 3 != 0
            ? this->queue_->put(flag, &i, sizeof i)
            : this->queue_->update(
                  flag, {seams::fabric_atomic::swap, seams::fabric_element::u64, i, 0}, nullptr);
    ASSERT_EQ(code, status::ok) << last_message();
    ASSERT_EQ(this->queue_->order(), status::ok);
  }
  ASSERT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
  ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
  EXPECT_EQ(result->last_seen, last);
  EXPECT_EQ(result->stale, 0u);
  this->gpu_->free_host(result);
}

TYPED_TEST_P(gpu_queue_contract, threads_share_a_queue) {
  constexpr size_t threads = 8, rounds = 300, part = 4096;
  std::vector<std::thread> workers;
  for (size_t t = 0; t < threads; t++) {
    workers.emplace_back([&, t] {
      std::byte *const mine = this->memory(this->mapped) + t * part;
      for (size_t i = 0; i < rounds; i++) {
        auto const bytes = this->some_bytes(1 + (i * 37 + t) % 300, uint32_t(i));
        std::vector<uint8_t> back(bytes.size());
        ASSERT_EQ(this->queue_->put(mine + i % 64, bytes.data(), bytes.size()), status::ok)
            << last_message();
        ASSERT_EQ(i % 2 == 0 ? this->queue_->wait(this->soon()) : this->queue_->order(), status::ok)
            << last_message();
        ASSERT_EQ(this->queue_->get(back.data(), mine + i % 64, back.size()), status::ok)
            << last_message();
        ASSERT_TRUE(back == bytes);
      }
    });
  }
  for (auto &each : workers)
    each.join();
}

TYPED_TEST_P(gpu_queue_contract, many_queues_are_independent) {
  std::vector<std::unique_ptr<seams::device_queue>> queues;
  for (uint64_t i = 0; i < 64; i++)
    queues.push_back(this->open());
  for (uint64_t round = 1; round <= 20; round++) {
    for (uint64_t i = 0; i < queues.size(); i++) {
      uint64_t const value = round * 1000 + i;
      ASSERT_EQ(queues[i]->put(this->words(this->own) + i * 8, &value, sizeof value), status::ok)
          << last_message();
    }
    for (uint64_t i = 0; i < queues.size(); i++) {
      ASSERT_EQ(queues[i]->wait(this->soon()), status::ok) << last_message();
      ASSERT_EQ(this->word_at(this->words(this->own) + i * 8), round * 1000 + i);
    }
  }
}

// The program's kernel has the whole device and waits for what the operation brings.
TYPED_TEST_P(gpu_queue_contract, a_full_device_does_not_keep_operations_from_it) {
  auto made = this->gpu_->allocate_host(64);
  ASSERT_TRUE(made.ok());
  auto *const gave_up = static_cast<uint32_t *>(made.value());
  uint64_t *const word = this->words(this->own), *const source = this->words(this->mapped) + 64;
  std::vector<uint8_t> large(200000);
  for (int way = 0; way < 6; way++) {
    SCOPED_TRACE(testing::Message() << "way " << way);
    uint64_t const value = uint64_t(way) + 100;
    ASSERT_EQ(this->gpu_->copy_to_device(source, &value, sizeof value), status::ok);
    if (way >= 3) {  // with a service that runs already, and has ended again
      ASSERT_EQ(this->queue_->put(word, &value, 4), status::ok);
      ASSERT_EQ(this->queue_->wait(this->soon()), status::ok);
      uint64_t const none = 0;
      ASSERT_EQ(this->gpu_->copy_to_device(word, &none, sizeof none), status::ok);
      if (way >= 4)
        seams::monotonic_clock().sleep_ns(5'000'000);
    }
    launch_wait_for_value(this->all_of_it(), word, value, gave_up);
    seams::monotonic_clock().sleep_ns(20'000'000);
    if (way == 0 || way == 3 || way == 4) {
      ASSERT_EQ(this->queue_->put(word, &value, sizeof value), status::ok) << last_message();
    }
    if (way == 1) {
      ASSERT_EQ(
          this->queue_->update(
              word, {seams::fabric_atomic::swap, seams::fabric_element::u64, value, 0}, nullptr),
          status::ok);
    }
    if (way == 2) {
      ASSERT_EQ(this->queue_->copy(word, source, sizeof value), status::ok) << last_message();
    }
    if (way == 5) {
      ASSERT_EQ(this->queue_->put(word + 1000, large.data(), large.size()), status::ok)
          << last_message();
      ASSERT_EQ(this->queue_->order(), status::ok);
      ASSERT_EQ(this->queue_->put(word, &value, sizeof value), status::ok) << last_message();
    }
    // No wait() of the queue: nobody has to come back for it.
    ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
    EXPECT_EQ(*gave_up, 0u);
    *gave_up = 0;
    EXPECT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
    EXPECT_EQ(this->word_at(word), value);
  }
  this->gpu_->free_host(gave_up);
}

TYPED_TEST_P(gpu_queue_contract, wait_ends_at_its_deadline) {
  auto made = this->gpu_->allocate_host(64);
  ASSERT_TRUE(made.ok());
  auto *const gave_up = static_cast<uint32_t *>(made.value());
  uint64_t *const word = this->words(this->own);
  launch_wait_for_value(this->all_of_it(), word, 1, gave_up);
  seams::monotonic_clock().sleep_ns(20'000'000);
  // It may need the device, which is full.
  ASSERT_EQ(this->queue_->update(
                word + 1, {seams::fabric_atomic::add, seams::fabric_element::u64, 7, 0}, nullptr),
            status::ok)
      << last_message();
  uint64_t const start = seams::monotonic_clock().now_ns();
  status const code = this->queue_->wait(start + 30'000'000);
  EXPECT_TRUE(code == status::ok || code == status::timed_out);
  EXPECT_LE(seams::monotonic_clock().now_ns() - start, 2'000'000'000u);
  if (code != status::ok) {
    EXPECT_FALSE(last_message().empty());
  }
  uint64_t const value = 1;
  ASSERT_EQ(this->queue_->put(word, &value, sizeof value), status::ok) << last_message();
  ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
  EXPECT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
  EXPECT_EQ(*gave_up, 0u);
  EXPECT_EQ(this->word_at(word + 1), 7u);
  this->gpu_->free_host(gave_up);
}

TYPED_TEST_P(gpu_queue_contract, works_again_after_pauses_of_any_length) {
  std::mt19937 random{1};
  for (uint64_t i = 1; i <= 300; i++) {
    ASSERT_EQ(this->queue_->put(this->words(this->own), &i, sizeof i), status::ok)
        << last_message();
    if (i % 3 == 0) {
      ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok);
    }
    uint64_t back = 0;
    if (i % 2 == 0) {
      ASSERT_EQ(this->queue_->wait(this->soon()), status::ok) << last_message();
    }
    ASSERT_EQ(this->queue_->order(), status::ok);
    ASSERT_EQ(this->queue_->get(&back, this->words(this->own), sizeof back), status::ok)
        << last_message();
    ASSERT_EQ(back, i);
    uint64_t const until = seams::monotonic_clock().now_ns() + random() % 250'000;
    while (seams::monotonic_clock().now_ns() < until)
      continue;
  }
}

REGISTER_TYPED_TEST_SUITE_P(gpu_queue_contract,
                            moves_bytes_between_all_kinds_of_memory,
                            moves_64_MiB,
                            copies_rows_between_all_kinds_of_memory,
                            updates_words_and_tells_what_was_there,
                            updates_a_word_together_with_kernels_and_other_queues,
                            order_holds_for_kernels,
                            threads_share_a_queue,
                            many_queues_are_independent,
                            a_full_device_does_not_keep_operations_from_it,
                            wait_ends_at_its_deadline,
                            works_again_after_pauses_of_any_length);

}  // namespace tanada::contract
