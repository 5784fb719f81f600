// The calls of tanada/o2g.h from one thread, so that every order of events is chosen.
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <thread>

#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

TEST(seed, calls_in_the_wrong_order) {
  queue_entry entry = O2G_ENTRY_INIT;
  uint64_t seen = 0;
  EXPECT_EQ(o2g_put_entry(&entry), -TND_ESTATE);
  EXPECT_EQ(o2g_poll(), -TND_ESTATE);
  EXPECT_EQ(o2g_poll_for(&seen, 0), -TND_ESTATE);
  EXPECT_EQ(o2g_fini(), -TND_ESTATE);
  EXPECT_EQ(o2g_sequence(), 0u);
  EXPECT_EQ(o2g_next_entry(nullptr), nullptr);
  EXPECT_EQ(o2g_init(0), -EINVAL);
  EXPECT_EQ(o2g_init(O2G_SOCKET_COUNT_MAX + 1), -EINVAL);
  paper_process process{1};
  EXPECT_EQ(o2g_init(1), -EBUSY);
  EXPECT_EQ(o2g_put_entry(nullptr), -EINVAL);
  EXPECT_EQ(o2g_cancel_entry(&entry), -EINVAL);
  EXPECT_EQ(o2g_free_entry(&entry), -EINVAL);
  EXPECT_EQ(o2g_poll_for(nullptr, 0), -EINVAL);
  EXPECT_EQ(o2g_start_dumper_thread(-1), -EINVAL);
  EXPECT_EQ(o2g_start_dumper_thread(O2G_THREAD_COUNT_MAX + 1), -EINVAL);
  char area[4096];
  EXPECT_EQ(o2g_set_dump_area(area, sizeof area), -EBUSY);
  EXPECT_EQ(o2g_rank_status(7), -ENOENT);
  entry.tag = -2;
  EXPECT_EQ(o2g_put_entry(&entry), -EINVAL);
}

TEST(seed, an_expected_message_lands_in_its_buffer) {
  paper_process process{2};
  receive one{1, 5, 100};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  EXPECT_EQ(one.flags(), uint32_t(O2G_QUEUED));
  EXPECT_EQ(o2g_put_entry(&one.entry), -EINVAL);  // it is in the queue
  write_all(process.peers[1], message_of(1, 5, "hello"));
  ASSERT_EQ(o2g_poll(), TND_OK);
  EXPECT_EQ(one.flags(), uint32_t(O2G_MATCHED | O2G_RECEIVED));
  EXPECT_EQ(one.text(), "hello");
  EXPECT_EQ(statistics().unexpected_count, 0u);
  EXPECT_EQ(statistics().received_count, 1u);
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);  // a second time
  EXPECT_EQ(o2g_cancel_entry(&one.entry), TND_OK);
  EXPECT_EQ(one.flags(), 0u);
}

TEST(seed, an_unexpected_message_is_seen_before_all_of_it_has_come) {
  paper_process process{1};
  std::string const whole = message_of(0, 3, "in two parts");
  write_all(process.peers[0], whole.substr(0, whole.size() - 5));
  ASSERT_TRUE(until([] { return o2g_sequence() == 1; }));
  queue_entry *const entry = o2g_next_entry(nullptr);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(o2g_next_entry(entry), nullptr);
  EXPECT_EQ(o2g_entry_flags(entry), uint32_t(O2G_UNEXPECTED | O2G_MATCHED));
  EXPECT_EQ(entry->tag, 3);
  EXPECT_EQ(entry->message_size, 12u);
  EXPECT_EQ(o2g_free_entry(entry), -EBUSY);
  write_all(process.peers[0], whole.substr(whole.size() - 5));
  ASSERT_TRUE(until_received(1));
  EXPECT_EQ(o2g_entry_flags(entry), uint32_t(O2G_UNEXPECTED | O2G_MATCHED | O2G_RECEIVED));
  EXPECT_EQ(text_of(*entry), "in two parts");
  ASSERT_EQ(o2g_free_entry(entry), TND_OK);
  EXPECT_EQ(o2g_next_entry(nullptr), nullptr);
}

// Section 4.6: the caller checks, a message arrives, the caller puts.
TEST(seed, a_put_that_raced_says_so) {
  paper_process process{1};
  receive one{0, O2G_ANY_TAG, 100};
  queue_entry *found = nullptr;
  ASSERT_EQ(o2g_find_entry(&one.entry, &found), -ENOENT);
  write_all(process.peers[0], message_of(0, 9, "late"));
  ASSERT_TRUE(until_received(1));
  EXPECT_EQ(o2g_put_entry(&one.entry), -EAGAIN);
  EXPECT_EQ(one.flags(), 0u);
  ASSERT_EQ(o2g_find_entry(&one.entry, &found), TND_OK);
  EXPECT_EQ(text_of(*found), "late");
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);  // the message is for another entry
  EXPECT_EQ(o2g_cancel_entry(&one.entry), TND_OK);
  EXPECT_EQ(o2g_free_entry(found), TND_OK);
  EXPECT_EQ(statistics().race_count, 1u);
}

