// tests/contract/fabric_contract_order.hpp: copied sources, the order of operations where a fabric
// guarantees one, and progress without the owner's polls. Part of the suite in fabric_contract.hpp.
#pragma once

#include <cstring>

#include "contract/fabric_contract.hpp"

namespace tanada::contract {

// The source is overwritten after each post, also where the operation must wait for the network.
TEST_P(fabric_contract, a_copied_source_is_the_caller_s_when_post_returns) {
  auto &a = driver().node({.depth = 1024}), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  size_t const piece = a.endpoint->properties().copied_size_max;
  ASSERT_GE(piece, 64u);
  constexpr size_t count = 1'000;
  std::vector<std::byte> memory(count * piece), source(piece);
  auto const region = driver().region(b, memory);
  auto const own = driver().region(a, source, {});
  b.polled = false;
  for (size_t i = 0; i < count; i++) {
    size_t const size = i % 3 == 0 ? 8 : piece;
    auto const text = fabric_pattern(size, i);
    std::copy(text.begin(), text.end(), source.begin());
    auto op = fabric_transfer(seams::fabric_op_kind::write,
                              to_b,
                              std::span{source}.first(size),
                              region.remote,
                              i * piece);
    op.is_copied = true;
    op.region = i % 5 == 0 ? own.id : seams::no_fabric_region;
    driver().post(a, op);
    std::fill(source.begin(), source.end(), std::byte{0xdd});
  }
  EXPECT_EQ(a.endpoint->region_release(own.id), status::ok);  // no operation uses it
  b.polled = true;
  EXPECT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }));
  for (auto const &each : a.done)
    ASSERT_EQ(each.code, status::ok);
  for (size_t i = 0; i < count; i++) {
    auto const text = fabric_pattern(i % 3 == 0 ? 8 : piece, i);
    ASSERT_TRUE(std::equal(text.begin(), text.end(), memory.begin() + ptrdiff_t(i * piece)))
        << "write " << i;
  }
  if (!a.endpoint->properties().has_atomics)
    return;
  std::vector<uint32_t> sums(16, 0), ones(16);
  auto const sums_region = driver().region(b, std::as_writable_bytes(std::span{sums}));
  for (int i = 0; i < 200; i++) {
    ones.assign(16, 1);
    auto op = fabric_vector(to_b,
                            sums_region.remote,
                            0,
                            seams::fabric_element::u32,
                            std::as_writable_bytes(std::span{ones}));
    op.is_copied = true;
    driver().post(a, op);
    ones.assign(16, 0x1000'0000);
  }
  EXPECT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }));
  EXPECT_EQ(sums, std::vector<uint32_t>(16, 200));
}

// A large write and a small one after it, without a wait: a target that sees the second write sees
// the first.
TEST_P(fabric_contract, order_of_writes) {
  auto &a = driver().node(), &b = driver().node();
  if (!a.endpoint->properties().is_ordered)
    GTEST_SKIP() << "this fabric has none";
  auto const to_b = driver().peer(a, b);
  constexpr size_t size = 300'000, flag_at = 512'000;
  std::vector<std::byte> memory(1 << 20);
  auto const region = driver().region(b, memory);
  auto &flag = *reinterpret_cast<uint64_t *>(memory.data() + flag_at);
  for (uint64_t round = 1; round <= 30; round++) {
    auto text = fabric_pattern(round % 2 == 0 ? size : 100, round);
    uint64_t marker = round;
    driver().post(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote));
    if (round % 3 == 0 && a.endpoint->properties().has_atomics) {
      driver().post(a,
                    fabric_update(to_b, region.remote, flag_at, seams::fabric_atomic::swap, round));
    } else {
      driver().post(a,
                    fabric_transfer(seams::fabric_op_kind::write,
                                    to_b,
                                    std::as_writable_bytes(std::span{&marker, 1}),
                                    region.remote,
                                    flag_at));
    }
    ASSERT_TRUE(driver().until([&] { return std::atomic_ref{flag}.load() == round; }));
    ASSERT_TRUE(std::equal(text.begin(), text.end(), memory.begin())) << "round " << round;
    ASSERT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }));
  }
}

