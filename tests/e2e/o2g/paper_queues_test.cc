// tanada/o2g.h with many entries, sizes and threads: what an implementation with slots, chunks and
// several copying threads can get wrong.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

// More entries than any table has at first, three times: slots are used again.
TEST(seed_queues, thousands_of_entries) {
  constexpr int count = 5000;
  paper_process process{2};
  for (int round = 0; round < 3; round++) {
    std::deque<receive> entries;
    for (int i = 0; i < count; i++) {
      entries.emplace_back(i % 2, i, size_t{16});
      ASSERT_EQ(o2g_put_entry(&entries.back().entry), TND_OK);
    }
    EXPECT_EQ(statistics().expected_count, uint64_t{count});
    for (int i = 0; i < count; i += 5)
      ASSERT_EQ(o2g_cancel_entry(&entries[size_t(i)].entry), TND_OK);
    std::array<std::string, 2> bytes;
    for (int i = count; i-- != 0;) {
      if (i % 5 != 0)
        bytes[size_t(i % 2)] += message_of(i % 2, i, std::to_string(i));
    }
    for (int rank = 0; rank < 2; rank++)
      write_all(process.peers[size_t(rank)], bytes[size_t(rank)]);
    ASSERT_TRUE(until_received(uint64_t(round + 1) * (count - count / 5)));
    for (int i = 0; i < count; i++) {
      receive &one = entries[size_t(i)];
      ASSERT_EQ(one.flags(), i % 5 == 0 ? 0u : uint32_t(O2G_MATCHED | O2G_RECEIVED)) << i;
      if (i % 5 != 0) {
        ASSERT_EQ(one.text(), std::to_string(i));
      }
    }
    EXPECT_EQ(statistics().expected_count, 0u);
  }
}

// Freed in a random order, while others arrive.
TEST(seed_queues, thousands_of_unexpected_messages) {
  constexpr int count = 3000;
  paper_process process{1, 8 << 20};
  std::minstd_rand random{7};
  for (int round = 0; round < 3; round++) {
    std::string bytes;
    for (int i = 0; i < count; i++)
      bytes += message_of(0, i, std::to_string(i));
    write_all(process.peers[0], bytes);
    ASSERT_TRUE(until_received(uint64_t(round + 1) * count));
    std::vector<queue_entry *> entries;
    for (queue_entry *entry = o2g_next_entry(nullptr); entry != nullptr;
         entry = o2g_next_entry(entry)) {
      ASSERT_EQ(entry->tag, int(entries.size()));
      ASSERT_EQ(entry->sequence, uint64_t(round) * count + entries.size() + 1);
      ASSERT_EQ(text_of(*entry), std::to_string(entry->tag));
      ASSERT_EQ(entry->user, nullptr);
      entry->user = &entries;
      entries.push_back(entry);
    }
    ASSERT_EQ(entries.size(), size_t{count});
    for (int i = 0; i < count; i += 3) {
      receive wanted{0, i, 16};
      queue_entry *found = nullptr;
      ASSERT_EQ(o2g_find_entry(&wanted.entry, &found), TND_OK);
      ASSERT_EQ(found, entries[size_t(i)]);
      ASSERT_NE(o2g_entry_flags(found) & O2G_CLAIMED, 0u);
      ASSERT_EQ(o2g_find_entry(&wanted.entry, &found), -ENOENT);
    }
    std::shuffle(entries.begin(), entries.end(), random);
    for (queue_entry *const entry : entries) {
      ASSERT_EQ(entry->user, &entries);
      ASSERT_EQ(o2g_free_entry(entry), TND_OK);
    }
    EXPECT_EQ(statistics().unexpected_count, 0u);
    EXPECT_EQ(o2g_next_entry(nullptr), nullptr);
  }
}

TEST(seed_queues, messages_without_bytes) {
  paper_process process{1};
  receive none{0, 1, 0}, some{0, 1, 10};
  ASSERT_EQ(o2g_put_entry(&none.entry), TND_OK);
  ASSERT_EQ(o2g_put_entry(&some.entry), TND_OK);
  std::string const empty = message_of(0, 1, "");
  write_all(process.peers[0], empty + empty + empty + empty);
  ASSERT_TRUE(until_received(4));
  EXPECT_EQ(none.flags(), uint32_t(O2G_MATCHED | O2G_RECEIVED));
  EXPECT_EQ(some.flags(), uint32_t(O2G_MATCHED | O2G_RECEIVED));
  EXPECT_EQ(some.text(), "");
  queue_entry *entry = o2g_next_entry(nullptr);
  for (int i = 0; i < 2; i++) {
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->size, 0u);
    queue_entry *const following = o2g_next_entry(entry);
    EXPECT_EQ(o2g_free_entry(entry), TND_OK);
    entry = following;
  }
  EXPECT_EQ(entry, nullptr);
}

