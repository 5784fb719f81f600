#include "onesided/swap/mover.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "seams/os/shared_memory.hpp"

namespace tanada::comex::swap {
namespace {

// Objects in memory, by number. Operations take effect and end in any order, some at each poll.
class fake_queue final : public port::store_queue {
 public:
  explicit fake_queue(uint32_t seed) : random{seed} {}

  status post(port::store_op op) override {
    posted.push_back(std::move(op));
    return status::ok;
  }
  size_t poll(std::span<port::store_completion> into) override {
    size_t count = 0;
    while (count < into.size() && !posted.empty() && random() % 3 != 0) {
      std::swap(posted[random() % posted.size()], posted.back());
      into[count++] = perform(posted.back());
      posted.pop_back();
    }
    return count;
  }
  size_t pending_count() const noexcept override {
    return posted.size();
  }

  port::store_completion perform(const port::store_op &op) {
    port::store_completion done;
    done.op_id = op.op_id;
    auto &bytes = objects[op.file];
    if (op.kind == port::store_op_kind::truncate) {
      bytes.resize(op.size);
      return done;
    }
    size_t const size = op.buffers[0].size;
    if (op.kind == port::store_op_kind::write) {
      if (writes_left == 0) {
        done.code = status::no_space;
        return done;
      }
      writes_left--;
      bytes.resize(std::max(bytes.size(), op.offset + size));
      std::memcpy(bytes.data() + op.offset, op.buffers[0].addr, size);
      written += size;
    } else {
      EXPECT_LE(op.offset + size, bytes.size());
      std::memcpy(op.buffers[0].addr, bytes.data() + op.offset, size);
    }
    done.size = size;
    return done;
  }

  std::mt19937 random;
  std::vector<port::store_op> posted;
  std::vector<std::vector<std::byte>> objects = std::vector<std::vector<std::byte>>(8);
  uint64_t written = 0, writes_left = ~uint64_t{0};
};

// Processes whose memory is one number a page, beside what it should be.
struct mover_test : testing::Test {
  static constexpr uint32_t page_count =
      1800;  // of the file, the second: the blocks in it are pages 511 to 1534

  struct rank {
    port::shared_memory memory;
    std::vector<page_bits::word> words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    std::vector<uint64_t> model = std::vector<uint64_t>(page_count);
    bool is_whole = true, is_moving = false;

    page_bits stored() {
      return {words.data(), page_count};
    }
    void write(uint32_t page, uint64_t value) {
      EXPECT_EQ(pwrite(memory.descriptor(), &value, 8, off_t((page + 1) * page_size)), 8);
      model[page] = value;
      stored().clear({page, 1});
    }
    uint64_t read(uint32_t page) const {
      uint64_t value = 0;
      EXPECT_EQ(pread(memory.descriptor(), &value, 8, off_t((page + 1) * page_size)), 8);
      return value;
    }
    uint32_t present() const {
      uint32_t count = 0;
      EXPECT_EQ(memory_file(memory.descriptor(), page_size, page_count)
                    .for_each_present([&](page_run run) { count += run.count; }),
                status::ok);
      return count;
    }
  };

