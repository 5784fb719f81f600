// tests/contract/fabric_contract_faults.hpp: what every fabric must do when something goes wrong:
// late, refused, dead. Part of the suite in fabric_contract.hpp.
#pragma once

#include "contract/fabric_contract.hpp"

namespace tanada::contract {

TEST_P(fabric_contract, a_receive_that_nothing_comes_for_ends_at_its_deadline) {
  auto &a = driver().node(), &b = driver().node();
  std::vector<std::byte> memory(64);
  auto op = fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, memory);
  op.deadline_ns = driver().deadline(subject_->short_ns());
  auto const done = driver().run(a, op);
  EXPECT_EQ(done.code, status::timed_out);
  EXPECT_GE(subject_->time().now_ns(), op.deadline_ns);
  EXPECT_EQ(a.done.size(), 1u);  // it could be taken back: no notice before
  // It took nothing from those after it.
  auto text = fabric_pattern(64, 1);
  auto const next = driver().post(
      a, fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, memory));
  driver().post(b, fabric_message(seams::fabric_op_kind::send, driver().peer(b, a), text));
  EXPECT_EQ(driver().wait(a, next).code, status::ok);
  EXPECT_EQ(memory, text);
}

// The owner of the memory is away. Either it is done all the same, or the deadline comes and the
// end when it is back.
TEST_P(fabric_contract, a_write_to_one_who_is_away_times_out_and_settles_later) {
  auto &a = driver().node(), &b = driver().node(), &c = driver().node();
  auto const to_b = driver().peer(a, b), to_c = driver().peer(a, c);
  constexpr size_t size = 16u << 20;  // more than sockets hold
  auto text = fabric_pattern(size, 1);
  std::vector<std::byte> memory(size), other(100);
  auto const region = driver().region(b, memory), other_region = driver().region(c, other);
  auto first =
      fabric_transfer(seams::fabric_op_kind::write, to_b, std::span{text}.first(10), region.remote);
  ASSERT_EQ(driver().run(a, first).code, status::ok);  // connected
  b.polled = false;
  auto op = fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote);
  op.deadline_ns = driver().deadline(subject_->short_ns());
  auto const id = driver().post(a, op);
  auto const notice = driver().wait(a, id, false);
  if (notice.code == status::ok) {
    EXPECT_TRUE(a.endpoint->properties().path == seams::fabric_path::rdma ||
                b.endpoint->properties().has_auto_progress);
    EXPECT_TRUE(memory == text);
  } else {
    EXPECT_EQ(notice.code, status::timed_out);
    EXPECT_GE(subject_->time().now_ns(), op.deadline_ns);
  }
  if (!notice.settled) {
    EXPECT_EQ(a.endpoint->pending_count(), 1u);
    // Others are not held up.
    auto const done = driver().run(
        a,
        fabric_transfer(
            seams::fabric_op_kind::write, to_c, std::span{text}.first(100), other_region.remote));
    EXPECT_EQ(done.code, status::ok);
    b.polled = true;
    auto const end = driver().wait(a, id);
    EXPECT_EQ(end.code, status::ok);
    EXPECT_TRUE(memory == text);
    EXPECT_EQ(
        std::count_if(a.done.begin(), a.done.end(), [&](auto &each) { return each.op_id == id; }),
        2);
  }
  b.polled = true;
  EXPECT_EQ(driver().run(a, first).code, status::ok);
  EXPECT_EQ(a.endpoint->pending_count(), 0u);
}

TEST_P(fabric_contract, operations_of_a_peer_that_is_removed_end) {
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(1 << 20), text(1 << 20);
  auto const region = driver().region(b, memory);
  b.polled = false;
  for (int i = 0; i < 4; i++)
    driver().post(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote));
  EXPECT_EQ(a.endpoint->peer_remove(to_b), status::ok);
  b.polled = true;
  EXPECT_TRUE(
      driver().until([&] { return a.done.size() == 4 && a.endpoint->pending_count() == 0; }));
  auto const again = driver().peer(a, b);
  EXPECT_EQ(driver()
                .run(a, fabric_transfer(seams::fabric_op_kind::write, again, text, region.remote))
                .code,
            status::ok);
}