// Of entries that match, the one that was put first; of messages, the one that was sent first.
TEST(seed_queues, wildcards_match_in_order) {
  paper_process process{2};
  receive any{O2G_ANY_SOURCE, O2G_ANY_TAG, 10}, any_tag{1, O2G_ANY_TAG, 10},
      any_source{O2G_ANY_SOURCE, 4, 10}, exact{1, 4, 10};
  receive *const puts[] = {&exact, &any_source, &any_tag, &any};
  for (receive *const one : puts)
    ASSERT_EQ(o2g_put_entry(&one->entry), TND_OK);
  for (const char *const text : {"a", "b", "c", "d", "e"})
    write_all(process.peers[1], message_of(1, 4, text));
  ASSERT_TRUE(until_received(5));
  const char *const texts[] = {"a", "b", "c", "d"};
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(puts[i]->text(), texts[i]);
    EXPECT_EQ(puts[i]->entry.source, 1);
    EXPECT_EQ(puts[i]->entry.tag, 4);
  }
  receive last{O2G_ANY_SOURCE, O2G_ANY_TAG, 10};
  queue_entry *found = nullptr;
  ASSERT_EQ(o2g_find_entry(&last.entry, &found), TND_OK);
  EXPECT_EQ(text_of(*found), "e");
  EXPECT_EQ(o2g_free_entry(found), TND_OK);
}

TEST(seed_queues, an_entry_is_put_again_and_again) {
  paper_process process{1};
  receive one{0, O2G_ANY_TAG, 10};
  for (int i = 0; i < 1500; i++) {
    one.entry.source = O2G_ANY_SOURCE;
    one.entry.tag = O2G_ANY_TAG;
    one.entry.sequence = o2g_sequence();
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    write_all(process.peers[0], message_of(0, i, std::to_string(i)));
    ASSERT_EQ(o2g_poll(), TND_OK);
    ASSERT_EQ(one.flags(), uint32_t(O2G_MATCHED | O2G_RECEIVED));
    ASSERT_EQ(one.entry.tag, i);
    ASSERT_EQ(one.text(), std::to_string(i));
  }
}

// Buffers at every alignment, whose neighbours must not change.
TEST(seed_queues, sizes_and_alignments) {
  paper_process process{1};
  std::vector<char> memory(1 << 20, '#');
  std::minstd_rand random{11};
  for (int i = 0; i < 150; i++) {
    size_t const size = i < 70 ? size_t(i) : 1 + random() % 200'000;
    size_t const offset = 16 + random() % 9000;
    receive one{0, 1, 0};
    one.entry.data = memory.data() + offset;
    one.entry.size = size;
    std::string const text(size + (i % 4 == 0 ? 1 + random() % 5000 : 0), char('a' + i % 26));
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    write_all(process.peers[0], message_of(0, 1, text));
    ASSERT_TRUE(until([&] { return one.is_done(); }));
    ASSERT_EQ(one.entry.received_size, size);
    ASSERT_EQ(one.entry.message_size, text.size());
    ASSERT_EQ((one.flags() & O2G_TRUNCATED) != 0, text.size() > size);
    auto const begin = memory.begin() + std::ptrdiff_t(offset);
    auto const end = begin + std::ptrdiff_t(size);
    ASSERT_TRUE(std::all_of(begin, end, [&](char byte) { return byte == char('a' + i % 26); }));
    ASSERT_TRUE(std::all_of(memory.begin(), begin, [](char byte) { return byte == '#'; }));
    ASSERT_TRUE(std::all_of(end, memory.end(), [](char byte) { return byte == '#'; }));
    std::fill(begin, end, '#');
  }
}

class seed_threads_of_all_kinds : public testing::TestWithParam<int> {};  // dumper threads

