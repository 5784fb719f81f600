// tests/contract/fabric_contract.hpp: the contract of every fabric. Each binary that includes this
// instantiates the suite with the fabrics it runs: INSTANTIATE_TEST_SUITE_P(name, fabric_contract,
// testing::Values(...)).
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "contract/fabric_subject.hpp"
#include "core/base/log.hpp"

namespace tanada::contract {

class fabric_contract : public testing::TestWithParam<fabric_case> {
 protected:
  void SetUp() override {
    subject_ = GetParam().make();
    ASSERT_NE(subject_, nullptr);
    driver_ = std::make_unique<fabric_driver>(*subject_);
  }
  void TearDown() override {
    driver_.reset();
    subject_.reset();
  }
  fabric_driver &driver() {
    return *driver_;
  }

  // Whether the target refused an operation: it failed or timed out. Later operations must succeed.
  static bool refused(const seams::fabric_completion &done) {
    return done.code == status::access || done.code == status::peer_lost ||
           done.code == status::timed_out;
  }

  // Runs an operation after one that was refused or lost. The first attempt may still fail with the
  // end of the connection, a second one does not.
  seams::fabric_completion settled_run(fabric_node &from, const seams::fabric_op &op) {
    auto const done = driver().run(from, op);
    return done.code == status::peer_lost ? driver().run(from, op) : done;
  }

  std::unique_ptr<fabric_subject> subject_;
  std::unique_ptr<fabric_driver> driver_;
};

TEST_P(fabric_contract, messages_arrive_whole_once_and_in_order) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  auto const from_a = driver().peer(b, a);
  size_t const size_max = a.endpoint->properties().message_size_max;
  constexpr size_t count = 300, window = 20;
  std::vector<std::vector<std::byte>> sent, received(window, std::vector<std::byte>(size_max));
  for (size_t i = 0; i < count; i++)
    sent.push_back(fabric_pattern(i == 7 ? 0 : i == 8 ? size_max : (i * 37) % size_max, i));
  std::vector<uint64_t> receives;
  for (size_t i = 0; i < window; i++) {
    receives.push_back(driver().post(
        b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, received[i])));
  }
  for (size_t i = 0; i < count; i++) {
    driver().post(a, fabric_message(seams::fabric_op_kind::send, to_b, sent[i]));
    if (i % window != window - 1)
      continue;
    for (size_t k = 0; k < window; k++) {
      auto const done = driver().wait(b, receives[k]);
      auto const &expected = sent[i + 1 - window + k];
      ASSERT_EQ(done.code, status::ok);
      ASSERT_EQ(done.size, expected.size());
      ASSERT_EQ(done.peer, from_a);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), received[k].begin()))
          << "message " << i + 1 - window + k;
      receives[k] = driver().post(
          b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, received[k]));
    }
  }
  EXPECT_TRUE(driver().until([&] { return a.done.size() == count; }));
  for (auto const &each : a.done)
    EXPECT_EQ(each.code, status::ok);
}

TEST_P(fabric_contract, a_sender_that_was_never_added_is_nobody) {
  auto &a = driver().node(), &b = driver().node();
  auto text = fabric_pattern(10, 1);
  std::vector<std::byte> got(10);
  auto const receive =
      driver().post(b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, got));
  EXPECT_EQ(
      driver().run(a, fabric_message(seams::fabric_op_kind::send, driver().peer(a, b), text)).code,
      status::ok);
  auto const done = driver().wait(b, receive);
  EXPECT_EQ(done.code, status::ok);
  EXPECT_EQ(done.peer, seams::no_fabric_peer);
  EXPECT_EQ(got, text);
}

TEST_P(fabric_contract, a_message_longer_than_its_receive_is_an_error_for_the_receiver) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  auto text = fabric_pattern(200, 1);
  std::vector<std::byte> small(50), guard(50), large(200);
  auto const receive = driver().post(
      b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, small));
  driver().post(a, fabric_message(seams::fabric_op_kind::send, to_b, text));
  EXPECT_EQ(driver().wait(b, receive).code, status::overflow);
  EXPECT_EQ(guard, std::vector<std::byte>(50));
  auto const next = driver().post(
      b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, large));
  // The connection may be lost by this error, with the messages sent until the sender detects the
  // loss.
  auto const has_come = [&] {
    return std::any_of(
        b.done.begin(), b.done.end(), [&](auto &each) { return each.op_id == next; });
  };
  for (int tries = 0; tries < 100 && !has_come(); tries++) {
    (void)driver().run(a, fabric_message(seams::fabric_op_kind::send, to_b, text));
    int looks = 0;
    (void)driver().until([&] { return has_come() || ++looks > 200; });
  }
  EXPECT_EQ(driver().wait(b, next).code, status::ok);
  EXPECT_EQ(large, text);
}