TEST(seed, a_walk_counts_as_a_look) {
  paper_process process{1};
  write_all(process.peers[0], message_of(0, 1, "one"));
  ASSERT_TRUE(until_received(1));
  receive wanted{0, 1, 100};
  EXPECT_EQ(o2g_put_entry(&wanted.entry), -EAGAIN);  // it has not checked
  wanted.entry.sequence = o2g_sequence();
  ASSERT_EQ(o2g_put_entry(&wanted.entry), TND_OK);  // it has checked, and left that one to another
  ASSERT_EQ(o2g_cancel_entry(&wanted.entry), TND_OK);
  write_all(process.peers[0], message_of(0, 2, "other"));
  ASSERT_TRUE(until_received(2));
  ASSERT_EQ(o2g_put_entry(&wanted.entry), TND_OK);  // later messages do not match
  ASSERT_EQ(o2g_cancel_entry(&wanted.entry), TND_OK);
  write_all(process.peers[0], message_of(0, 1, "two"));
  ASSERT_TRUE(until_received(3));
  EXPECT_EQ(o2g_put_entry(&wanted.entry), -EAGAIN);
}

TEST(seed, a_cancel_that_raced_says_so) {
  paper_process process{1};
  receive one{O2G_ANY_SOURCE, 1, 100};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  std::string const whole = message_of(0, 1, "text");
  write_all(process.peers[0], whole.substr(0, sizeof(o2g_header) + 1));
  ASSERT_TRUE(until([&] { return (one.flags() & O2G_MATCHED) != 0; }));
  EXPECT_EQ(o2g_cancel_entry(&one.entry), -EAGAIN);
  write_all(process.peers[0], whole.substr(sizeof(o2g_header) + 1));
  ASSERT_TRUE(until([&] { return one.is_done(); }));
  EXPECT_EQ(o2g_cancel_entry(&one.entry), -EAGAIN);
  EXPECT_EQ(one.text(), "text");
}

