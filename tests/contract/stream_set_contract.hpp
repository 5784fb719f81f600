// tests/contract/stream_set_contract.hpp: the contract of every stream_set. Each binary that
// includes this instantiates the suite with the sets it runs: INSTANTIATE_TEST_SUITE_P(name,
// stream_set_contract, testing::Values(...)).
#pragma once

#include <algorithm>
#include <set>

#include "contract/stream_set_subject.hpp"

namespace tanada::contract {

class stream_set_contract : public testing::TestWithParam<stream_set_case> {
 protected:
  void SetUp() override {
    subject_ = GetParam().make();
    ASSERT_NE(subject_, nullptr);
    driver_ = std::make_unique<stream_driver>(*subject_);
  }
  void TearDown() override {
    driver_.reset();
    subject_.reset();
  }
  stream_driver &driver() {
    return *driver_;
  }

  // Sends `size` bytes each way over one connection, in pieces of at most `piece_max`.
  void exchange(taking how, uint64_t size, uint64_t piece_max, bool wants_breaks = false) {
    auto &a = driver().node(), &b = driver().node();
    a.accept_how = how;
    b.accept_how = how;
    a.wants_breaks = wants_breaks;
    b.wants_breaks = wants_breaks;
    auto [ours, theirs] = driver().pair(a, b);
    ours->number = 1;
    theirs->number = 2;
    bool const came = driver().until([&, ours = ours, theirs = theirs] {
      if (ours->sent < size)
        a.send(*ours, 2, a.random.between(1, std::min(piece_max, size - ours->sent)));
      if (theirs->sent < size)
        b.send(*theirs, 1, b.random.between(1, std::min(piece_max, size - theirs->sent)));
      return ours->received == size && theirs->received == size;
    });
    EXPECT_TRUE(came) << ours->received << " and " << theirs->received << " of " << size
                      << " bytes came";
    EXPECT_TRUE(ours->is_right && theirs->is_right);
    if (how != taking::turns) {
      EXPECT_EQ(ours->landed_size, how == taking::landed ? size : 0);
    }
  }

  // While one connection is always busy, a byte that arrives on another one must be received.
  void expect_turns(bool wants_breaks) {
    constexpr uint64_t busy_size_min = 256 << 10;
    constexpr uint64_t busy_size_max = 64 << 20;
    auto &a = driver().node(), &b = driver().node();
    b.wants_breaks = wants_breaks;
    auto [busy, busy_end] = driver().pair(a, b);
    auto [ours, theirs] = driver().pair(a, b);
    ASSERT_TRUE(driver().until([&, busy = busy, busy_end = busy_end, ours = ours, theirs = theirs] {
      a.send(*busy, 0, 1 << 19);
      if (busy_end->received > busy_size_min && ours->sent == 0)
        a.send(*ours, 0, 1);
      return theirs->received == 1 || busy_end->received > busy_size_max;
    }));
    EXPECT_EQ(theirs->received, 1u);
  }