// Keys that are wrong, too short, released, another's, or without the right.
TEST_P(fabric_contract, forged_keys_are_refused_and_harm_nobody_else) {
  auto &a = driver().node(), &b = driver().node(), &c = driver().node();
  auto const from_a = driver().peer(a, b), from_c = driver().peer(c, b);
  std::vector<std::byte> memory(8192, std::byte{1}), read_only(64, std::byte{2}),
      own(64, std::byte{3}), good(64, std::byte{4});
  auto const whole = driver().region(b, std::span{memory}.first(4096));
  auto const released = driver().region(b, std::span{memory}.subspan(4096, 64));
  auto const locked = driver().region(b, read_only, {.remote_read = true, .remote_write = false});
  auto const elsewhere = driver().region(a, own);
  ASSERT_EQ(b.endpoint->region_release(released.id), status::ok);

  seams::fabric_remote wrong = whole.remote, longer = whole.remote, later = whole.remote;
  wrong.key ^= 0x5555;
  longer.size += 4096;
  later.base += 4095;
  struct attempt {
    const char *what;
    seams::fabric_op_kind kind;
    seams::fabric_remote remote;
    uint64_t offset;
  };
  attempt const attempts[] = {
      {"a wrong key", seams::fabric_op_kind::write, wrong, 0},
      {"a wrong key, read", seams::fabric_op_kind::read, wrong, 0},
      {"past the end", seams::fabric_op_kind::write, longer, 4090},
      {"past the end, read", seams::fabric_op_kind::read, longer, 4090},
      {"from a later base", seams::fabric_op_kind::write, later, 0},
      {"released", seams::fabric_op_kind::write, released.remote, 0},
      {"no right", seams::fabric_op_kind::write, locked.remote, 0},
      {"another's", seams::fabric_op_kind::write, elsewhere.remote, 0},
  };
  for (auto const &each : attempts) {
    auto text = fabric_pattern(64, 9);
    auto op = fabric_transfer(each.kind, from_a, text, each.remote, each.offset);
    op.deadline_ns = driver().deadline(subject_->short_ns());
    auto const id = driver().post(a, op);
    driver().post(c,
                  fabric_transfer(seams::fabric_op_kind::write, from_c, good, whole.remote, 128));
    auto const end = driver().wait(a, id, false);
    EXPECT_TRUE(refused(end)) << each.what << ": " << testing::PrintToString(end);
    EXPECT_TRUE(each.kind != seams::fabric_op_kind::read || text == fabric_pattern(64, 9))
        << each.what;
    // An honest one between the same two, too.
    EXPECT_TRUE(driver().until([&] { return c.endpoint->pending_count() == 0; }));
    std::vector<std::byte> got(64);
    EXPECT_EQ(
        settled_run(a, fabric_transfer(seams::fabric_op_kind::read, from_a, got, whole.remote, 128))
            .code,
        status::ok)
        << each.what;
    EXPECT_TRUE(got == good) << each.what;
  }
  for (auto const &each : c.done)
    EXPECT_EQ(each.code, status::ok);
  for (size_t i = 0; i < memory.size(); i++) {
    if (i < 128 || i >= 192) {
      ASSERT_EQ(memory[i], std::byte{1}) << i;
    }
  }
  EXPECT_EQ(read_only, std::vector<std::byte>(64, std::byte{2}));
  EXPECT_EQ(own, std::vector<std::byte>(64, std::byte{3}));
}

TEST_P(fabric_contract, waits_are_bounded_and_can_be_woken) {
  auto &a = driver().node();
  uint64_t const begin_ns = subject_->time().now_ns();
  EXPECT_EQ(a.endpoint->wait(begin_ns), status::timed_out);
  uint64_t const limit_ns = driver().deadline(subject_->short_ns());
  EXPECT_EQ(a.endpoint->wait(limit_ns), status::timed_out);
  EXPECT_GE(subject_->time().now_ns(), limit_ns);
  EXPECT_LE(subject_->time().now_ns(), limit_ns + subject_->patience_ns() / 4);
  a.endpoint->wake();
  EXPECT_EQ(a.endpoint->wait(driver().deadline(subject_->patience_ns())), status::interrupted);
  std::vector<std::byte> memory(8);
  auto op = fabric_message(seams::fabric_op_kind::receive, seams::no_fabric_peer, memory);
  op.deadline_ns = driver().deadline(subject_->short_ns());
  driver().post(a, op);
  EXPECT_EQ(a.endpoint->wait(driver().deadline(subject_->patience_ns())),
            status::ok);  // the operation's deadline
  seams::fabric_completion done[1];
  ASSERT_EQ(a.endpoint->poll(done), 1u);
  EXPECT_EQ(done[0].code, status::timed_out);
}

// One thread waits, and so answers; another writes to it, and its processor time is not spent on
// looking.
TEST_P(fabric_contract, a_waiting_endpoint_answers_and_sleeps) {
  if (!subject_->threads())
    GTEST_SKIP() << "one thread by its nature";
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(1 << 20);
  auto const region = driver().region(b, memory);
  b.polled = false;
  std::atomic<bool> stop{false};
  std::thread owner{[&] {
    while (!stop) {
      auto const code = b.endpoint->wait(driver().deadline(subject_->patience_ns()));
      if (code != status::ok && code != status::interrupted)
        break;
      seams::fabric_completion done[4];
      (void)b.endpoint->poll(done);
    }
  }};
  auto const cpu_ns = [&] {
    clockid_t its_clock{};
    timespec spent{};
    EXPECT_EQ(pthread_getcpuclockid(owner.native_handle(), &its_clock), 0);
    EXPECT_EQ(clock_gettime(its_clock, &spent), 0);
    return uint64_t(spent.tv_sec) * 1'000'000'000 + uint64_t(spent.tv_nsec);
  };
  auto text = fabric_pattern(1 << 20, 2);
  for (int i = 0; i < 5; i++) {
    EXPECT_EQ(driver()
                  .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, text, region.remote))
                  .code,
              status::ok);
  }
  EXPECT_TRUE(memory == text);
  std::this_thread::sleep_for(std::chrono::milliseconds{200});
  uint64_t const begin_ns = cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  EXPECT_LT(cpu_ns() - begin_ns, 250'000'000u) << "of a wait of 0.5 s: it spins";
  stop = true;
  b.endpoint->wake();
  owner.join();
}

