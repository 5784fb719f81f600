// Swapping of processes to a pool in this process. test_cluster_clients.py runs it on a cluster.
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "backends/registry/store_registry.hpp"
#include "contract/store_subject.hpp"
#include "onesided/swap/page_mover.hpp"
#include "onesided/swap/swap_object.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr const char *url_variable = "TANADA_TEST_POOL_URL", *cluster = "cluster";

// Whether memory is shared with a daemon in this process; and a cluster, if there is one.
std::vector<const char *> pools() {
  std::vector<const char *> all{"1", "0"};
  if (std::getenv(url_variable) != nullptr)
    all.push_back(cluster);
  return all;
}

struct swap_pool : testing::TestWithParam<const char *> {
  static constexpr uint32_t page_count = 1500, count = 2;

  void SetUp() override {
    bool const is_cluster = std::string_view{GetParam()} == cluster;
    setenv("TND_POOL_SHARED_MEMORY", is_cluster ? "1" : GetParam(), 1);
    if (!is_cluster)
      daemon = test::started(test::small_pool());
    std::string const url = is_cluster ? std::getenv(url_variable) : test::url_of(*daemon);
    folder = url + "/swap";
    auto found = registry->find(folder);
    ASSERT_TRUE(found.ok());
    store = found.value();
  }
  void TearDown() override {
    registry.reset();
  }

  std::vector<std::string> names() {
    auto queue = std::move(store->queue_create(1)).value();
    seams::store_op op;
    op.kind = seams::store_op_kind::list;
    op.url = folder;
    EXPECT_EQ(queue->post(op), status::ok);
    seams::store_completion done[1];
    while (queue->poll(done) == 0)
      usleep(100);
    return done[0].names;
  }
  void move(page_mover &by, uint32_t rank, move_order::direction to) {
    by.begin({to, rank});
    page_mover_events news;
    for (int i = 0; news.moves.empty() && i < 100'000; i++) {
      by.poll(news);
      ASSERT_EQ(by.failure(), "");
      usleep(50);
    }
    ASSERT_EQ(news.moves.size(), 1u);
  }

  std::unique_ptr<poold::daemon> daemon;
  std::unique_ptr<backends::store_registry> registry = std::make_unique<backends::store_registry>();
  seams::store *store = nullptr;
  std::string folder;
};

TEST_P(swap_pool, memory_leaves_and_comes_back_and_leaves_no_names) {
  auto objects = swap_objects::create(*store, folder, count, 32, 10'000'000'000);
  ASSERT_TRUE(objects.ok());
  EXPECT_TRUE(names().empty());
  std::vector<seams::shared_memory> memory;
  std::vector<std::vector<page_bits::word>> words;
  std::vector<page_bits> stored;
  std::vector<swappable_memory> all;
  for (uint32_t i = 0; i < count; i++) {
    memory.push_back(
        std::move(seams::shared_memory::create("test", page_count * page_size)).value());
    words.emplace_back(page_bits::word_count(page_count));
    stored.push_back({words[i].data(), page_count});
    all.push_back(
        {memory_file(memory[i].descriptor(), 0, page_count), stored[i], objects.value()->file(i)});
  }
  auto const write = [&](uint32_t rank, uint32_t page, uint64_t value) {
    EXPECT_EQ(pwrite(memory[rank].descriptor(), &value, 8, off_t(page * page_size)), 8);
    stored[rank].clear({page, 1});
  };
  {
    page_mover by{objects.value()->queue(), std::move(all), {}};
    for (uint64_t round = 1; round <= 3; round++) {
      for (uint32_t rank = 0; rank < count; rank++) {
        for (uint32_t page = rank; page < page_count; page += uint32_t(round))
          write(rank, page, page + rank * 10'000 + round * 100'000);
        move(by, rank, move_order::direction::swap_out);
      }
      EXPECT_TRUE(names().empty());
      for (uint32_t rank = 0; rank < count; rank++) {
        move(by, rank, move_order::direction::swap_in);
        for (uint32_t page = rank; page < page_count; page += uint32_t(round)) {
          uint64_t value = 0;
          ASSERT_EQ(pread(memory[rank].descriptor(), &value, 8, off_t(page * page_size)), 8);
          ASSERT_EQ(value, page + rank * 10'000 + round * 100'000);
        }
      }
    }
  }
  objects.value().reset();
  EXPECT_TRUE(names().empty());
}

INSTANTIATE_TEST_SUITE_P(paths, swap_pool, testing::ValuesIn(pools()), [](auto const &info) {
  return std::string{"shared_"} + info.param;
});

}  // namespace
}  // namespace tanada::onesided::swap