  std::unique_ptr<stream_set_subject> subject_;
  std::unique_ptr<stream_driver> driver_;
};

TEST_P(stream_set_contract, bytes_are_shown_in_order) {
  exchange(taking::shown, 1 << 20, 300'000);
}
TEST_P(stream_set_contract, bytes_land_in_order) {
  exchange(taking::landed, 1 << 20, 300'000);
}
TEST_P(stream_set_contract, bytes_land_and_are_shown_in_turns_in_order) {
  exchange(taking::turns, 1 << 20, 300'000);
}
TEST_P(stream_set_contract, small_pieces_land_and_are_shown_in_turns_in_order) {
  exchange(taking::turns, 20'000, 30);
}
TEST_P(stream_set_contract, bytes_come_in_order_while_every_drive_is_cut_short) {
  exchange(taking::turns, 1 << 20, 300'000, true);
}

TEST_P(stream_set_contract, both_ends_know_who_the_other_is) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  EXPECT_EQ(a.set->peer(ours->id), b.address);
  auto const seen = b.set->peer(theirs->id);
  EXPECT_EQ(seen.family, seams::socket_address::family_kind::ipv4);
  EXPECT_EQ(seen.bytes, a.address.bytes);
  EXPECT_NE(seen.port, 0);
  EXPECT_EQ(theirs->ended_count + ours->ended_count, 0u);
}

TEST_P(stream_set_contract, a_connection_comes_from_the_interface_that_was_chosen) {
  auto &a = driver().node(), &b = driver().node();
  auto &ours = driver().connect(a, b.address, loopback(4711, 7));
  ASSERT_TRUE(driver().until([&] { return ours.is_connected && !b.ends.empty(); }));
  EXPECT_EQ(b.set->peer(b.ends[0].id).bytes, loopback(0, 7).bytes);
  EXPECT_NE(b.set->peer(b.ends[0].id).port, 4711);
}

TEST_P(stream_set_contract, a_connect_that_is_refused_ends) {
  auto &a = driver().node();
  seams::socket_address nobody;
  {
    stream_driver elsewhere{*subject_};
    nobody = elsewhere.node().address;
  }
  auto &ours = driver().connect(a, nobody);
  ASSERT_TRUE(driver().until([&] { return ours.ended_count > 0; }));
  EXPECT_EQ(ours.why, status::peer_lost);
  driver().settle();
  EXPECT_FALSE(ours.is_connected);
  EXPECT_EQ(ours.ended_count, 1u);
}

TEST_P(stream_set_contract, an_address_is_for_one_listener) {
  auto &a = driver().node();
  auto other = subject_->open({});
  ASSERT_TRUE(other.ok());
  auto set = std::move(other).value();
  EXPECT_EQ(set->listen(a.address).error(), status::busy);
}

TEST_P(stream_set_contract,
       a_send_before_the_connection_is_up_takes_nothing_and_writable_or_connected_follows) {
  auto &a = driver().node(), &b = driver().node();
  auto &ours = driver().connect(a, b.address);
  EXPECT_EQ(a.send(ours, 3, 100), 0u);
  ASSERT_TRUE(driver().until([&] { return ours.is_connected || ours.writable_count > 0; }));
  ASSERT_TRUE(driver().until([&] {
    if (ours.sent < 100)
      a.send(ours, 3, 100 - ours.sent);
    if (!b.ends.empty())
      b.ends[0].number = 3;
    return !b.ends.empty() && b.ends[0].received == 100;
  }));
}

TEST_P(stream_set_contract, a_sender_without_room_is_told_when_there_is_some) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  b.is_driven = false;
  bool is_full = false;
  ASSERT_TRUE(driver().until([&] {
    is_full = a.send(from, 0, 1 << 20) < 1 << 20;
    return is_full;
  })) << "there is always room";
  // A set may accept less than all only temporarily. Then it calls on_writable().
  uint64_t const size = from.sent + (8 << 20);
  uint32_t seen = 0;
  a.on_event = [&](stream_end &end, const std::string &event) {
    if (event != "writable")
      return;
    seen++;
    while (end.sent < size &&
           a.send(end, 0, std::min<uint64_t>(1 << 20, size - end.sent)) == 1 << 20) {}
  };
  b.is_driven = true;
  EXPECT_TRUE(driver().until([&] { return to.received == size; }))
      << to.received << " of " << size << " bytes came";
  EXPECT_GE(seen, 1u);
  EXPECT_TRUE(to.is_right);
  driver().settle();
  uint32_t const before = from.writable_count;
  driver().settle();
  EXPECT_EQ(from.writable_count, before) << "on_writable() called while no send waits for space";
}

TEST_P(stream_set_contract, what_was_handed_over_comes_before_the_end) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  from.how = taking::turns;
  ASSERT_TRUE(driver().until([&] {
    a.send(from, 0, 100'000 - from.sent);
    return from.sent == 100'000;
  }));
  a.close(from);
  ASSERT_TRUE(driver().until([&] { return to.ended_count > 0; }));
  EXPECT_EQ(to.why, status::peer_lost);
  EXPECT_EQ(to.received, 100'000u);
  EXPECT_TRUE(to.is_right);
  driver().settle();
  EXPECT_EQ(to.ended_count, 1u);
  std::byte byte{};
  iovec const part{&byte, 1};
  EXPECT_EQ(b.set->send(to.id, {&part, 1}).error(), status::peer_lost);
  b.set->close(to.id);  // a no-op for a connection that has ended
  EXPECT_EQ(b.set->peer(to.id).family, seams::socket_address::family_kind::unspecified);
}

TEST_P(stream_set_contract, a_connection_may_be_closed_in_every_call) {
  for (std::string const event : {"accepted", "connected", "bytes", "writable", "ended"}) {
    for (bool const is_ours : {true, false}) {
      auto &a = driver().node(), &b = driver().node();
      for (auto *node : {&a, &b}) {
        node->accept_how = taking::turns;
        node->on_event = [&, node](stream_end &end, const std::string &what) {
          if (what == event && (node == &a) == is_ours && !end.is_closed)
            node->close(end);
        };
      }
      auto &ours = driver().connect(a, b.address);
      auto const is_over = [](const stream_end &end) {
        return end.is_closed || end.ended_count > 0;
      };
      auto const push = [&](stream_node &node, stream_end &end) {
        if (!is_over(end) && (end.is_connected || end.is_accepted))
          node.send(end, 0, 1 << 18);
      };
      int rounds = 0;
      EXPECT_TRUE(driver().until([&] {
        push(a, ours);
        if (!b.ends.empty())
          push(b, b.ends[0]);
        // Not every event occurs at each end of the connection.
        if (++rounds == 60 && !is_over(ours))
          a.close(ours);
        return is_over(ours) && (b.ends.empty() || is_over(b.ends[0]));
      })) << event;
      driver().settle();  // stream_node::at() finds calls after the close
      EXPECT_TRUE(ours.is_right && (b.ends.empty() || b.ends[0].is_right));
      b.on_event = [](stream_end &, const std::string &) {
      };
      a.on_event = b.on_event;
    }
  }
}

TEST_P(stream_set_contract, other_connections_go_on_when_one_is_closed_in_the_call_of_another) {
  auto &a = driver().node(), &b = driver().node();
  std::vector<stream_end *> from, to;
  for (int i = 0; i < 6; i++) {
    auto [ours, theirs] = driver().pair(a, b);
    from.push_back(ours);
    to.push_back(theirs);
  }
  // The first byte on an even connection closes the odd one after it.
  b.on_event = [&](stream_end &end, const std::string &event) {
    if (event == "bytes" && end.word % 2 == 0 && !to[end.word + 1]->is_closed)
      b.close(*to[end.word + 1]);
  };
  ASSERT_TRUE(driver().until([&] {
    for (auto *each : from)
      if (each->sent < 5'000 && each->ended_count == 0)
        a.send(*each, 0, 5'000 - each->sent);
    return to[0]->received == 5'000 && to[2]->received == 5'000 && to[4]->received == 5'000 &&
           from[1]->ended_count == 1 && from[3]->ended_count == 1 && from[5]->ended_count == 1;
  }));
  EXPECT_TRUE(to[0]->is_right && to[2]->is_right && to[4]->is_right);
}

TEST_P(stream_set_contract, a_number_is_not_used_again_soon) {
  auto &a = driver().node(), &b = driver().node();
  std::set<seams::stream_id> seen;
  for (int i = 0; i < 50; i++) {
    auto [ours, theirs] = driver().pair(a, b);
    EXPECT_TRUE(seen.insert(ours->id).second);
    a.close(*ours);
    ASSERT_TRUE(driver().until([&, theirs = theirs] { return theirs->ended_count == 1; }));
  }
}

TEST_P(stream_set_contract, more_connections_than_allowed_are_refused) {
  auto &a = driver().node({.connection_count_max = 3}), &b = driver().node();
  std::vector<stream_end *> mine;
  for (int i = 0; i < 3; i++)
    mine.push_back(driver().pair(a, b).first);
  EXPECT_EQ(a.set->connect(b.address, {}, 99).error(), status::too_many_files);
  a.close(*mine[1]);
  driver().pair(a, b);
  auto &fourth = driver().connect(b, a.address);  // the listener closes it
  EXPECT_TRUE(driver().until([&] { return fourth.ended_count == 1; }));
}

TEST_P(stream_set_contract, thousands_of_connections) {
  size_t const count = subject_->connection_count_max();
  auto &a = driver().node(), &b = driver().node();
  b.accept_how = taking::turns;
  for (size_t done = 0; done < count; done += 100) {
    for (size_t i = 0; i < 100; i++)
      driver().connect(a, b.address);
    ASSERT_TRUE(driver().until([&] {
      return b.ends.size() == done + 100 &&
             std::all_of(a.ends.begin(), a.ends.end(), [](auto &e) { return e.is_connected; });
    })) << b.ends.size();
  }
  ASSERT_TRUE(driver().until([&] {
    for (auto &each : a.ends)
      if (each.sent < 2'000)
        a.send(each, 0, 2'000 - each.sent);
    return std::all_of(
        b.ends.begin(), b.ends.end(), [](auto &end) { return end.received == 2'000; });
  }));
  for (auto &each : b.ends)
    EXPECT_TRUE(each.is_right);
}

TEST_P(stream_set_contract, one_busy_connection_does_not_starve_the_others) {
  expect_turns(false);
}
TEST_P(stream_set_contract, one_busy_connection_does_not_starve_the_others_in_short_drives) {
  expect_turns(true);
}

TEST_P(stream_set_contract, a_drive_ends_early_for_a_handler_that_wants_a_break) {
  if (!subject_->has_sockets())
    GTEST_SKIP() << "its drives are short";
  constexpr size_t count = 8;
  auto &a = driver().node(), &b = driver().node();
  for (size_t i = 0; i < count; i++)
    driver().pair(a, b);
  for (auto &each : a.ends)
    EXPECT_EQ(a.send(each, 0, 1000), 1000u);
  b.wants_breaks = true;
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // all bytes have arrived
  auto const served_count = [&] {
    return size_t(
        std::ranges::count_if(b.ends, [](const stream_end &end) { return end.received != 0; }));
  };
  for (size_t before = 0; before < count;) {
    b.set->progress();
    EXPECT_LE(served_count(), before + 1);
    before = served_count();
  }
}

TEST_P(stream_set_contract, waits_end_with_bytes_with_a_wake_or_at_the_deadline) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  driver().settle();
  uint64_t const begin_ns = subject_->time().now_ns();
  EXPECT_EQ(b.set->wait(begin_ns + 30'000'000), status::timed_out);
  EXPECT_GE(subject_->time().now_ns(), begin_ns + 30'000'000);
  EXPECT_EQ(b.set->wait(1), status::timed_out) << "a deadline that has passed";
  b.set->wake();
  EXPECT_EQ(b.set->wait(subject_->time().now_ns() + subject_->patience_ns()), status::ok)
      << "a wake before the wait";
  EXPECT_EQ(b.set->wait(subject_->time().now_ns() + 1'000'000), status::timed_out)
      << "woken twice by one wake";
  while (a.send(from, 0, 10) == 0)
    driver().drive_all();
  b.is_driven = false;
  EXPECT_EQ(b.set->wait(subject_->time().now_ns() + subject_->patience_ns()), status::ok);
  EXPECT_EQ(b.set->wait(subject_->time().now_ns() + subject_->patience_ns()), status::ok)
      << "there is still something";
  b.is_driven = true;
  ASSERT_TRUE(driver().until([&] { return to.received == from.sent; }));
}

}  // namespace tanada::contract