TEST_P(fabric_contract, writes_and_reads_back) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(100'000), got(5'000);
  auto const region = driver().region(b, memory);
  EXPECT_EQ(region.remote.size, memory.size());
  for (size_t size : {1u, 8u, 100u, 5000u}) {
    auto text = fabric_pattern(size, size);
    got.assign(size, std::byte{0});
    std::fill(memory.begin(), memory.end(), std::byte{0xee});
    auto done = driver().run(
        a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote, 333));
    EXPECT_EQ(done.code, status::ok);
    EXPECT_EQ(done.size, size);
    EXPECT_EQ(done.peer, to_b);
    EXPECT_EQ(done.path, a.endpoint->properties().path);
    EXPECT_TRUE(std::equal(text.begin(), text.end(), memory.begin() + 333));
    EXPECT_EQ(memory[332], std::byte{0xee});
    EXPECT_EQ(memory[333 + size], std::byte{0xee});
    done = driver().run(
        a, fabric_transfer(seams::fabric_op_kind::read, to_b, got, region.remote, 333));
    EXPECT_EQ(done.code, status::ok);
    EXPECT_EQ(done.size, size);
    EXPECT_EQ(got, text);
  }
  EXPECT_EQ(b.endpoint->region_release(region.id), status::ok);
  EXPECT_EQ(b.endpoint->region_release(region.id), status::no_entry);
}

// The message has the number of the round whose write must be visible when it arrives.
TEST_P(fabric_contract, a_completed_write_is_there_when_a_later_message_arrives) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(70'000);
  auto const region = driver().region(b, memory);
  for (uint64_t round = 1; round <= 30; round++) {
    auto text = fabric_pattern(round % 3 == 0 ? 70'000 : 64, round);
    uint64_t received_round = 0;
    auto const receive =
        driver().post(b,
                      fabric_message(seams::fabric_op_kind::receive,
                                     seams::no_fabric_peer,
                                     std::as_writable_bytes(std::span{&received_round, 1})));
    ASSERT_EQ(driver()
                  .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote))
                  .code,
              status::ok);
    driver().post(
        a,
        fabric_message(
            seams::fabric_op_kind::send, to_b, std::as_writable_bytes(std::span{&round, 1})));
    ASSERT_EQ(driver().wait(b, receive).code, status::ok);
    ASSERT_EQ(received_round, round);
    ASSERT_TRUE(std::equal(text.begin(), text.end(), memory.begin())) << "round " << round;
  }
}

TEST_P(fabric_contract, malformed_operations_are_refused_at_post) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(64);
  auto const region = driver().region(b, memory);
  auto const expect = [&](const seams::fabric_op &op, status code) {
    EXPECT_EQ(a.endpoint->post(op), code);
    EXPECT_EQ(a.endpoint->pending_count(), 0u);
  };
  auto const write = fabric_transfer(seams::fabric_op_kind::write, to_b, memory, region.remote);
  auto const expect_with = [&](auto member, auto value, status code) {
    auto bad = write;
    bad.*member = value;
    expect(bad, code);
  };
  expect_with(&seams::fabric_op::addr, nullptr, status::invalid);
  expect_with(&seams::fabric_op::size, 0, status::invalid);
  expect_with(&seams::fabric_op::peer, seams::no_fabric_peer, status::invalid);
  expect_with(&seams::fabric_op::peer, 12345, status::no_entry);
  expect_with(&seams::fabric_op::offset, 1, status::range);
  expect_with(&seams::fabric_op::offset, ~uint64_t{0} - 10, status::range);
  expect_with(&seams::fabric_op::region, 999, status::no_entry);
  auto own = a.endpoint->region_register({.addr = memory.data(), .size = 32}, {});
  ASSERT_TRUE(own.ok());
  expect_with(&seams::fabric_op::region, own.value().id, status::range);
  std::vector<std::byte> uncopied(a.endpoint->properties().copied_size_max + 1);
  auto too_large = fabric_transfer(
      seams::fabric_op_kind::write, to_b, uncopied, {.base = 0, .key = 1, .size = 1 << 20});
  too_large.is_copied = true;
  expect(too_large, status::too_big);
  std::vector<std::byte> long_message(a.endpoint->properties().message_size_max + 1);
  expect(fabric_message(seams::fabric_op_kind::send, to_b, long_message), status::too_big);
  seams::fabric_memory const cuda{
      .addr = memory.data(), .size = 64, .kind = seams::fabric_memory_kind::cuda, .device = 0};
  EXPECT_EQ(a.endpoint->region_register(cuda, {}).error(), status::not_supported);
  EXPECT_EQ(a.endpoint->region_register({}, {}).error(), status::invalid);
}