// All kinds of operations on one word, 40 in flight: each fetch and each read returns the result of
// exactly the operations posted before it.
TEST_P(fabric_contract, order_of_writes_atomics_and_reads) {
  auto &a = driver().node(), &b = driver().node();
  if (!a.endpoint->properties().is_ordered)
    GTEST_SKIP() << "this fabric has none";
  auto const to_b = driver().peer(a, b);
  std::vector<uint64_t> memory(32, 0), values(40), got(40), ones(32, 1);
  auto const region = driver().region(b, std::as_writable_bytes(std::span{memory}));
  if (!a.endpoint->properties().has_atomics)
    GTEST_SKIP() << "this provider has no atomics";
  uint64_t expected = 0;
  for (uint64_t round = 0; round < 50; round++) {
    std::vector<std::pair<uint64_t, uint64_t>> fetches;  // operation, and the value it must return
    std::vector<uint64_t> must_read(40, 0);
    a.done.clear();
    for (size_t i = 0; i < 40; i++) {
      auto const bytes = [&](std::vector<uint64_t> &of) {
        return std::as_writable_bytes(std::span{&of[i], 1});
      };
      switch ((i * 7 + round) % 5) {
        case 0:
          expected = 1000 * round + i;
          values[i] = 1000 * round + i;
          driver().post(
              a, fabric_transfer(seams::fabric_op_kind::write, to_b, bytes(values), region.remote));
          break;
        case 1:
          expected += i;
          driver().post(a, fabric_update(to_b, region.remote, 0, seams::fabric_atomic::add, i));
          break;
        case 2:
          fetches.emplace_back(driver().post(a, fabric_fetch_add(to_b, region.remote, 0, 5)),
                               expected);
          expected += 5;
          break;
        case 3:
          expected++;
          driver().post(a,
                        fabric_vector(to_b,
                                      region.remote,
                                      0,
                                      seams::fabric_element::u64,
                                      std::as_writable_bytes(std::span{ones})));
          break;
        default:
          must_read[i] = expected;
          driver().post(
              a, fabric_transfer(seams::fabric_op_kind::read, to_b, bytes(got), region.remote));
      }
    }
    ASSERT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }));
    for (auto const &[op_id, before] : fetches)
      EXPECT_EQ(driver().wait(a, op_id).value, before) << "round " << round;
    for (size_t i = 0; i < 40; i++) {
      bool const is_read = (i * 7 + round) % 5 == 4;
      EXPECT_EQ(is_read ? got[i] : 0, must_read[i]) << "round " << round << ", read " << i;
    }
  }
}

TEST_P(fabric_contract, progress_without_the_owner) {
  auto &a = driver().node(), &b = driver().node();
  if (!b.endpoint->properties().has_auto_progress)
    GTEST_SKIP() << "its owner must poll";
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(4 << 20), got(memory.size());
  auto const region = driver().region(b, memory);
  auto text = fabric_pattern(memory.size(), 1);
  b.polled = false;
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(driver()
                  .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote))
                  .code,
              status::ok);
    EXPECT_TRUE(memory == text);
    EXPECT_EQ(driver()
                  .run(a, fabric_transfer(seams::fabric_op_kind::read, to_b, got, region.remote))
                  .code,
              status::ok);
    EXPECT_TRUE(got == text);
    if (!a.endpoint->properties().has_atomics)
      continue;
    uint64_t before = 0, after = 0;
    std::memcpy(&before, memory.data(), sizeof before);
    EXPECT_EQ(driver().run(a, fabric_fetch_add(to_b, region.remote, 0, 1)).value, before);
    std::memcpy(&after, memory.data(), sizeof after);
    EXPECT_EQ(after, before + 1);
  }
}

}  // namespace tanada::contract
