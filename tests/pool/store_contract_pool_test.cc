// The store contract on a pool in this process.
#include <cstdlib>

#include "contract/store_contract.hpp"
#include "poold/daemon.hpp"
#include "port/store/registry.hpp"

namespace tanada::port {
namespace {

class pool_subject final : public store_subject {
 public:
  explicit pool_subject(const char *shared_memory) {
    setenv("TND_POOL_SHARED_MEMORY", shared_memory, 1);
    poold::daemon_options options;
    options.port = 0, options.size = 64 << 20, options.segment_size = 2 << 20;
    auto started = poold::daemon::start(options);
    EXPECT_TRUE(started.ok());
    daemon_ = std::move(started).value();
    prefix_ = "pool://127.0.0.1:" + std::to_string(daemon_->port()) + "/test/";
    auto found = registry_->find(prefix_);
    EXPECT_TRUE(found.ok());
    store_ = found.ok() ? found.value() : nullptr;
  }
  ~pool_subject() override { registry_.reset(); }
  port::store &store() override { return *store_; }
  std::string url(const std::string &name) override { return prefix_ + name; }

 private:
  std::unique_ptr<poold::daemon> daemon_;
  std::unique_ptr<store_registry> registry_ = std::make_unique<store_registry>();
  port::store *store_ = nullptr;
  std::string prefix_;
};

store_case pool_case(const char *name, const char *shared_memory) {
  return {name, [=] { return std::make_unique<pool_subject>(shared_memory); }};
}

std::string case_name(const testing::TestParamInfo<store_case> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(stores, store_contract, testing::Values(pool_case("pool_shared_memory", "1"), pool_case("pool_tcp", "0")),
                         case_name);

TEST(store_pool, urls_without_host_namespace_or_object_are_refused) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  for (const char *url : {"pool://", "pool://host", "pool://host/space", "pool://host:0/space/a", "pool://host:x/space/a"}) {
    EXPECT_EQ(driver.open(url, store_read_only).code, status::invalid) << url;
  }
  EXPECT_EQ(driver.open(subject.url(""), store_read_only).code, status::is_directory);
}

TEST(store_pool, folders_are_folded) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  for (const char *name : {"run/a", "run/b", "run", "run-1/x"}) {
    auto const file = driver.must_open(subject.url(name), store_make);
    EXPECT_EQ(driver.close(file).code, status::ok);
  }
  auto const all = driver.on_name(store_op_kind::list, subject.url("r")).names;
  EXPECT_EQ(all, (std::vector<std::string>{subject.url("run"), subject.url("run-1/"), subject.url("run/")}));
  auto const below = driver.on_name(store_op_kind::list, subject.url("run/")).names;
  EXPECT_EQ(below, (std::vector<std::string>{subject.url("run/a"), subject.url("run/b")}));
}

TEST(store_pool, readers_see_a_version_as_a_whole) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  auto file = driver.must_open(subject.url("a"), store_make);
  EXPECT_EQ(driver.write(file, 0, "old").code, status::ok);
  EXPECT_EQ(driver.close(file).code, status::ok);
  file = driver.must_open(subject.url("a"), store_update);
  EXPECT_EQ(driver.write(file, 0, "new").code, status::ok);
  auto const before = driver.must_open(subject.url("a"), store_read_only);
  EXPECT_EQ(driver.read(before, 0, 10), "old");
  EXPECT_EQ(driver.on_file(store_op_kind::sync, file).code, status::ok);
  auto const after = driver.must_open(subject.url("a"), store_read_only);
  EXPECT_EQ(driver.read(after, 0, 10), "new");
  EXPECT_EQ(driver.read(before, 0, 10), "old");
  EXPECT_EQ(driver.write(file, 1, "o").code, status::ok);
  for (auto const one : {before, after, file}) EXPECT_EQ(driver.close(one).code, status::ok);
  auto const last = driver.must_open(subject.url("a"), store_read_only);
  EXPECT_EQ(driver.read(last, 0, 10), "now");
  EXPECT_EQ(driver.close(last).code, status::ok);
}

}  // namespace
}  // namespace tanada::port