// Host memory registered as a GPU's. Only the simulated fabric accepts it; the others return
// not_supported with the reason.
TEST_P(fabric_contract, memory_of_a_device_is_moved_or_refused) {
  auto &a = driver().node({.cuda = true}), &b = driver().node({.cuda = true});
  auto const to_b = driver().peer(a, b);
  alignas(4096) static std::array<std::byte, 70'000> here, there;
  auto const device =
      [&](fabric_node &of, std::span<std::byte> memory, seams::fabric_access access) {
        set_last_message({});
        return of.endpoint->region_register(
            {memory.data(), memory.size(), seams::fabric_memory_kind::cuda, 0}, access);
      };
  auto const local = device(a, here, {}),
             target = device(b, there, {.remote_read = true, .remote_write = true});
  bool const is_believed = a.endpoint->properties().path == seams::fabric_path::simulated;
  ASSERT_EQ(local.ok(), is_believed);
  ASSERT_EQ(target.ok(), is_believed);
  if (!is_believed) {
    EXPECT_EQ(target.error(), status::not_supported);
    EXPECT_NE(last_message().find("GPU"), std::string::npos) << last_message();
    return;
  }
  auto text = fabric_pattern(here.size(), 4);
  std::vector<std::byte> got(here.size());
  auto const move =
      [&](seams::fabric_op_kind kind, std::span<std::byte> memory, seams::fabric_region_id region) {
        auto op = fabric_transfer(kind, to_b, memory, result{target}.value().remote);
        op.region = region;
        return driver().run(a, op).code;
      };
  // Transfers from and to host memory, then device memory. The latter needs a registered region.
  EXPECT_EQ(move(seams::fabric_op_kind::write, text, seams::no_fabric_region), status::ok);
  EXPECT_TRUE(std::equal(text.begin(), text.end(), there.begin()));
  EXPECT_EQ(move(seams::fabric_op_kind::read, here, result{local}.value().id), status::ok);
  EXPECT_TRUE(std::equal(text.begin(), text.end(), here.begin()));
  std::fill(there.begin(), there.end(), std::byte{0});
  EXPECT_EQ(move(seams::fabric_op_kind::write, here, result{local}.value().id), status::ok);
  EXPECT_EQ(move(seams::fabric_op_kind::read, got, seams::no_fabric_region), status::ok);
  EXPECT_TRUE(got == text);
  EXPECT_EQ(a.endpoint->post(fabric_transfer(
                seams::fabric_op_kind::write, to_b, here, result{target}.value().remote)),
            status::invalid);
}

TEST_P(fabric_contract, addresses_are_checked_and_the_same_one_is_the_same_peer) {
  auto &a = driver().node(), &b = driver().node();
  auto const id = driver().peer(a, b);
  EXPECT_EQ(driver().peer(a, b), id);
  auto const refused_address = [&](std::string_view text) {
    EXPECT_EQ(a.endpoint->peer_add(std::as_bytes(std::span{text})).error(), status::invalid)
        << text;
  };
  refused_address("");
  refused_address("x");
  refused_address(std::string(300, 'a'));
  refused_address("fi_shm://../../etc/passwd");
  auto const whole = b.endpoint->address().span();
  EXPECT_EQ(a.endpoint->peer_add(whole.first(whole.size() - 1)).error(), status::invalid);
  EXPECT_EQ(a.endpoint->peer_remove(id), status::ok);
  EXPECT_EQ(a.endpoint->peer_remove(id), status::no_entry);
  std::vector<std::byte> text(4);
  EXPECT_EQ(a.endpoint->post(fabric_message(seams::fabric_op_kind::send, id, text)),
            status::no_entry);
  auto const again = driver().peer(a, b);
  EXPECT_NE(again, id);
  auto const receive =
      driver().post(b, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, text));
  driver().post(a, fabric_message(seams::fabric_op_kind::send, again, text));
  EXPECT_EQ(driver().wait(b, receive).code, status::ok);
}

