// tests/contract/fabric_contract_atomics.hpp: atomics of every fabric that has them. Part of the
// suite in fabric_contract.hpp.
#pragma once

#include <bit>
#include <cmath>

#include "contract/fabric_contract.hpp"

namespace tanada::contract {

class fabric_contract_atomics : public fabric_contract {
 protected:
  void SetUp() override {
    fabric_contract::SetUp();
    a_ = &driver().node();
    b_ = &driver().node();
    if (!a_->endpoint->properties().has_atomics)
      GTEST_SKIP() << "this provider has none";
    region_ = driver().region(*b_, std::as_writable_bytes(std::span{words_}));
    peer_ = driver().peer(*a_, *b_);
  }
  seams::fabric_op update(seams::fabric_atomic atomic,
                          uint64_t operand,
                          seams::fabric_element element,
                          uint64_t offset = 16) const {
    return fabric_update(peer_, region_.remote, offset, atomic, operand, element);
  }
  seams::fabric_completion run(const seams::fabric_op &op) {
    return driver().run(*a_, op);
  }

  fabric_node *a_ = nullptr, *b_ = nullptr;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(8, 0x1111'1111'1111'1111);
  seams::fabric_region region_;
  seams::fabric_peer peer_ = seams::no_fabric_peer;
};

struct fabric_atomic_step {
  seams::fabric_atomic atomic;
  uint64_t operand, compare, after;  // 32-bit atomics use the lower half of each
};

// Every atomic in sequence on one word that is initially 0xf0f0f0f0f0f0f0f0, with and without the
// previous value returned.
TEST_P(fabric_contract_atomics, each_on_either_width) {
  constexpr uint64_t low = 0x7fff'ffff'8000'0001;
  fabric_atomic_step const steps[] = {
      {seams::fabric_atomic::add, 0x1010'1010'1010'1010, 0, 0x0101'0101'0101'0100},
      {seams::fabric_atomic::bit_or, 0xf000'0000'f000'0000, 0, 0xf101'0101'f101'0100},
      {seams::fabric_atomic::bit_and, 0xff00'ff00'ff00'ff00, 0, 0xf100'0100'f100'0100},
      {seams::fabric_atomic::bit_xor, 0xf0f0'f0f0'f0f0'f0f0, 0, 0x01f0'f1f0'01f0'f1f0},
      {seams::fabric_atomic::swap, low, 0, low},
      {seams::fabric_atomic::compare_swap, 5, low ^ 1, low},
      {seams::fabric_atomic::compare_swap, 5, low, 5},
      {seams::fabric_atomic::fetch, 7, 9, 5},
  };
  for (auto const element : {seams::fabric_element::u64, seams::fabric_element::u32}) {
    bool const is_narrow = element == seams::fabric_element::u32;
    auto const seen = [&](uint64_t value) {
      return is_narrow ? uint64_t(uint32_t(value)) : value;
    };
    for (bool const wants_value : {true, false}) {
      uint64_t before = 0xf0f0'f0f0'f0f0'f0f0;
      words_[2] = before;
      for (auto const &step : steps) {
        // The 32-bit sum carries nothing into the upper half.
        auto op = update(step.atomic, step.operand, element);
        op.compare = step.compare;
        op.returns_value = wants_value;
        auto const done = run(op);
        ASSERT_EQ(done.code, status::ok) << int(step.atomic) << " " << int(element);
        EXPECT_EQ(done.size, is_narrow ? 4u : 8u);
        EXPECT_EQ(done.peer, peer_);
        bool const fetches = wants_value || step.atomic == seams::fabric_atomic::fetch ||
                             step.atomic == seams::fabric_atomic::compare_swap;
        EXPECT_EQ(done.value, fetches ? seen(before) : 0u)
            << int(step.atomic) << " " << int(element);
        ASSERT_EQ(seen(words_[2]), seen(step.after)) << int(step.atomic) << " " << int(element);
        before = step.after;
      }
      EXPECT_EQ(words_[1], 0x1111'1111'1111'1111u);
      EXPECT_EQ(words_[3], 0x1111'1111'1111'1111u);
      if (is_narrow) {
        EXPECT_EQ(words_[2] >> 32, 0xf0f0'f0f0u);
      }
    }
  }
}

TEST_P(fabric_contract_atomics, of_several_endpoints_none_is_lost) {
  auto &c = driver().node();
  auto const from_c = driver().peer(c, *b_);
  words_.assign(8, 0);
  for (int i = 0; i < 100; i++) {
    driver().post(*a_, fabric_fetch_add(peer_, region_.remote, 0, 1));
    driver().post(c, fabric_fetch_add(from_c, region_.remote, 0, 1000));
    driver().post(*a_, update(seams::fabric_atomic::add, 3, seams::fabric_element::u32, 12));
    driver().post(
        c,
        fabric_update(
            from_c, region_.remote, 12, seams::fabric_atomic::add, 5, seams::fabric_element::u32));
  }
  EXPECT_TRUE(driver().until(
      [&] { return a_->endpoint->pending_count() + c.endpoint->pending_count() == 0; }));
  EXPECT_EQ(words_[0], 100'100u);
  EXPECT_EQ(words_[1], uint64_t{800} << 32);
  uint64_t sum = 0;
  for (auto const &each : a_->done) {
    EXPECT_EQ(each.code, status::ok);
    sum += each.value;
  }
  EXPECT_GT(sum, 0u);
}

TEST_P(fabric_contract_atomics, the_target_s_own_atomics_on_the_same_words) {
  if (!subject_->threads())
    GTEST_SKIP() << "one thread by its nature";
  if (!b_->endpoint->properties().atomics_by_processor)
    GTEST_SKIP() << "not by the target's processor";
  constexpr uint64_t count = 3'000;
  words_.assign(8, 0);
  std::atomic<bool> stop{false};
  uint64_t own = 0;
  std::thread owner{[&] {
    auto *const reals = reinterpret_cast<double *>(words_.data());
    for (; !stop; own++) {
      std::atomic_ref<uint64_t>{words_[0]}.fetch_add(1);
      std::atomic_ref<uint32_t>{*reinterpret_cast<uint32_t *>(&words_[1])}.fetch_add(1);
      std::atomic_ref<double>{reals[2]}.fetch_add(1);
    }
  }};
  std::vector<double> one{1.0};
  for (uint64_t i = 0; i < count; i++) {
    driver().post(*a_,
                  i % 2 == 0 ? fabric_fetch_add(peer_, region_.remote, 0, 1)
                             : update(seams::fabric_atomic::add, 1, seams::fabric_element::u64, 0));
    driver().post(*a_, update(seams::fabric_atomic::add, 1, seams::fabric_element::u32, 8));
    driver().post(*a_,
                  fabric_vector(peer_,
                                region_.remote,
                                16,
                                seams::fabric_element::f64,
                                std::as_writable_bytes(std::span{one})));
  }
  EXPECT_TRUE(driver().until([&] { return a_->endpoint->pending_count() == 0; }));
  stop = true;
  owner.join();
  EXPECT_EQ(words_[0], own + count);
  EXPECT_EQ(words_[1], uint32_t(own + count));
  EXPECT_EQ(std::bit_cast<double>(words_[2]), double(own + count));
}

// Vectors of several sizes; every provider splits the last into many pieces. An element consists of
// `parts` values of type Real.
template <class Real>
void fabric_vector_check(fabric_driver &driver,
                         fabric_node &a,
                         fabric_node &b,
                         seams::fabric_element element,
                         size_t parts) {
  auto const to_b = driver.peer(a, b);
  for (size_t const count : {size_t{1}, size_t{7}, size_t{100}, size_t{60'000}}) {
    std::vector<Real> memory(count * parts + 2), source(count * parts);
    for (size_t i = 0; i < memory.size(); i++)
      memory[i] = Real(i % 1000);
    for (size_t i = 0; i < source.size(); i++)
      source[i] = Real(3 * i % 500);
    auto const region = driver.region(b, std::as_writable_bytes(std::span{memory}));
    auto const op = fabric_vector(
        to_b, region.remote, sizeof(Real), element, std::as_writable_bytes(std::span{source}));
    auto const done = driver.run(a, op);
    ASSERT_EQ(done.code, status::ok);
    EXPECT_EQ(done.size, source.size() * sizeof(Real));
    for (size_t i = 0; i < memory.size(); i++) {
      Real const added = i == 0 || i == memory.size() - 1 ? Real(0) : source[i - 1];
      ASSERT_EQ(memory[i], Real(i % 1000) + added)
          << "element type " << int(element) << ", " << i << " of " << count;
    }
    EXPECT_EQ(b.endpoint->region_release(region.id), status::ok);
  }
}

TEST_P(fabric_contract_atomics, vectors_of_each_element) {
  fabric_vector_check<uint32_t>(driver(), *a_, *b_, seams::fabric_element::u32, 1);
  fabric_vector_check<uint64_t>(driver(), *a_, *b_, seams::fabric_element::u64, 1);
  fabric_vector_check<float>(driver(), *a_, *b_, seams::fabric_element::f32, 1);
  fabric_vector_check<double>(driver(), *a_, *b_, seams::fabric_element::f64, 1);
  fabric_vector_check<float>(driver(), *a_, *b_, seams::fabric_element::c64, 2);
  fabric_vector_check<double>(driver(), *a_, *b_, seams::fabric_element::c128, 2);
}

TEST_P(fabric_contract_atomics, vectors_of_several_at_once) {
  auto &c = driver().node();
  auto const from_c = driver().peer(c, *b_);
  constexpr size_t count = 200'000, rounds = 6;
  std::vector<double> memory(count, 0.5), ones(count, 1.0), tens(count, 10.0);
  auto const region = driver().region(*b_, std::as_writable_bytes(std::span{memory}));
  for (size_t i = 0; i < rounds; i++) {
    driver().post(*a_,
                  fabric_vector(peer_,
                                region.remote,
                                0,
                                seams::fabric_element::f64,
                                std::as_writable_bytes(std::span{ones})));
    driver().post(c,
                  fabric_vector(from_c,
                                region.remote,
                                0,
                                seams::fabric_element::f64,
                                std::as_writable_bytes(std::span{tens})));
  }
  EXPECT_TRUE(driver().until(
      [&] { return a_->endpoint->pending_count() + c.endpoint->pending_count() == 0; }));
  EXPECT_EQ(a_->done.size(), rounds);  // one completion each
  for (auto const &each : a_->done)
    EXPECT_EQ(each.code, status::ok);
  for (auto const each : memory)
    ASSERT_EQ(each, 0.5 + 11.0 * rounds);
}

TEST_P(fabric_contract_atomics, vectors_end_with_a_peer_that_is_removed_or_away) {
  constexpr size_t count = 1'000'000;
  std::vector<double> memory(count, 1.0), source(count, 1.0);
  auto const region = driver().region(*b_, std::as_writable_bytes(std::span{memory}));
  auto const vector = fabric_vector(peer_,
                                    region.remote,
                                    0,
                                    seams::fabric_element::f64,
                                    std::as_writable_bytes(std::span{source}));
  ASSERT_EQ(run(update(seams::fabric_atomic::add, 1, seams::fabric_element::u64)).code,
            status::ok);  // the peers are connected now
  b_->polled = false;
  auto late = vector;
  late.deadline_ns = driver().deadline(subject_->short_ns());
  auto const id = driver().post(*a_, late);
  auto const notice = driver().wait(*a_, id, false);
  EXPECT_TRUE(notice.code == status::timed_out || b_->endpoint->properties().has_auto_progress);
  b_->polled = true;
  auto const end = driver().wait(*a_, id);
  EXPECT_TRUE(end.code == status::ok || end.code == status::timed_out);
  EXPECT_EQ(run(vector).code, status::ok);
  EXPECT_EQ(memory.back() == 3.0, end.code == status::ok);

  b_->polled = false;
  a_->done.clear();
  for (int i = 0; i < 4; i++)
    driver().post(*a_, vector);
  EXPECT_EQ(a_->endpoint->peer_remove(peer_), status::ok);
  b_->polled = true;
  EXPECT_TRUE(
      driver().until([&] { return a_->done.size() == 4 && a_->endpoint->pending_count() == 0; }));
  peer_ = driver().peer(*a_, *b_);
  EXPECT_EQ(driver()
                .run(*a_,
                     fabric_vector(peer_,
                                   region.remote,
                                   0,
                                   seams::fabric_element::f64,
                                   std::as_writable_bytes(std::span{source})))
                .code,
            status::ok);
}

TEST_P(fabric_contract_atomics, need_the_owner_s_leave) {
  std::vector<uint64_t> memory(2, 5);
  auto const bytes = std::as_writable_bytes(std::span{memory});
  auto const locked = driver().region(*b_, bytes, {.remote_read = true, .remote_write = false});
  auto op = fabric_update(peer_, locked.remote, 0, seams::fabric_atomic::add, 1);
  op.deadline_ns = driver().deadline(subject_->short_ns());
  EXPECT_TRUE(refused(driver().wait(*a_, driver().post(*a_, op), false)));
  op = fabric_vector(peer_,
                     locked.remote,
                     0,
                     seams::fabric_element::u64,
                     std::as_writable_bytes(std::span{words_}).first(16));
  op.deadline_ns = driver().deadline(subject_->short_ns());
  EXPECT_TRUE(refused(driver().wait(*a_, driver().post(*a_, op), false)));
  EXPECT_EQ(memory, std::vector<uint64_t>(2, 5));
  EXPECT_EQ(settled_run(*a_, update(seams::fabric_atomic::add, 1, seams::fabric_element::u64)).code,
            status::ok);
}

TEST_P(fabric_contract_atomics, malformed_ones_are_refused_at_post) {
  auto const expect = [&](auto member, auto value, status code, seams::fabric_op op) {
    op.*member = value;
    EXPECT_EQ(a_->endpoint->post(op), code);
    EXPECT_EQ(a_->endpoint->pending_count(), 0u);
  };
  std::vector<double> source(8, 0.0);
  auto const wide = fabric_fetch_add(peer_, region_.remote, 0, 1),
             narrow = update(seams::fabric_atomic::add, 1, seams::fabric_element::u32);
  auto const vector = fabric_vector(peer_,
                                    region_.remote,
                                    0,
                                    seams::fabric_element::f64,
                                    std::as_writable_bytes(std::span{source}));
  expect(&seams::fabric_op::offset, 4, status::invalid, wide);
  expect(&seams::fabric_op::offset, 2, status::invalid, narrow);
  expect(&seams::fabric_op::offset, 64, status::range, wide);
  expect(&seams::fabric_op::offset, 64, status::range, narrow);
  expect(&seams::fabric_op::element, seams::fabric_element::f64, status::invalid, wide);
  expect(&seams::fabric_op::element, seams::fabric_element(99), status::invalid, wide);
  expect(&seams::fabric_op::atomic, seams::fabric_atomic(99), status::invalid, wide);
  expect(&seams::fabric_op::atomic, seams::fabric_atomic::bit_or, status::invalid, vector);
  expect(&seams::fabric_op::returns_value, true, status::invalid, vector);
  expect(&seams::fabric_op::size, 0, status::invalid, vector);
  expect(&seams::fabric_op::size, 12, status::invalid, vector);
  expect(&seams::fabric_op::offset, 4, status::invalid, vector);
  expect(&seams::fabric_op::offset, 8, status::range, vector);
  expect(&seams::fabric_op::region, 999, status::no_entry, vector);
}

}  // namespace tanada::contract
