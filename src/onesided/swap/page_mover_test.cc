// Tests of the page mover against a fake store queue, and a model of each process's memory.
#include "onesided/swap/page_mover.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

// Objects in memory, by number. Operations take effect and complete in any order, some at each
// poll.
class fake_queue final : public seams::store_queue {
 public:
  explicit fake_queue(uint32_t seed) : random{seed} {}

  status post(seams::store_op op) override {
    posted.push_back(std::move(op));
    return status::ok;
  }
  size_t poll(std::span<seams::store_completion> into) override {
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

  seams::store_completion perform(const seams::store_op &op) {
    seams::store_completion done;
    done.op_id = op.op_id;
    auto &bytes = objects[op.file];
    if (op.kind == seams::store_op_kind::truncate) {
      bytes.resize(op.size);
      return done;
    }
    size_t const size = op.buffers[0].size;
    if (op.kind == seams::store_op_kind::write) {
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
  std::vector<seams::store_op> posted;
  std::vector<std::vector<std::byte>> objects = std::vector<std::vector<std::byte>>(8);
  uint64_t written = 0, writes_left = ~uint64_t{0};
};

// Processes with one number in each page, and a model of their memory.
struct mover_test : testing::Test {
  static constexpr uint32_t page_count =
      1800;  // starting at the second page of the file: the blocks in it are pages 511 to 1534

  struct rank {
    seams::shared_memory memory;
    std::vector<page_bits::word> words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    std::vector<uint64_t> model = std::vector<uint64_t>(page_count);
    std::vector<bool> was_zeroed = std::vector<bool>(page_count);
    std::vector<page_bits::word> cold_words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    std::vector<page_bits::word> left_out_words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    bool is_resident = true, is_moving = false;

    page_bits cold() {
      return {cold_words.data(), page_count};
    }
    page_bits left_out() {
      return {left_out_words.data(), page_count};
    }
    page_bits stored() {
      return {words.data(), page_count};
    }
    void write(uint32_t page, uint64_t value) {
      EXPECT_EQ(pwrite(memory.descriptor(), &value, 8, off_t((page + 1) * page_size)), 8);
      model[page] = value;
      if (value == 0)
        was_zeroed[page] = true;
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
    std::vector<swappable_memory> memories;
    for (uint32_t i = 0; i < count; i++) {
      ranks.push_back(std::make_unique<rank>(rank{
          .memory = std::move(seams::shared_memory::create("test", (page_count + 2) * page_size))
                        .value()}));
      memory_file const memory{ranks[i]->memory.descriptor(), page_size, page_count};
      memories.push_back({memory,
                          ranks[i]->stored(),
                          i,
                          has_windows ? std::move(memory_window::open(memory)).value() : nullptr,
                          ranks[i]->cold(),
                          ranks[i]->left_out()});
    }
    copies.resize(copy_count * node_table::copy_size);
    tested.emplace(
        *queue, std::move(memories), page_mover_options{.chunk_pages = 256, .depth = 6}, copies);
  }
  void poll() {
    tested->poll(events);
    for (auto const &finished : events.moves) {
      ranks[finished.order.rank]->is_moving = false;
      ranks[finished.order.rank]->is_resident =
          finished.order.dir == move_order::direction::swap_in;
      last = finished.result;
    }
    events.moves.clear();
  }
  void move(uint32_t index, move_order::direction dir) {
    tested->begin({dir, index});
    ranks[index]->is_moving = true;
    for (int i = 0; i < 100'000 && ranks[index]->is_moving && tested->failure().empty(); i++)
      poll();
    ASSERT_FALSE(ranks[index]->is_moving && tested->failure().empty());
  }
  void check(uint32_t index) {
    for (uint32_t page = 0; page < page_count; page++) {
      if (!ranks[index]->left_out().test(page))
        ASSERT_EQ(ranks[index]->read(page), ranks[index]->model[page]) << page;
    }
  }

  uint64_t copied(const page_request &request, uint32_t page) const {
    size_t position = request.copy * node_table::copy_size;
    uint64_t value = ~uint64_t{0};
    for (auto const run : request.pages()) {
      if (page >= run.first && page < run.end())
        std::memcpy(
            &value, copies.data() + position + (page - run.first) * page_size, sizeof value);
      position += run.size();
    }
    return value;
  }

  std::vector<std::byte> copies;
  std::optional<fake_queue> queue;
  std::vector<std::unique_ptr<rank>> ranks;
  std::optional<page_mover> tested;
  page_mover_events events;
  node_table::move_result last;
};

void fill_request(page_request &request, uint32_t target, std::initializer_list<page_run> runs) {
  request.current_stage = page_request::stage::accepted;
  request.target = target;
  for (auto const run : runs) {
    request.runs[request.run_count++] = run;
    request.page_count += run.count;
  }
}

TEST_F(mover_test, all_of_it_leaves_and_comes_back) {
  start(1);
  for (uint32_t page = 0; page < page_count; page++) {
    ranks[0]->write(page, page + 1);
  }
  move(0, move_order::direction::swap_out);
  EXPECT_EQ(ranks[0]->present(), 0u);
  EXPECT_EQ(last.moved_size, page_count * page_size);
  EXPECT_EQ(last.swapped_size, page_count * page_size);
  EXPECT_EQ(last.resident_size, 0u);
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(last.moved_size, page_count * page_size);
  EXPECT_EQ(last.resident_size, page_count * page_size);
  check(0);
}

TEST_F(mover_test, only_what_was_written_is_written) {
  start(1);
  for (uint32_t page = 0; page < 600; page++) {
    ranks[0]->write(page, page + 1);
  }
  move(0, move_order::direction::swap_out);
  move(0, move_order::direction::swap_in);
  queue->written = 0;
  ranks[0]->write(3, 99);
  ranks[0]->write(500, 98);
  move(0, move_order::direction::swap_out);
  EXPECT_EQ(last.moved_size, 2 * page_size);
  EXPECT_EQ(queue->written, 2 * page_size);
  EXPECT_EQ(ranks[0]->present(), 0u);
  move(0, move_order::direction::swap_in);
  check(0);
}

TEST_F(mover_test, pages_that_were_never_touched_stay_nowhere) {
  start(1);
  ranks[0]->write(5, 7);
  ranks[0]->write(600, 8);
  move(0, move_order::direction::swap_out);
  EXPECT_EQ(last.moved_size, 2 * page_size);
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(ranks[0]->present(), 2u);
  check(0);
}

// Pages 100 to 999 are cold. What the process and others touch of them comes by requests, and
// leaves with the process.
TEST_F(mover_test, cold_pages_stay_in_the_store) {
  for (bool const has_windows : {false, true}) {
    ranks.clear();
    start(1, 1, has_windows);
    auto &owner = *ranks[0];
    for (uint32_t page = 0; page < 1200; page++)
      owner.write(page, page + 1);
    move(0, move_order::direction::swap_out);
    owner.cold().set({100, 900});
    owner.cold().set({1100, 63});  // too few to be worth a request
    move(0, move_order::direction::swap_in);
    EXPECT_EQ(last.left_out_size, 900 * page_size);
    EXPECT_EQ(last.moved_size, 300 * page_size);
    EXPECT_EQ(owner.present(), 300u);
    EXPECT_EQ(owner.left_out().count_set(), 900u);
    check(0);
    page_request wanted{};
    fill_request(wanted, 0, {{90, 20}, {500, 3}});
    tested->serve(wanted);
    for (int i = 0; i < 1000 && events.served.empty(); i++)
      poll();
    ASSERT_EQ(events.served.size(), 1u);
    EXPECT_EQ(owner.left_out().count_set(), 887u);
    owner.write(501, 9);
    wanted.current_stage = page_request::stage::completed;
    poll();
    EXPECT_EQ(events.released.size(), 1u);
    check(0);
    events.released.clear();
    events.served.clear();
    owner.cold().clear({0, page_count});
    queue->written = 0;
    move(0, move_order::direction::swap_out);
    EXPECT_EQ(queue->written, page_size);
    EXPECT_EQ(last.swapped_size, 1200 * page_size);
    EXPECT_EQ(owner.left_out().count_set(), 0u);
    move(0, move_order::direction::swap_in);
    EXPECT_EQ(last.left_out_size, 0u);
    EXPECT_EQ(owner.present(), 1200u);
    check(0);
  }
}

// 1,000 of 1,004 pages are zeros again. Few zeros between others are written along, and are not
// read back either.
TEST_F(mover_test, pages_of_zeros_are_neither_written_nor_read) {
  for (bool const has_windows : {false, true}) {
    ranks.clear();
    start(1, 1, has_windows);
    auto &owner = *ranks[0];
    for (uint32_t page = 0; page < 1004; page++)
      owner.write(page, page + 1);
    move(0, move_order::direction::swap_out);
    move(0, move_order::direction::swap_in);
    for (uint32_t page = 0; page < 1004; page++) {
      if (page != 100 && page != 102 && page != 600 && page != 1003)
        owner.write(page, 0);
    }
    queue->written = 0;
    move(0, move_order::direction::swap_out);
    EXPECT_EQ(owner.present(), 0u);
    EXPECT_LE(queue->written, 5 * page_size);
    EXPECT_EQ(tested->zero_size(), 999 * page_size);
    EXPECT_EQ(last.swapped_size, 4 * page_size);
    move(0, move_order::direction::swap_in);
    EXPECT_EQ(owner.present(), 4u);
    check(0);
    // They are pages like any other when they are written again.
    owner.write(7, 70);
    owner.write(101, 71);
    move(0, move_order::direction::swap_out);
    move(0, move_order::direction::swap_in);
    EXPECT_EQ(last.resident_size, 6 * page_size);
    check(0);
  }
}

TEST_F(mover_test, zeros_in_the_cache_are_dropped_without_a_write) {
  start(1);
  for (uint32_t page = 0; page < 8; page++)
    ranks[0]->write(page, page + 1);
  move(0, move_order::direction::swap_out);
  page_request wanted{};
  fill_request(wanted, 0, {{2, 3}});
  tested->serve(wanted);
  for (int i = 0; i < 1000 && events.served.empty(); i++)
    poll();
  for (uint32_t page = 2; page < 5; page++)
    ranks[0]->write(page, 0);
  wanted.current_stage = page_request::stage::completed;
  poll();
  queue->written = 0;
  for (int i = 0; i < 100 && tested->cached_size() != 0; i++) {
    tested->trim(0);
    poll();
  }
  EXPECT_EQ(queue->written, 0u);
  EXPECT_EQ(tested->zero_size(), 3 * page_size);
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(last.resident_size, 5 * page_size);
  check(0);
}

TEST_F(mover_test, what_its_owner_dropped_does_not_come_back) {
  start(1);
  for (uint32_t page = 0; page < 100; page++) {
    ranks[0]->write(page, page + 1);
  }
  move(0, move_order::direction::swap_out);
  move(0, move_order::direction::swap_in);
  ASSERT_EQ(memory_file(ranks[0]->memory.descriptor(), page_size, page_count).drop({20, 30}),
            status::ok);
  for (uint32_t page = 20; page < 50; page++)
    ranks[0]->model[page] = 0;
  move(0, move_order::direction::swap_out);
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(last.moved_size, 70 * page_size);
  check(0);
}

TEST_F(mover_test, requests_bring_their_pages_and_no_others) {
  start(2);
  for (uint32_t page = 0; page < page_count; page++) {
    ranks[1]->write(page, page + 1);
  }
  move(1, move_order::direction::swap_out);
  page_request wanted{};
  fill_request(wanted, 1, {{10, 3}, {400, 5}});
  tested->serve(wanted);
  for (int i = 0; i < 1000 && events.served.empty(); i++)
    poll();
  ASSERT_EQ(events.served.size(), 1u);
  EXPECT_EQ(ranks[1]->present(), 8u);
  EXPECT_EQ(tested->cached_size(), 8 * page_size);
  EXPECT_EQ(ranks[1]->read(402), 403u);
  for (int i = 0; i < 10; i++) {
    EXPECT_FALSE(tested->trim(0)) << "a request uses all pages";
    poll();
  }
  EXPECT_EQ(ranks[1]->present(), 8u);  // the request is not complete
  ranks[1]->write(11, 1000);
  wanted.current_stage = page_request::stage::completed;
  poll();
  EXPECT_TRUE(tested->trim(0)) << "the pages that were used are spared once";
  EXPECT_EQ(ranks[1]->present(), 8u);
  EXPECT_TRUE(tested->trim(0)) << "they begin to be written back";
  EXPECT_FALSE(tested->trim(0)) << "all are being written back";
  for (int i = 0; i < 1000 && tested->cached_size() != 0; i++)
    poll();
  EXPECT_EQ(events.released.size(), 1u);
  EXPECT_EQ(ranks[1]->present(), 0u);
  EXPECT_GT(tested->written_back_size(), 0u);
  move(1, move_order::direction::swap_in);
  check(1);
}

TEST_F(mover_test, readers_have_copies_of_what_is_in_the_store_alone) {
  start(1, 1, false, 1);
  for (uint32_t page = 0; page < 900; page++) {
    ranks[0]->write(page, page + 1);
  }
  move(0, move_order::direction::swap_out);
  auto const serve = [&](page_request &request) {
    tested->serve(request);
    for (int i = 0; i < 1000 && events.served.empty(); i++)
      poll();
    ASSERT_EQ(events.served.size(), 1u);
    events.served.clear();
  };
  auto const release = [&](page_request &request) {
    request.current_stage = page_request::stage::completed;
    poll();
    ASSERT_EQ(events.released.size(), 1u);
    events.released.clear();
  };
  page_request first{}, second{}, written{}, third{};
  for (auto *const request : {&first, &second, &third})
    request->is_reading = 1;
  fill_request(first, 0, {{3, 2}, {800, 5}});
  serve(first);
  EXPECT_EQ(first.copy, 0u);
  for (uint32_t page : {3, 4, 800, 804}) {
    EXPECT_EQ(copied(first, page), page + 1);
  }
  EXPECT_EQ(ranks[0]->present(), 0u);
  EXPECT_EQ(tested->copied_size(), 7 * page_size);

  fill_request(second, 0, {{10, 3}});  // there is one copy, and the first request has it
  serve(second);
  EXPECT_EQ(second.copy, page_request::no_copy);
  EXPECT_EQ(ranks[0]->present(), 3u);
  release(first);
  release(second);

  fill_request(written, 0, {{5, 1}});
  serve(written);
  EXPECT_EQ(written.copy, page_request::no_copy) << "a writing request uses the memory itself";
  ranks[0]->write(5, 77);
  ranks[0]->stored().set({5, 1});  // the writer has not cleared the bit yet
  fill_request(third, 0, {{4, 3}});
  serve(third);
  EXPECT_EQ(third.copy, page_request::no_copy) << "pages that are newer in memory are read there";
  EXPECT_EQ(ranks[0]->read(5), 77u);
  ranks[0]->stored().clear({5, 1});
  release(written);
  release(third);
  move(0, move_order::direction::swap_in);
  check(0);
}

TEST_F(mover_test, blocks_that_come_as_a_whole_come_into_large_pages) {
  start(1, 1, true);
  for (uint32_t page = 0; page < page_count; page++) {
    ranks[0]->write(page, page + 1);
  }
  move(0, move_order::direction::swap_out);
  EXPECT_EQ(ranks[0]->present(), 0u);
  move(0, move_order::direction::swap_in);
  if (tested->large_size() == 0)
    GTEST_SKIP() << "the system gives no large pages";
  EXPECT_EQ(tested->large_size(), 2 * 512 * page_size);
  EXPECT_EQ(last.resident_size, page_count * page_size);
  check(0);
  // Large pages are written from where they are: the modified ones and the others.
  queue->written = 0;
  ranks[0]->write(3, 99);
  ranks[0]->write(600, 98);
  ranks[0]->write(1700, 97);
  move(0, move_order::direction::swap_out);
  EXPECT_EQ(queue->written, 3 * page_size);
  EXPECT_EQ(ranks[0]->present(), 0u);
  // A block of which a request has brought in one page is read page by page.
  page_request wanted{};
  fill_request(wanted, 0, {{520, 1}});
  tested->serve(wanted);
  for (int i = 0; i < 1000 && events.served.empty(); i++)
    poll();
  ranks[0]->write(520, 96);
  wanted.current_stage = page_request::stage::completed;
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(tested->large_size(), 3 * 512 * page_size);
  check(0);
  // A block of which its owner has dropped a part is not read as a whole either.
  ASSERT_EQ(memory_file(ranks[0]->memory.descriptor(), page_size, page_count).drop({1100, 30}),
            status::ok);
  for (uint32_t page = 1100; page < 1130; page++)
    ranks[0]->model[page] = 0;
  move(0, move_order::direction::swap_out);
  move(0, move_order::direction::swap_in);
  EXPECT_EQ(tested->large_size(), 4 * 512 * page_size);
  check(0);
}

TEST_F(mover_test, a_store_that_is_full_is_said) {
  start(1);
  for (uint32_t page = 0; page < page_count; page++) {
    ranks[0]->write(page, page + 1);
  }
  queue->writes_left = 1;
  move(0, move_order::direction::swap_out);
  EXPECT_NE(tested->failure().find("rank 0"), std::string::npos) << tested->failure();
  EXPECT_NE(tested->failure().find("space"), std::string::npos) << tested->failure();
}

TEST_F(mover_test, a_request_for_pages_that_there_are_not_is_refused) {
  start(1);
  page_request wanted{};
  fill_request(wanted, 0, {{page_count - 1, 2}});
  tested->serve(wanted);
  EXPECT_NE(tested->failure(), "");
}

// Owners write while they are resident, and others write the pages they requested. Moves, requests
// and trims come in random order.
struct mover_random : mover_test, testing::WithParamInterface<std::tuple<uint32_t, bool>> {};

TEST_P(mover_random, memory_is_what_was_written) {
  constexpr uint32_t count = 4;
  auto const [seed, has_windows] = GetParam();
  start(count, seed, has_windows, 3);
  std::mt19937 random{seed * 7919};
  for (uint32_t page = 0; has_windows && page < page_count; page++) {
    ranks[0]->write(page, page + 1);
  }
  struct issued_request {
    page_request request{};
    bool is_served = false;
    std::vector<uint64_t> before{};  // the target's pages at the time of the request
  };
  std::vector<std::unique_ptr<issued_request>> requests;
  uint64_t value = 1;
  for (int step = 0; step < 4000; step++) {
    poll();
    ASSERT_EQ(tested->failure(), "");
    for (auto *const served : events.served) {
      (*std::find_if(requests.begin(), requests.end(), [&](auto &issued) {
        return &issued->request == served;
      }))->is_served = true;
    }
    for (auto *const released : events.released) {
      requests.erase(std::find_if(requests.begin(), requests.end(), [&](auto &issued) {
        return &issued->request == released;
      }));
    }
    events.served.clear();
    events.released.clear();
    uint32_t const index = random() % count;
    auto &owner = *ranks[index];
    switch (random() % 6) {
      case 0:
        if (!owner.is_moving && owner.is_resident) {
          uint32_t const first = random() % page_count,
                         size = std::min<uint32_t>(random() % 300, page_count - first);
          bool const are_zeros = random() % 4 == 0;
          for (uint32_t page = first; page < first + size; page++) {
            if (owner.left_out().test(page))
              continue;
            owner.write(page, are_zeros && random() % 16 != 0 ? 0 : value++);
          }
        }
        break;
      case 1:
        if (!owner.is_moving && random() % 4 == 0) {
          if (owner.is_resident)
            check(index);
          owner.cold().clear({0, page_count});
          for (uint32_t first = random() % 200; first + 300 < page_count; first += 400)
            owner.cold().set({first, random() % 300});
          tested->begin(
              {owner.is_resident ? move_order::direction::swap_out : move_order::direction::swap_in,
               index});
          owner.is_moving = true;
        }
        break;
      case 2:
      case 3:
        if ((!owner.is_resident || owner.is_moving || owner.left_out().count_set() != 0) &&
            requests.size() < 6) {
          requests.push_back(std::make_unique<issued_request>());
          auto &request = requests.back()->request;
          request.current_stage = page_request::stage::accepted;
          request.target = index;
          request.is_reading = random() % 2;
          requests.back()->before = owner.model;
          for (uint32_t i = random() % 4 + 1; i > 0; i--) {
            uint32_t const first = random() % page_count,
                           size = std::min<uint32_t>(random() % 20 + 1, page_count - first);
            request.runs[request.run_count++] = {first, size};
            request.page_count += size;
          }
          tested->serve(request);
        }
        break;
      case 4:
        for (auto &issued : requests) {
          if (!issued->is_served || random() % 2 != 0)
            continue;
          auto &target = *ranks[issued->request.target];
          for (auto const run : issued->request.pages()) {
            for (uint32_t page = run.first; page < run.end(); page++) {
              if (issued->request.copy !=
                  page_request::no_copy) {  // the copy has a value from some time since the request
                if (target.was_zeroed[page])
                  continue;
                ASSERT_GE(copied(issued->request, page), issued->before[page]);
                ASSERT_LE(copied(issued->request, page), target.model[page]);
                continue;
              }
              ASSERT_EQ(target.read(page), target.model[page]);
              if (issued->request.is_reading == 0 && random() % 2 == 0)
                target.write(page, random() % 4 == 0 ? 0 : value++);
            }
          }
          issued->request.current_stage = page_request::stage::completed;
        }
        break;
      default:
        tested->trim(random() % 3 * 40 * page_size);
        break;
    }
  }
  for (auto &issued : requests)
    issued->request.current_stage = page_request::stage::completed;
  for (uint32_t i = 0; i < count; i++) {
    for (int turn = 0; turn < 10'000 && ranks[i]->is_moving; turn++) {
      poll();
      for (auto *const served : events.served)
        served->current_stage = page_request::stage::completed;
      events.served.clear();
    }
    ASSERT_FALSE(ranks[i]->is_moving);
    if (!ranks[i]->is_resident)
      move(i, move_order::direction::swap_in);
    check(i);
  }
  for (int turn = 0; turn < 10'000 && tested->has_requests(); turn++) {
    poll();
    for (auto *const served : events.served)
      served->current_stage = page_request::stage::completed;
    events.served.clear();
  }
  EXPECT_FALSE(tested->has_requests());
  EXPECT_EQ(tested->cached_size(), 0u);
  EXPECT_GT(tested->copied_size(), 0u);
  EXPECT_GT(tested->zero_size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(seeds,
                         mover_random,
                         testing::Combine(testing::Range(1u, 9u), testing::Bool()));

}  // namespace
}  // namespace tanada::onesided::swap