TEST_P(fabric_contract, transfers_of_64_mib) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  constexpr size_t size = 64u << 20;
  auto text = fabric_pattern(size, 5);
  std::vector<std::byte> memory(size), got(size);
  auto const region = driver().region(b, memory);
  auto const local = driver().region(a, got, {});
  EXPECT_EQ(driver()
                .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote))
                .code,
            status::ok);
  EXPECT_TRUE(memory == text);
  auto read = fabric_transfer(seams::fabric_op_kind::read, to_b, got, region.remote);
  read.region = local.id;
  EXPECT_EQ(driver().run(a, read).code, status::ok);
  EXPECT_TRUE(got == text);
  auto const counters = a.endpoint->counters();
  EXPECT_EQ(counters.bytes[size_t(a.endpoint->properties().path)], 2 * size);
  EXPECT_EQ(counters.ops[size_t(a.endpoint->properties().path)], 2u);
  EXPECT_EQ(a.endpoint->region_release(local.id), status::ok);
}

TEST_P(fabric_contract, many_small_operations) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  constexpr size_t count = 5'000, piece = 64;
  auto text = fabric_pattern(count * piece, 3);
  std::vector<std::byte> memory(count * piece), got(count * piece);
  auto const region = driver().region(b, memory);
  auto const all = [&](seams::fabric_op_kind kind, std::vector<std::byte> &local) {
    for (size_t i = 0; i < count; i++) {
      driver().post(
          a,
          fabric_transfer(
              kind, to_b, std::span{local}.subspan(i * piece, piece), region.remote, i * piece));
    }
    EXPECT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }));
  };
  all(seams::fabric_op_kind::write, text);
  EXPECT_TRUE(memory == text);
  all(seams::fabric_op_kind::read, got);
  EXPECT_TRUE(got == text);
  EXPECT_EQ(a.done.size(), 2 * count);
  for (auto const &each : a.done)
    ASSERT_EQ(each.code, status::ok);
}

TEST_P(fabric_contract, a_full_queue_says_again_until_it_is_reaped) {
  auto &a = driver().node({.depth = 8});
  std::vector<std::byte> memory(64);
  auto op = fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, memory);
  op.deadline_ns = driver().deadline(subject_->short_ns());
  for (int i = 0; i < 8; i++)
    EXPECT_EQ(a.endpoint->post(op), status::ok);
  EXPECT_EQ(a.endpoint->post(op), status::again);
  EXPECT_EQ(a.endpoint->pending_count(), 8u);
  EXPECT_EQ(a.endpoint->counters().again, 1u);
  EXPECT_TRUE(driver().until([&] { return a.done.size() == 8; }));
  EXPECT_EQ(a.endpoint->pending_count(), 0u);
  EXPECT_EQ(a.endpoint->post(op), status::ok);
}

TEST_P(fabric_contract, registrations_are_cached) {
  auto &a = driver().node({.depth = 8, .cache = {.count_max = 2}});
  std::vector<std::byte> memory(1 << 20);
  for (int i = 0; i < 3; i++) {
    auto const region = driver().region(a, memory, {});
    EXPECT_EQ(region.remote.key, 0u);
    EXPECT_EQ(a.endpoint->region_release(region.id), status::ok);
  }
  EXPECT_EQ(a.endpoint->counters().registration_misses, 1u);
  EXPECT_EQ(a.endpoint->counters().registration_hits, 2u);
  a.endpoint->memory_forget(memory.data() + 5000, 1);
  EXPECT_EQ(a.endpoint->region_release(driver().region(a, memory, {}).id), status::ok);
  EXPECT_EQ(a.endpoint->counters().registration_misses, 2u);
  for (int i = 0; i < 4; i++) {
    auto const part = std::span{memory}.subspan(size_t(i) << 18, 4096);
    EXPECT_EQ(a.endpoint->region_release(driver().region(a, part, {}).id), status::ok);
  }
  EXPECT_EQ(a.endpoint->counters().registration_evictions, 0u);  // parts of the registered memory
}

}  // namespace tanada::contract