TEST_P(fabric_contract, a_peer_that_is_killed_is_told_and_others_go_on) {
  auto victim = subject_->victim();
  if (!victim)
    GTEST_SKIP() << "no second process here";
  auto &a = driver().node(), &b = driver().node();
  auto const to_b = driver().peer(a, b);
  std::vector<std::byte> memory(4096), got(4096);
  auto const region = driver().region(b, memory);
  auto const card = victim->card();
  auto added = a.endpoint->peer_add(card.address.span());
  ASSERT_TRUE(added.ok());
  auto const doomed = added.value();
  auto const read = fabric_transfer(seams::fabric_op_kind::read, doomed, got, card.remote, 100);
  ASSERT_EQ(driver().run(a, read).code, status::ok);
  EXPECT_TRUE(got == std::vector<std::byte>(4096, std::byte{0x5a}));

  victim->kill();
  std::vector<uint64_t> lost;
  for (int i = 0; i < 5; i++) {
    auto op = read;
    op.kind = i % 2 == 0 ? seams::fabric_op_kind::read : seams::fabric_op_kind::write;
    op.deadline_ns = driver().deadline(10 * subject_->short_ns());
    lost.push_back(driver().post(a, op));
  }
  EXPECT_EQ(driver()
                .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, memory, region.remote))
                .code,
            status::ok);
  for (auto const id : lost)
    EXPECT_TRUE(refused(driver().wait(a, id)));
  EXPECT_EQ(a.endpoint->pending_count(), 0u);
  EXPECT_EQ(driver()
                .run(a, fabric_transfer(seams::fabric_op_kind::write, to_b, memory, region.remote))
                .code,
            status::ok);

  victim->restart();
  auto const back = victim->card();
  auto again = a.endpoint->peer_add(back.address.span());
  ASSERT_TRUE(again.ok());
  if (victim->keeps_address()) {
    EXPECT_EQ(again.value(), doomed);
    auto stale = read;
    stale.deadline_ns = driver().deadline(subject_->short_ns());
    auto const end = driver().wait(a, driver().post(a, stale), false);
    EXPECT_TRUE(refused(end)) << "a key of a former life: " << testing::PrintToString(end);
  }
  std::fill(got.begin(), got.end(), std::byte{0});
  EXPECT_EQ(settled_run(
                a, fabric_transfer(seams::fabric_op_kind::read, again.value(), got, back.remote, 5))
                .code,
            status::ok);
  EXPECT_TRUE(got == std::vector<std::byte>(4096, std::byte{0x5a}));
}

// Killed in the middle of a transfer, several times: the memory comes back each time.
TEST_P(fabric_contract, a_peer_that_is_killed_while_it_serves_lets_go_of_the_memory) {
  auto victim = subject_->victim();
  if (!victim)
    GTEST_SKIP() << "no second process here";
  auto &a = driver().node();
  std::vector<std::byte> memory(1 << 20);
  for (int round = 0; round < 3; round++) {
    auto const card = victim->card();
    auto added = a.endpoint->peer_add(card.address.span());
    ASSERT_TRUE(added.ok());
    auto const peer = added.value();
    ASSERT_EQ(driver()
                  .run(a, fabric_transfer(seams::fabric_op_kind::read, peer, memory, card.remote))
                  .code,
              status::ok);
    victim->stop();
    a.done.clear();
    for (int i = 0; i < 8; i++) {
      auto op = fabric_transfer(i % 2 ? seams::fabric_op_kind::read : seams::fabric_op_kind::write,
                                peer,
                                memory,
                                card.remote);
      op.deadline_ns = driver().deadline(subject_->short_ns());
      driver().post(a, op);
    }
    EXPECT_TRUE(driver().until([&] { return a.done.size() >= 4; }));
    victim->kill();
    EXPECT_TRUE(driver().until([&] { return a.endpoint->pending_count() == 0; }))
        << "round " << round;
    size_t settled = 0;
    for (auto const &each : a.done) {
      settled += each.settled;
      EXPECT_TRUE(each.code != status::ok ||
                  a.endpoint->properties().path == seams::fabric_path::rdma);
    }
    EXPECT_EQ(settled, 8u);
    victim->restart();
  }
}

}  // namespace tanada::contract