TEST(seed, a_message_that_is_too_long_is_cut) {
  paper_process process{1};
  receive first{0, 1, 4}, second{0, 1, 4}, none{0, 1, 0};
  for (receive *one : {&first, &second, &none})
    ASSERT_EQ(o2g_put_entry(&one->entry), TND_OK);
  std::string const long_one = message_of(0, 1, std::string(300'000, 'x'));
  std::thread sender{[&] {
    write_all(process.peers[0], long_one + message_of(0, 1, "next") + message_of(0, 1, "yz"));
  }};
  EXPECT_TRUE(until([&] { return none.is_done(); }));
  sender.join();
  EXPECT_EQ(first.flags() & O2G_TRUNCATED, uint32_t(O2G_TRUNCATED));
  EXPECT_EQ(first.entry.message_size, 300'000u);
  EXPECT_EQ(first.text(), "xxxx");
  EXPECT_EQ(second.text(), "next");
  EXPECT_EQ(second.flags() & O2G_TRUNCATED, 0u);
  EXPECT_EQ(none.flags() & O2G_TRUNCATED, uint32_t(O2G_TRUNCATED));
}

TEST(seed, contexts_keep_apart) {
  paper_process process{1};
  receive other{O2G_ANY_SOURCE, O2G_ANY_TAG, 10, 2}, same{O2G_ANY_SOURCE, O2G_ANY_TAG, 10, 1};
  ASSERT_EQ(o2g_put_entry(&other.entry), TND_OK);
  ASSERT_EQ(o2g_put_entry(&same.entry), TND_OK);
  write_all(process.peers[0], message_of(0, 0x7FFFFFFF, "a", 1));
  ASSERT_TRUE(until([&] { return same.is_done(); }));
  EXPECT_EQ(same.entry.tag, 0x7FFFFFFF);
  EXPECT_FALSE(other.is_done());
}

TEST(seed, a_bounded_poll_ends) {
  paper_process process{1};
  uint64_t seen = 0;
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EQ(o2g_poll_for(&seen, second_ns / 20), -ETIMEDOUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds{50});
  process.end_peer(0);
  EXPECT_EQ(o2g_poll_for(&seen, 10 * second_ns), TND_OK);  // an end counts
  EXPECT_EQ(o2g_poll_for(&seen, 10 * second_ns), -TND_EPEER);
  EXPECT_EQ(o2g_poll(), TND_OK);
  EXPECT_EQ(o2g_poll(), -TND_EPEER);
}

// MPI's order, by walking lists: a message takes the oldest matching entry, an entry the oldest
// message.
struct model_receive {
  receive *real;
  int source, tag;
  uint32_t context;
  bool takes(const o2g_header &head) const {
    return context == head.context && (source < 0 || source == head.source) &&
           (tag < 0 || tag == head.tag);
  }
};

TEST(seed, finds_what_walking_lists_would) {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    SCOPED_TRACE(seed);
    uint64_t state = seed * 0x9E3779B97F4A7C15u;
    auto const below = [&](uint64_t bound) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return int((state >> 11) % bound);
    };
    paper_process process{3, 8 << 20};
    std::deque<receive> all;
    std::list<model_receive> posted;
    std::list<std::pair<o2g_header, std::string>> arrived;
    std::map<receive *, std::string> due;
    uint64_t sent_count = 0;
    for (int step = 0; step < 400; step++) {
      if (below(2) == 0) {
        auto const head = header_of(below(3), below(4), 0, uint32_t(below(2)));
        std::string const text =
            std::to_string(step) +
            std::string(size_t(below(30) == 0 ? below(60'000) : below(50)), 'm');
        write_all(process.peers[size_t(head.source)],
                  message_of(head.source, head.tag, text, head.context));
        ASSERT_TRUE(until_received(++sent_count));
        auto const taker =
            std::ranges::find_if(posted, [&](model_receive &one) { return one.takes(head); });
        if (taker == posted.end()) {
          arrived.emplace_back(head, text);
        } else {
          due[taker->real] = text;
          posted.erase(taker);
        }
        continue;
      }
      model_receive wanted{nullptr, below(4) - 1, below(5) - 1, uint32_t(below(2))};
      wanted.real = &all.emplace_back(wanted.source, wanted.tag, size_t{60'100}, wanted.context);
      auto const message =
          std::ranges::find_if(arrived, [&](auto &one) { return wanted.takes(one.first); });
      int const code = o2g_put_entry(&wanted.real->entry);
      ASSERT_EQ(code, message == arrived.end() ? TND_OK : -EAGAIN);
      if (code == TND_OK) {
        posted.push_back(wanted);
        continue;
      }
      queue_entry *found = nullptr;
      ASSERT_EQ(o2g_find_entry(&wanted.real->entry, &found), TND_OK);
      ASSERT_TRUE(text_of(*found) == message->second);
      ASSERT_EQ(o2g_free_entry(found), TND_OK);
      arrived.erase(message);
    }
    for (auto &[real, text] : due)
      ASSERT_TRUE(real->is_done() && real->text() == text);
    EXPECT_EQ(statistics().unexpected_count, arrived.size());
    EXPECT_EQ(statistics().expected_count, posted.size());
  }
}

// Sleeps of the calling thread within `count` calls; the calls end after `limit` sleeps. A thread
// that sleeps makes a voluntary context switch.
template <class Call>
long sleeps_in(int count, long limit, Call call) {
  auto const switch_count = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  long const before = switch_count();
  for (int i = 0; i < count && switch_count() - before <= limit; i++)
    call();
  return switch_count() - before;
}

// All calls except o2g_poll() and o2g_poll_for() with a limit: 500 of each, with and without a
// thread that receives meanwhile.
TEST(seed, calls_that_are_no_waits_do_not_sleep) {
  for (int const thread_count : {0, 1}) {
    paper_process process{2, 1 << 20, thread_count};
    receive one{0, 5, 100}, other{1, O2G_ANY_TAG, 100};
    queue_entry *found = nullptr;
    uint64_t seen = 0;
    // With a thread, a call may occasionally wait for its lock.
    long const slack = thread_count == 0 ? 0 : 25;
    auto const expect_none = [&](const char *name, auto call) {
      EXPECT_LE(sleeps_in(500, slack, call), slack)
          << name << " with " << thread_count << " threads";
    };
    expect_none("o2g_put_entry, o2g_cancel_entry", [&] {
      EXPECT_EQ(o2g_put_entry(&one.entry), TND_OK);
      EXPECT_EQ(o2g_cancel_entry(&one.entry), TND_OK);
    });
    expect_none("o2g_find_entry",
                [&] { EXPECT_EQ(o2g_find_entry(&other.entry, &found), -ENOENT); });
    expect_none("o2g_poll_for without a time-out",
                [&] { EXPECT_EQ(o2g_poll_for(&seen, 0), -ETIMEDOUT); });
    expect_none("calls that look", [&] {
      EXPECT_EQ(o2g_next_entry(nullptr), nullptr);
      EXPECT_EQ(o2g_sequence(), 0u);
      EXPECT_EQ(o2g_entry_flags(&one.entry), 0u);
      EXPECT_EQ(o2g_rank_status(0), TND_OK);
      EXPECT_EQ(statistics().socket_count, 2u);
    });
    // Unexpected messages are freed as they arrive.
    for (int i = 0; i < 200; i++)
      write_all(process.peers[1], message_of(1, i, "unexpected"));
    ASSERT_TRUE(until([] { return statistics().received_count == 200; }));
    EXPECT_LE(
        sleeps_in(200, slack, [] { EXPECT_EQ(o2g_free_entry(o2g_next_entry(nullptr)), TND_OK); }),
        slack);
    EXPECT_EQ(o2g_next_entry(nullptr), nullptr);
  }
}

}  // namespace
}  // namespace tanada::o2g::calls
