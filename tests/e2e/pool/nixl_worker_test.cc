// The worker threads of the NIXL plugin, without NIXL: test_nixl.py has the plugin itself.
#include <thread>

#include "e2e/pool/pool_fixture.hpp"
#include "products/nixl/object_worker.hpp"

namespace tanada::test {
namespace {

class nixl_worker : public testing::Test {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool());
  nixl::worker_config config{url_of(*daemon), "", 0, true};

  static nixl::task write(const std::string &name, std::vector<char> &bytes) {
    return {name, bytes.size(), nixl::host_memory, true, {{0, bytes.data(), bytes.size()}}};
  }
  static nixl::task read(const std::string &name, std::vector<char> &bytes) {
    nixl::task created = write(name, bytes);
    created.is_write = false;
    return created;
  }
  static std::shared_ptr<nixl::request> started_request(std::vector<nixl::task> tasks) {
    auto created = std::make_shared<nixl::request>();
    created->tasks = std::move(tasks);
    created->start();
    return created;
  }
  tnd_status run(std::vector<nixl::task> tasks) {
    auto const request = started_request(std::move(tasks));
    nixl::object_worker worker{config};
    for (size_t index = 0; index < request->tasks.size(); ++index)
      worker.post({request, index});
    while (!request->is_done())
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return request->status.load();
  }
};

TEST_F(nixl_worker, a_batch_writes_and_reads_more_objects_than_fit_in_one) {
  constexpr int count = 600;
  std::vector<std::vector<char>> sources, targets;
  std::vector<nixl::task> writes, reads;
  for (int i = 0; i < count; i++) {
    sources.push_back(pattern(size_t(i * 13 + 1), uint32_t(i)));
    targets.emplace_back(sources.back().size());
  }
  for (int i = 0; i < count; i++) {
    writes.push_back(write(std::to_string(i), sources[size_t(i)]));
    reads.push_back(read(std::to_string(i), targets[size_t(i)]));
  }
  ASSERT_EQ(run(writes), TND_OK);
  ASSERT_EQ(run(reads), TND_OK);
  EXPECT_EQ(targets, sources);
}

TEST_F(nixl_worker, a_write_of_a_part_keeps_the_other_bytes_of_the_object) {
  std::vector<char> bytes = pattern(4096, 1), part = pattern(1024, 2), result(4096);
  nixl::task partial = write("object", part);
  partial.object_size = bytes.size();
  partial.pieces[0].offset = 2048;
  ASSERT_EQ(run({write("object", bytes), partial, read("object", result)}), TND_OK);
  std::copy(part.begin(), part.end(), bytes.begin() + 2048);
  EXPECT_EQ(result, bytes);
}

TEST_F(nixl_worker, a_read_beyond_the_end_fails_and_the_beginning_of_an_object_can_be_read) {
  std::vector<char> bytes = pattern(4096, 1), longer(4097), shorter(4095), other(100);
  ASSERT_EQ(run({write("object", bytes)}), TND_OK);
  EXPECT_EQ(run({read("object", longer)}), -ERANGE);
  EXPECT_EQ(run({read("object", shorter), read("object", other)}), TND_OK);
  EXPECT_EQ(shorter, std::vector<char>(bytes.begin(), bytes.end() - 1));
  EXPECT_EQ(other, std::vector<char>(bytes.begin(), bytes.begin() + 100));
}

TEST_F(nixl_worker, one_missing_object_fails_a_request_and_the_others_are_read) {
  std::vector<char> bytes = pattern(512, 1), first(512), second(512), third(512);
  ASSERT_EQ(run({write("a", bytes), write("c", bytes)}), TND_OK);
  EXPECT_EQ(run({read("a", first), read("b", second), read("c", third)}), -ENOENT);
  EXPECT_EQ(first, bytes);
  EXPECT_EQ(third, bytes);
}

TEST_F(nixl_worker, a_claimed_task_is_not_carried_out_by_a_worker) {
  std::vector<char> bytes = pattern(512, 1), result(512);
  auto const request = started_request({write("a", bytes), write("b", bytes)});
  ASSERT_TRUE(request->claim(0));
  EXPECT_FALSE(request->claim(0));
  nixl::object_worker worker{config};
  worker.post({request, 0});
  worker.post({request, 1});
  while (request->pending.load() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  request->finish(TND_OK);
  EXPECT_EQ(run({read("b", result)}), TND_OK);
  EXPECT_EQ(run({read("a", result)}), -ENOENT);
}

TEST_F(nixl_worker, tasks_of_a_canceled_request_are_not_carried_out) {
  std::vector<char> bytes = pattern(512, 1), result(512);
  auto const request = started_request({write("a", bytes)});
  nixl::cancel(*request);
  EXPECT_EQ(request->status.load(), -ECANCELED);
  nixl::object_worker worker{config};
  worker.post({request, 0});
  EXPECT_EQ(run({read("a", result)}), -ENOENT);
}

TEST_F(nixl_worker, tasks_fail_once_the_daemon_has_ended) {
  std::vector<char> bytes = pattern(512, 1);
  ASSERT_EQ(run({write("a", bytes)}), TND_OK);
  daemon.reset();
  EXPECT_EQ(run({read("a", bytes), read("b", bytes)}), -TND_EPEER);
}

}  // namespace
}  // namespace tanada::test
