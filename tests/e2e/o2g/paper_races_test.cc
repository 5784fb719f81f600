// tanada/o2g.h from several threads, also under ThreadSanitizer.
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

// The loop of section 4.6 of the paper. Returns the message, received either way.
std::string receive_one(int source, int tag, uint64_t &again_count) {
  receive one{source, tag, 256};
  uint64_t seen = 0;
  for (;;) {
    queue_entry *found = nullptr;
    if (o2g_find_entry(&one.entry, &found) == TND_OK) {
      EXPECT_TRUE(until([&] { return (o2g_entry_flags(found) & O2G_RECEIVED) != 0; }));
      std::string const text = text_of(*found);
      EXPECT_EQ(o2g_free_entry(found), TND_OK);
      return text;
    }
    std::this_thread::yield();  // room for the race
    int const code = o2g_put_entry(&one.entry);
    if (code == TND_OK)
      break;
    EXPECT_EQ(code, -EAGAIN);
    again_count++;
  }
  while (!one.is_done())
    EXPECT_EQ(o2g_poll_for(&seen, 10 * second_ns), TND_OK);
  return one.text();
}

class seed_races : public testing::TestWithParam<int> {};  // dumper threads

// Every message arrives once, in order, for any interleaving of puts and arrivals.
TEST_P(seed_races, puts_against_arrivals) {
  constexpr int count = 4000;
  paper_process process{2, 256 << 10, GetParam()};
  std::array<std::thread, 2> senders;
  for (int rank = 0; rank < 2; rank++)
    senders[size_t(rank)] = std::thread{[&process, rank] {
      std::minstd_rand random(unsigned(rank + 1));
      for (int i = 0; i < count; i++) {
        write_all(process.peers[size_t(rank)], message_of(rank, i % 3, std::to_string(i)));
        if (random() % 8 == 0)
          std::this_thread::yield();
      }
    }};
  uint64_t again_count = 0;
  for (int i = 0; i < count; i++)
    for (int rank = 0; rank < 2; rank++) {
      int const tag = i % 2 == 0 ? i % 3 : O2G_ANY_TAG;
      ASSERT_EQ(receive_one(rank, tag, again_count), std::to_string(i));
    }
  for (std::thread &each : senders)
    each.join();
  EXPECT_EQ(statistics().race_count, again_count);
  EXPECT_EQ(statistics().unexpected_count, 0u);
  RecordProperty("races", int(again_count));
}

// A message belongs to the entry, or to the queue: never to both, never to neither.
TEST_P(seed_races, cancels_against_arrivals) {
  constexpr int count = 3000;
  paper_process process{1, 1 << 20, GetParam()};
  std::thread sender{[&] {
    for (int i = 0; i < count; i++)
      write_all(process.peers[0], message_of(0, 1, std::to_string(i)));
  }};
  uint64_t again_count = 0;
  for (int i = 0; i < count;) {
    receive one{0, 1, 16};
    int code = o2g_put_entry(&one.entry);
    if (code == TND_OK) {
      code = o2g_cancel_entry(&one.entry);
      if (code == TND_OK)
        continue;
      ASSERT_EQ(code, -EAGAIN);
      again_count++;
      ASSERT_TRUE(until([&] { return one.is_done(); }));
      ASSERT_EQ(one.text(), std::to_string(i++));
      continue;
    }
    ASSERT_EQ(code, -EAGAIN);
    queue_entry *found = nullptr;
    ASSERT_EQ(o2g_find_entry(&one.entry, &found), TND_OK);
    ASSERT_TRUE(until([&] { return (o2g_entry_flags(found) & O2G_RECEIVED) != 0; }));
    ASSERT_EQ(text_of(*found), std::to_string(i++));
    ASSERT_EQ(o2g_free_entry(found), TND_OK);
  }
  sender.join();
  RecordProperty("races", int(again_count));
}