// Large messages of several peers at once: none starves the others.
TEST_P(seed_threads_of_all_kinds, large_messages_at_once) {
  constexpr int rank_count = 6, size = 3'000'000;
  paper_process process{rank_count, 8 << 20, GetParam()};
  std::deque<receive> entries;
  std::vector<std::thread> senders;
  for (int rank = 0; rank < rank_count; rank++) {
    if (rank % 2 == 0) {
      entries.emplace_back(rank, 1, size_t{size});
      ASSERT_EQ(o2g_put_entry(&entries.back().entry), TND_OK);
    }
    senders.emplace_back([socket = process.peers[size_t(rank)], rank] {
      write_all(
          socket,
          message_of(rank, 1, std::string(size_t(size / (1 + rank % 2 * 2)), char('A' + rank))));
    });
  }
  EXPECT_TRUE(until_received(rank_count));
  for (std::thread &each : senders)
    each.join();
  for (receive &one : entries)
    EXPECT_TRUE(one.text() == std::string(size_t{size}, char('A' + one.entry.source)));
  for (queue_entry *entry = o2g_next_entry(nullptr); entry != nullptr;
       entry = o2g_next_entry(entry)) {
    EXPECT_NE(o2g_entry_flags(entry) & O2G_RECEIVED, 0u);
    EXPECT_TRUE(text_of(*entry) == std::string(size_t(size / 3), char('A' + entry->source)));
  }
}

// Every socket waits for memory. Each freed message admits others, and nothing is lost or changes
// its order.
TEST_P(seed_threads_of_all_kinds, several_senders_wait_for_memory) {
  constexpr int rank_count = 5, count = 200;
  paper_process process{rank_count, 32 << 10, GetParam()};
  std::vector<std::thread> senders;
  for (int rank = 0; rank < rank_count; rank++)
    senders.emplace_back([socket = process.peers[size_t(rank)], rank] {
      for (int i = 0; i < count; i++)
        write_all(socket,
                  message_of(rank, i, std::string(size_t(i * 37 % 5000), char('a' + rank))));
    });
  EXPECT_TRUE(until([] { return statistics().blocked_count == rank_count; }));
  std::array<int, rank_count> next{};
  for (int total = 0; total < rank_count * count; total++) {
    receive wanted{O2G_ANY_SOURCE, O2G_ANY_TAG, 5000};
    queue_entry *found = nullptr;
    ASSERT_TRUE(until([&] {
      return found != nullptr || o2g_find_entry(&wanted.entry, &found) == TND_OK;
    })) << total;
    ASSERT_TRUE(until([&] { return (o2g_entry_flags(found) & O2G_RECEIVED) != 0; }));
    int const rank = found->source, i = next[size_t(rank)]++;
    ASSERT_EQ(found->tag, i);
    ASSERT_TRUE(text_of(*found) == std::string(size_t(i * 37 % 5000), char('a' + rank)));
    ASSERT_EQ(o2g_free_entry(found), TND_OK);
  }
  for (std::thread &each : senders)
    each.join();
  EXPECT_EQ(statistics().blocked_count, 0u);
  EXPECT_EQ(statistics().unexpected_count, 0u);
}