  void start(uint32_t count, uint32_t seed = 1, bool has_windows = false, uint32_t copy_count = 0) {
    queue.emplace(seed);
    std::vector<swappable> all;
    for (uint32_t i = 0; i < count; i++) {
      ranks.push_back(std::make_unique<rank>(rank{
          .memory = std::move(port::shared_memory::create("test", (page_count + 2) * page_size))
                        .value()}));
      memory_file const memory{ranks[i]->memory.descriptor(), page_size, page_count};
      all.push_back({memory, ranks[i]->stored(), i,
                     has_windows ? std::move(memory_window::open(memory)).value() : nullptr});
    }
    copies.resize(copy_count * board::copy_size);
    under.emplace(*queue, std::move(all), mover_options{.chunk_pages = 256, .depth = 6}, copies);
  }
  void poll() {
    under->poll(news);
    for (auto const &each : news.moves) {
      ranks[each.which.rank]->is_moving = false;
      ranks[each.which.rank]->is_whole = each.which.to == order::way::in;
      last = each.result;
    }
    news.moves.clear();
  }
  void move(uint32_t index, order::way to) {
    under->begin({to, index});
    ranks[index]->is_moving = true;
    for (int i = 0; i < 100'000 && ranks[index]->is_moving && under->failure().empty(); i++)
      poll();
    ASSERT_FALSE(ranks[index]->is_moving && under->failure().empty());
  }
  void check(uint32_t index) {
    for (uint32_t page = 0; page < page_count; page++)
      ASSERT_EQ(ranks[index]->read(page), ranks[index]->model[page]) << page;
  }

  uint64_t copied(const request &of, uint32_t page) const {
    size_t at = of.copy * board::copy_size;
    uint64_t value = ~uint64_t{0};
    for (auto const run : of.pages()) {
      if (page >= run.first && page < run.end())
        std::memcpy(&value, copies.data() + at + (page - run.first) * page_size, sizeof value);
      at += run.size();
    }
    return value;
  }

  std::vector<std::byte> copies;
  std::optional<fake_queue> queue;
  std::vector<std::unique_ptr<rank>> ranks;
  std::optional<mover> under;
  mover_news news;
  board::move_result last;
};

void ask(request &made, uint32_t target, std::initializer_list<page_run> runs) {
  made.at = request::step::taken;
  made.target = target;
  for (auto const run : runs) {
    made.runs[made.run_count++] = run;
    made.page_count += run.count;
  }
}

TEST_F(mover_test, all_of_it_leaves_and_comes_back) {
  start(1);
  for (uint32_t page = 0; page < page_count; page++)
    ranks[0]->write(page, page + 1);
  move(0, order::way::out);
  EXPECT_EQ(ranks[0]->present(), 0u);
  EXPECT_EQ(last.moved, page_count * page_size);
  EXPECT_EQ(last.away, page_count * page_size);
  EXPECT_EQ(last.here, 0u);
  move(0, order::way::in);
  EXPECT_EQ(last.moved, page_count * page_size);
  EXPECT_EQ(last.here, page_count * page_size);
  check(0);
}

TEST_F(mover_test, only_what_was_written_is_written) {
  start(1);
  for (uint32_t page = 0; page < 600; page++)
    ranks[0]->write(page, page + 1);
  move(0, order::way::out);
  move(0, order::way::in);
  queue->written = 0;
  ranks[0]->write(3, 99);
  ranks[0]->write(500, 98);
  move(0, order::way::out);
  EXPECT_EQ(last.moved, 2 * page_size);
  EXPECT_EQ(queue->written, 2 * page_size);
  EXPECT_EQ(ranks[0]->present(), 0u);
  move(0, order::way::in);
  check(0);
}

TEST_F(mover_test, pages_that_were_never_touched_stay_nowhere) {
  start(1);
  ranks[0]->write(5, 7);
  ranks[0]->write(600, 8);
  move(0, order::way::out);
  EXPECT_EQ(last.moved, 2 * page_size);
  move(0, order::way::in);
  EXPECT_EQ(ranks[0]->present(), 2u);
  check(0);
}

TEST_F(mover_test, what_its_owner_dropped_does_not_come_back) {
  start(1);
  for (uint32_t page = 0; page < 100; page++)
    ranks[0]->write(page, page + 1);
  move(0, order::way::out);
  move(0, order::way::in);
  ASSERT_EQ(memory_file(ranks[0]->memory.descriptor(), page_size, page_count).drop({20, 30}),
            status::ok);
  for (uint32_t page = 20; page < 50; page++)
    ranks[0]->model[page] = 0;
  move(0, order::way::out);
  move(0, order::way::in);
  EXPECT_EQ(last.moved, 70 * page_size);
  check(0);
}

TEST_F(mover_test, requests_bring_their_pages_and_no_others) {
  start(2);
  for (uint32_t page = 0; page < page_count; page++)
    ranks[1]->write(page, page + 1);
  move(1, order::way::out);
  request wanted{};
  ask(wanted, 1, {{10, 3}, {400, 5}});
  under->serve(wanted);
  for (int i = 0; i < 1000 && news.served.empty(); i++)
    poll();
  ASSERT_EQ(news.served.size(), 1u);
  EXPECT_EQ(ranks[1]->present(), 8u);
  EXPECT_EQ(under->cached_size(), 8 * page_size);
  EXPECT_EQ(ranks[1]->read(402), 403u);
  for (int i = 0; i < 10; i++) {
    EXPECT_FALSE(under->trim(0)) << "a request uses all pages";
    poll();
  }
  EXPECT_EQ(ranks[1]->present(), 8u);  // it is not done
  ranks[1]->write(11, 1000);
  wanted.at = request::step::done;
  poll();
  EXPECT_TRUE(under->trim(0)) << "the pages that were used are spared once";
  EXPECT_EQ(ranks[1]->present(), 8u);
  EXPECT_TRUE(under->trim(0)) << "they begin to leave";
  EXPECT_FALSE(under->trim(0)) << "all are on their way";
  for (int i = 0; i < 1000 && under->cached_size() != 0; i++)
    poll();
  EXPECT_EQ(news.released.size(), 1u);
  EXPECT_EQ(ranks[1]->present(), 0u);
  EXPECT_GT(under->written_back_size(), 0u);
  move(1, order::way::in);
  check(1);
}

TEST_F(mover_test, readers_have_copies_of_what_is_in_the_store_alone) {
  start(1, 1, false, 1);
  for (uint32_t page = 0; page < 900; page++)
    ranks[0]->write(page, page + 1);
  move(0, order::way::out);
  auto const serve = [&](request &which) {
    under->serve(which);
    for (int i = 0; i < 1000 && news.served.empty(); i++)
      poll();
    ASSERT_EQ(news.served.size(), 1u);
    news.served.clear();
  };
  auto const release = [&](request &which) {
    which.at = request::step::done;
    poll();
    ASSERT_EQ(news.released.size(), 1u);
    news.released.clear();
  };
  request first{}, second{}, written{}, third{};
  for (auto *const each : {&first, &second, &third})
    each->is_reading = 1;
  ask(first, 0, {{3, 2}, {800, 5}});
  serve(first);
  EXPECT_EQ(first.copy, 0u);
  for (uint32_t page : {3, 4, 800, 804})
    EXPECT_EQ(copied(first, page), page + 1);
  EXPECT_EQ(ranks[0]->present(), 0u);
  EXPECT_EQ(under->copied_size(), 7 * page_size);

  ask(second, 0, {{10, 3}});  // there is one copy, and first has it
  serve(second);
  EXPECT_EQ(second.copy, request::no_copy);
  EXPECT_EQ(ranks[0]->present(), 3u);
  release(first);
  release(second);

  ask(written, 0, {{5, 1}});
  serve(written);
  EXPECT_EQ(written.copy, request::no_copy) << "who writes does so where it stays";
  ranks[0]->write(5, 77);
  ranks[0]->stored().set({5, 1});  // who wrote it has not said so yet
  ask(third, 0, {{4, 3}});
  serve(third);
  EXPECT_EQ(third.copy, request::no_copy) << "what is newer in memory is read there";
  EXPECT_EQ(ranks[0]->read(5), 77u);
  ranks[0]->stored().clear({5, 1});
  release(written);
  release(third);
  move(0, order::way::in);
  check(0);
}

TEST_F(mover_test, blocks_that_come_as_a_whole_come_into_large_pages) {
  start(1, 1, true);
  for (uint32_t page = 0; page < page_count; page++)
    ranks[0]->write(page, page + 1);
  move(0, order::way::out);
  EXPECT_EQ(ranks[0]->present(), 0u);
  move(0, order::way::in);
  if (under->large_size() == 0)
    GTEST_SKIP() << "the system gives no large pages";
  EXPECT_EQ(under->large_size(), 2 * 512 * page_size);
  EXPECT_EQ(last.here, page_count * page_size);
  check(0);
  // They leave from there: what was written, and what was not.
  queue->written = 0;
  ranks[0]->write(3, 99);
  ranks[0]->write(600, 98);
  ranks[0]->write(1700, 97);
  move(0, order::way::out);
  EXPECT_EQ(queue->written, 3 * page_size);
  EXPECT_EQ(ranks[0]->present(), 0u);
  // A block of which a page was brought for others comes page by page.
  request wanted{};
  ask(wanted, 0, {{520, 1}});
  under->serve(wanted);
  for (int i = 0; i < 1000 && news.served.empty(); i++)
    poll();
  ranks[0]->write(520, 96);
  wanted.at = request::step::done;
  move(0, order::way::in);
  EXPECT_EQ(under->large_size(), 3 * 512 * page_size);
  check(0);
  // Nor does one come as a whole of which its owner has dropped a part.
  ASSERT_EQ(memory_file(ranks[0]->memory.descriptor(), page_size, page_count).drop({1100, 30}),
            status::ok);
  for (uint32_t page = 1100; page < 1130; page++)
    ranks[0]->model[page] = 0;
  move(0, order::way::out);
  move(0, order::way::in);
  EXPECT_EQ(under->large_size(), 4 * 512 * page_size);
  check(0);
}

TEST_F(mover_test, a_store_that_is_full_is_said) {
  start(1);
  for (uint32_t page = 0; page < page_count; page++)
    ranks[0]->write(page, page + 1);
  queue->writes_left = 1;
  move(0, order::way::out);
  EXPECT_NE(under->failure().find("rank 0"), std::string::npos) << under->failure();
  EXPECT_NE(under->failure().find("space"), std::string::npos) << under->failure();
}

TEST_F(mover_test, a_request_for_pages_that_there_are_not_is_refused) {
  start(1);
  request wanted{};
  ask(wanted, 0, {{page_count - 1, 2}});
  under->serve(wanted);
  EXPECT_NE(under->failure(), "");
}

// Owners write while they are whole, others what they asked for; moves, requests, trims as it
// comes.
struct mover_random : mover_test, testing::WithParamInterface<std::tuple<uint32_t, bool>> {};

TEST_P(mover_random, memory_is_what_was_written) {
  constexpr uint32_t count = 4;
  auto const [seed, has_windows] = GetParam();
  start(count, seed, has_windows, 3);
  std::mt19937 random{seed * 7919};
  for (uint32_t page = 0; has_windows && page < page_count; page++)
    ranks[0]->write(page, page + 1);
  struct asked {
    request which{};
    bool is_served = false;
    std::vector<uint64_t> before{};  // its target's pages when it was asked
  };
  std::vector<std::unique_ptr<asked>> requests;
  uint64_t value = 1;
  for (int step = 0; step < 4000; step++) {
    poll();
    ASSERT_EQ(under->failure(), "");
    for (auto *const each : news.served) {
      (*std::find_if(requests.begin(), requests.end(), [&](auto &one) {
        return &one->which == each;
      }))->is_served = true;
    }
    for (auto *const each : news.released) {
      requests.erase(std::find_if(requests.begin(), requests.end(),
                                  [&](auto &one) { return &one->which == each; }));
    }
    news.served.clear();
    news.released.clear();
    uint32_t const index = random() % count;
    auto &one = *ranks[index];
    switch (random() % 6) {
      case 0:
        if (!one.is_moving && one.is_whole) {
          uint32_t const first = random() % page_count,
                         size = std::min<uint32_t>(random() % 300, page_count - first);
          for (uint32_t page = first; page < first + size; page++)
            one.write(page, value++);
        }
        break;
      case 1:
        if (!one.is_moving && random() % 4 == 0) {
          if (one.is_whole)
            check(index);
          under->begin({one.is_whole ? order::way::out : order::way::in, index});
          one.is_moving = true;
        }
        break;
      case 2:
      case 3:
        if ((!one.is_whole || one.is_moving) && requests.size() < 6) {
          requests.push_back(std::make_unique<asked>());
          auto &made = requests.back()->which;
          made.at = request::step::taken;
          made.target = index;
          made.is_reading = random() % 2;
          requests.back()->before = one.model;
          for (uint32_t i = random() % 4 + 1; i > 0; i--) {
            uint32_t const first = random() % page_count,
                           size = std::min<uint32_t>(random() % 20 + 1, page_count - first);
            made.runs[made.run_count++] = {first, size};
            made.page_count += size;
          }
          under->serve(made);
        }
        break;
      case 4:
        for (auto &each : requests) {
          if (!each->is_served || random() % 2 != 0)
            continue;
          auto &of = *ranks[each->which.target];
          for (auto const run : each->which.pages()) {
            for (uint32_t page = run.first; page < run.end(); page++) {
              if (each->which.copy !=
                  request::no_copy) {  // it has what was there at some moment since
                ASSERT_GE(copied(each->which, page), each->before[page]);
                ASSERT_LE(copied(each->which, page), of.model[page]);
                continue;
              }
              ASSERT_EQ(of.read(page), of.model[page]);
              if (each->which.is_reading == 0 && random() % 2 == 0)
                of.write(page, value++);
            }
          }
          each->which.at = request::step::done;
        }
        break;
      default: under->trim(random() % 3 * 40 * page_size); break;
    }
  }
  for (auto &each : requests)
    each->which.at = request::step::done;
  for (uint32_t i = 0; i < count; i++) {
    for (int turn = 0; turn < 10'000 && ranks[i]->is_moving; turn++) {
      poll();
      for (auto *const each : news.served)
        each->at = request::step::done;
      news.served.clear();
    }
    ASSERT_FALSE(ranks[i]->is_moving);
    if (!ranks[i]->is_whole)
      move(i, order::way::in);
    check(i);
  }
  for (int turn = 0; turn < 10'000 && under->has_requests(); turn++) {
    poll();
    for (auto *const each : news.served)
      each->at = request::step::done;
    news.served.clear();
  }
  EXPECT_FALSE(under->has_requests());
  EXPECT_EQ(under->cached_size(), 0u);
  EXPECT_GT(under->copied_size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(seeds, mover_random,
                         testing::Combine(testing::Range(1u, 9u), testing::Bool()));

}  // namespace
}  // namespace tanada::comex::swap