// Walkers read the list and flags while messages arrive, and free the arrived ones.
TEST_P(seed_races, walks_against_arrivals) {
  constexpr int count = 3000;
  paper_process process{2, 128 << 10, GetParam()};
  std::array<std::thread, 2> senders;
  for (int rank = 0; rank < 2; rank++)
    senders[size_t(rank)] = std::thread{[&process, rank] {
      for (int i = 0; i < count; i++)
        write_all(process.peers[size_t(rank)],
                  message_of(rank, i, std::string(size_t(i % 700), 'w')));
    }};
  std::array<int, 2> next{};
  uint64_t seen = 0;
  while (next[0] + next[1] < 2 * count) {
    std::array<bool, 2> waits{};  // for one that had not arrived when we passed it, later ones may
                                  // have arrived since
    for (queue_entry *at = o2g_next_entry(nullptr); at != nullptr;) {
      queue_entry *const entry = at;
      at = o2g_next_entry(at);
      bool &is_behind = waits[size_t(entry->source)];
      is_behind = is_behind || (o2g_entry_flags(entry) & O2G_RECEIVED) == 0;
      if (is_behind)
        continue;
      ASSERT_EQ(entry->tag, next[size_t(entry->source)]++);
      ASSERT_TRUE(text_of(*entry) == std::string(size_t(entry->tag % 700), 'w'));
      ASSERT_EQ(o2g_free_entry(entry), TND_OK);
    }
    (void)!o2g_poll_for(&seen, second_ns / 100);
  }
  for (std::thread &each : senders)
    each.join();
}

// Threads that poll at once: none sleeps through its message.
TEST_P(seed_races, several_threads_poll) {
  constexpr int count = 1000;
  paper_process process{4, 1 << 20, GetParam()};
  std::array<std::thread, 4> receivers;
  std::atomic<int> done = 0;
  for (int rank = 0; rank < 4; rank++)
    receivers[size_t(rank)] = std::thread{[&, rank] {
      uint64_t again_count = 0;
      for (int i = 0; i < count; i++) {
        write_all(process.peers[size_t((rank + 1) % 4)],
                  message_of((rank + 1) % 4, 1, std::to_string(i)));
        if (receive_one(rank, 1, again_count) == std::to_string(i))
          done++;
      }
    }};
  for (std::thread &each : receivers)
    each.join();
  EXPECT_EQ(done, 4 * count);
}

INSTANTIATE_TEST_SUITE_P(threads, seed_races, testing::Values(0, 1, 3));

TEST(seed_threads, receive_while_nobody_calls) {
  paper_process process{1, 1 << 20, 2};
  receive one{0, 1, 5'000'000};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  std::string const text(5'000'000, 'd');
  write_all(process.peers[0], message_of(0, 1, text));
  for (int i = 0; i < 10'000 && !one.is_done(); i++)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  ASSERT_TRUE(one.is_done());
  EXPECT_TRUE(one.text() == text);
  EXPECT_EQ(statistics().thread_count, 2u);
}

// A dumper thread that always has something to receive admits callers. Counts the caller's sleeps:
// voluntary switches while it waits for the lock, not preemptions by other programs.
TEST(seed_flood, keeps_no_caller_out) {
  constexpr int rank_count = 4;
  constexpr long call_count_max = 2000;
  paper_process process{rank_count, 1 << 20, 1};
  std::vector<std::thread> senders;
  std::vector<std::unique_ptr<receive>> entries;
  for (int rank = 0; rank < rank_count; rank++) {
    entries.push_back(std::make_unique<receive>(rank, 1, 8 << 20));
    ASSERT_EQ(o2g_put_entry(&entries.back()->entry), TND_OK);
    senders.emplace_back([socket = process.peers[size_t(rank)], rank] {
      std::string const part(1 << 20, 'x');
      o2g_header const head = header_of(rank, 1, uint64_t{1} << 40);  // bytes beyond the buffer are
                                                                      // received and dropped
      write_all(socket, {reinterpret_cast<const char *>(&head), sizeof head});
      while (::send(socket, part.data(), part.size(), MSG_NOSIGNAL) > 0)
        continue;
    });
  }
  auto const sleep_count = [] {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
  };
  receive one{0, 2, 8};
  long slept = 0, call_count = 0;
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  for (; call_count < call_count_max && std::chrono::steady_clock::now() < end; call_count++) {
    std::this_thread::sleep_for(std::chrono::microseconds{20});
    long const before = sleep_count();
    EXPECT_EQ(o2g_put_entry(&one.entry), TND_OK);
    EXPECT_EQ(o2g_cancel_entry(&one.entry), TND_OK);
    slept += sleep_count() - before;
  }
  for (int const peer : process.peers)
    shutdown(peer, SHUT_RDWR);
  for (std::thread &each : senders)
    each.join();
  EXPECT_TRUE(until([&] { return statistics().socket_count == 0; }));
  EXPECT_LE(slept, 1 + call_count / 20);
}

}  // namespace
}  // namespace tanada::o2g::calls