// Threads read the flags of the same entries while these complete and others take their place.
TEST_P(seed_threads_of_all_kinds, flags_are_read_by_several_threads) {
  constexpr int count = 1200, window = 8;
  paper_process process{1, 1 << 20, GetParam()};
  std::array<std::unique_ptr<receive>, window> entries;
  std::array<std::atomic<int>, window> numbers{};  // which message the entry is for; -1: stop
  std::atomic<int> wrong_count = 0;
  auto const put = [&](size_t position, int number) {
    receive &one = *entries[position];
    one.entry.source = 0;
    one.entry.tag = int(position);
    one.entry.sequence = o2g_sequence();
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    numbers[position].store(number);
  };
  for (size_t i = 0; i < window; i++) {
    entries[i] = std::make_unique<receive>(0, int(i), size_t{16});
    put(i, int(i));
  }
  std::array<std::atomic<int>, window> reader_counts{};
  std::atomic<bool> is_over = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; i++)
    readers.emplace_back([&, i] {
      for (size_t position = size_t(i); !is_over; position = (position + 1) % window) {
        // The owner does not put the entry again while a reader has it.
        reader_counts[position]++;
        int const number = numbers[position].load();
        if (number >= 0 && entries[position]->is_done() &&
            entries[position]->text() != std::to_string(number))
          wrong_count++;
        reader_counts[position]--;
        std::this_thread::yield();
      }
    });
  std::thread sender{[&] {
    for (int i = 0; i < count; i++)
      write_all(process.peers[0], message_of(0, i % window, std::to_string(i)));
  }};
  for (int i = 0; i < count; i++) {
    size_t const position = size_t(i % window);
    ASSERT_TRUE(until([&] { return entries[position]->is_done(); })) << i;
    ASSERT_EQ(entries[position]->text(), std::to_string(i));
    if (i + window >= count)
      continue;
    numbers[position].store(-1);
    while (reader_counts[position] != 0)
      std::this_thread::yield();
    queue_entry *found = nullptr;
    receive &one = *entries[position];
    one.entry.tag = int(position);
    if (o2g_find_entry(&one.entry, &found) != TND_OK) {
      if (int const code = o2g_put_entry(&one.entry); code == TND_OK) {
        numbers[position].store(i + window);
        continue;
      }
      ASSERT_EQ(o2g_find_entry(&one.entry, &found), TND_OK);
    }
    // It had arrived: receive it into the entry by hand, as the next round expects it there.
    ASSERT_TRUE(until([&] { return (o2g_entry_flags(found) & O2G_RECEIVED) != 0; }));
    std::string const text = text_of(*found);
    ASSERT_EQ(text, std::to_string(i + window));
    ASSERT_EQ(o2g_free_entry(found), TND_OK);
    std::copy(text.begin(), text.end(), one.buffer.begin());
    one.entry.received_size = text.size();
  }
  is_over = true;
  for (std::thread &each : readers)
    each.join();
  sender.join();
  EXPECT_EQ(wrong_count, 0);
}

// Text that a receiver can check: its position decides each byte.
std::string pattern_of_size(size_t size, int salt) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i++)
    text[i] = char('!' + (i * 7 + size_t(salt)) % 90);
  return text;
}

// Senders, sizes, wildcards and a small dump area, with a thread for each context.
TEST_P(seed_threads_of_all_kinds, everything_at_once) {
  constexpr int rank_count = 6, context_count = 3, count = 150;
  paper_process process{rank_count, 128 << 10, GetParam()};
  std::vector<std::thread> senders;
  for (int rank = 0; rank < rank_count; rank++)
    senders.emplace_back([socket = process.peers[size_t(rank)], rank] {
      std::minstd_rand random(unsigned(rank + 1));
      for (int i = 0; i < count; i++) {
        size_t const size = random() % 10 == 0 ? random() % 100'000 : random() % 2000;
        write_all(
            socket,
            message_of(rank, i, pattern_of_size(size, rank + i), uint32_t(rank % context_count)));
      }
    });
  std::vector<std::thread> receivers;
  std::atomic<int> good_count = 0;
  for (int context = 0; context < context_count; context++)
    receivers.emplace_back([&, context] {
      std::array<int, rank_count> next{};
      receive one{O2G_ANY_SOURCE, O2G_ANY_TAG, 100'000, uint32_t(context)};
      for (int i = 0; i < count * rank_count / context_count; i++) {
        one.entry.source = O2G_ANY_SOURCE;
        one.entry.tag = O2G_ANY_TAG;
        queue_entry *found = nullptr;
        tnd_status code = -EAGAIN;
        while (code == -EAGAIN) {
          code = o2g_find_entry(&one.entry, &found);
          if (code == -ENOENT)
            code = o2g_put_entry(&one.entry);
        }
        ASSERT_EQ(code, TND_OK);
        queue_entry &taken = found != nullptr ? *found : one.entry;
        ASSERT_TRUE(until([&] { return (o2g_entry_flags(&taken) & O2G_RECEIVED) != 0; }));
        ASSERT_EQ(taken.tag, next[size_t(taken.source)]++);
        std::string const text{static_cast<const char *>(taken.data), size_t(taken.received_size)};
        ASSERT_EQ(text.size(), taken.message_size);
        good_count += text == pattern_of_size(text.size(), taken.source + taken.tag);
        if (found != nullptr) {
          ASSERT_EQ(o2g_free_entry(found), TND_OK);
        }
      }
    });
  for (std::thread &each : receivers)
    each.join();
  for (std::thread &each : senders)
    each.join();
  EXPECT_EQ(good_count, rank_count * count);
}

INSTANTIATE_TEST_SUITE_P(threads, seed_threads_of_all_kinds, testing::Values(0, 1, 3));

}  // namespace
}  // namespace tanada::o2g::calls
