// The store contract on a pool in this process. test_cluster_clients.py runs it on a cluster.
#include <cstdlib>

#include "backends/registry/store_registry.hpp"
#include "contract/store_contract_queues.hpp"
#include "products/poold/daemon.hpp"

namespace tanada::contract {
namespace {

class pool_subject final : public store_subject {
 public:
  explicit pool_subject(const char *shared_memory) {
    setenv("TND_POOL_SHARED_MEMORY", shared_memory, 1);
    poold::daemon_options options;
    options.port = 0;
    options.size = 64 << 20;
    options.segment_size = 2 << 20;
    auto started = poold::daemon::start(options);
    EXPECT_TRUE(started.ok());
    daemon_ = std::move(started).value();
    prefix_ = "pool://127.0.0.1:" + std::to_string(daemon_->port()) + "/test/";
    auto found = registry_->find(prefix_);
    EXPECT_TRUE(found.ok());
    store_ = found.ok() ? found.value() : nullptr;
  }
  ~pool_subject() override {
    registry_.reset();
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return prefix_ + name;
  }

 private:
  std::unique_ptr<poold::daemon> daemon_;
  std::unique_ptr<backends::store_registry> registry_ =
      std::make_unique<backends::store_registry>();
  seams::store *store_ = nullptr;
  std::string prefix_;
};

constexpr const char *url_variable = "TANADA_TEST_POOL_URL";

// A folder of its own in a namespace of a cluster.
class cluster_subject final : public store_subject {
 public:
  cluster_subject() {
    setenv("TND_POOL_SHARED_MEMORY", "1", 1);
    static uint32_t count = 0;
    prefix_ = std::string{std::getenv(url_variable)} + "/" + std::to_string(count++) + "/";
    auto found = registry_->find(prefix_);
    EXPECT_TRUE(found.ok());
    store_ = found.ok() ? found.value() : nullptr;
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return prefix_ + name;
  }

 private:
  std::unique_ptr<backends::store_registry> registry_ =
      std::make_unique<backends::store_registry>();
  seams::store *store_ = nullptr;
  std::string prefix_;
};

store_case pool_case(const char *name, const char *shared_memory) {
  return {name, [=] {
            return std::make_unique<pool_subject>(shared_memory);
          }};
}

std::string case_name(const testing::TestParamInfo<store_case> &info) {
  return info.param.name;
}

std::vector<store_case> pool_cases() {
  std::vector<store_case> cases{pool_case("pool_shared_memory", "1"), pool_case("pool_tcp", "0")};
  if (std::getenv(url_variable) != nullptr)
    cases.push_back({"pool_cluster", [] {
                       return std::make_unique<cluster_subject>();
                     }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(stores, store_contract, testing::ValuesIn(pool_cases()), case_name);

TEST(store_pool, urls_without_host_namespace_or_object_are_refused) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  for (const char *url : {"pool://",
                          "pool://host",
                          "pool://host/space",
                          "pool://host:0/space/a",
                          "pool://host:x/space/a"}) {
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
  auto const all = driver.on_name(seams::store_op_kind::list, subject.url("r")).names;
  EXPECT_EQ(
      all,
      (std::vector<std::string>{subject.url("run"), subject.url("run-1/"), subject.url("run/")}));
  auto const below = driver.on_name(seams::store_op_kind::list, subject.url("run/")).names;
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
  EXPECT_EQ(driver.on_file(seams::store_op_kind::sync, file).code, status::ok);
  auto const after = driver.must_open(subject.url("a"), store_read_only);
  EXPECT_EQ(driver.read(after, 0, 10), "new");
  EXPECT_EQ(driver.read(before, 0, 10), "old");
  EXPECT_EQ(driver.write(file, 1, "o").code, status::ok);
  for (auto const one : {before, after, file})
    EXPECT_EQ(driver.close(one).code, status::ok);
  auto const last = driver.must_open(subject.url("a"), store_read_only);
  EXPECT_EQ(driver.read(last, 0, 10), "now");
  EXPECT_EQ(driver.close(last).code, status::ok);
}

std::string text_of(const seams::store_memory &memory) {
  return {reinterpret_cast<const char *>(memory.bytes.data()), memory.bytes.size()};
}

std::string long_text(size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; i++)
    text[i] = char('a' + (i * 7 + i / 4096) % 26);
  return text;
}

void put(store_driver &driver, const std::string &url, const std::string &bytes) {
  auto const file = driver.must_open(url, store_make);
  EXPECT_EQ(driver.write(file, 0, bytes).code, status::ok);
  EXPECT_EQ(driver.close(file).code, status::ok);
}

// Of one segment and of several.
TEST(store_pool, bytes_of_an_open_file_are_mapped) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  for (size_t size : {size_t{5}, size_t{100'000}, size_t{7'000'001}}) {
    auto const url = subject.url(std::to_string(size));
    put(driver, url, long_text(size));
    auto const file = driver.must_open(url, store_read_only);
    auto const found = subject.store().access(file);
    EXPECT_TRUE(text_of(found.memory) == long_text(size)) << size << " " << found.reason;
    EXPECT_TRUE(found.is_sealed);
    EXPECT_EQ(driver.close(file).code, status::ok);
  }
}

// Other objects take all free memory; none of it is the mapping's before that is released.
TEST(store_pool, what_is_mapped_stays_when_the_file_is_closed_replaced_and_removed) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  size_t const size = 20 << 20;
  put(driver, subject.url("a"), long_text(size));
  auto const file = driver.must_open(subject.url("a"), store_read_only);
  auto found = subject.store().access(file);
  ASSERT_EQ(found.memory.bytes.size(), size) << found.reason;
  EXPECT_EQ(driver.close(file).code, status::ok);
  put(driver, subject.url("a"), std::string(size, '1'));
  EXPECT_EQ(driver.on_name(seams::store_op_kind::unlink, subject.url("a")).code, status::ok);
  for (const char *name : {"b", "c"})
    put(driver, subject.url(name), std::string(size, '2'));
  EXPECT_TRUE(text_of(found.memory) == long_text(size));
  auto const refused = driver.must_open(subject.url("d"), store_make);
  EXPECT_EQ(driver.write(refused, 0, std::string(size, '3')).code, status::no_space);
  EXPECT_EQ(driver.close(refused).code, status::ok);
  found = {};
  put(driver, subject.url("d"), std::string(size, '3'));
}

TEST(store_pool, says_why_bytes_are_not_mapped) {
  pool_subject far{"0"};
  store_driver driver{far};
  put(driver, far.url("a"), "text");
  auto const file = driver.must_open(far.url("a"), store_read_only);
  auto const found = far.store().access(file);
  EXPECT_TRUE(found.memory.bytes.empty());
  EXPECT_NE(found.reason.find("no shared memory with the pool: shared memory is turned off"),
            std::string::npos)
      << found.reason;
  EXPECT_EQ(driver.close(file).code, status::ok);
}

// Its first piece is beside other small objects.
TEST(store_pool, an_object_that_grew_from_little_is_not_mapped) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  put(driver, subject.url("other"), "text");
  put(driver, subject.url("a"), "text");
  put(driver, subject.url("a"), long_text(100'000));
  auto const file = driver.must_open(subject.url("a"), store_read_only);
  auto const found = subject.store().access(file);
  EXPECT_TRUE(found.memory.bytes.empty());
  EXPECT_NE(found.reason.find("whole pages"), std::string::npos) << found.reason;
  EXPECT_EQ(driver.read(file, 0, 100'000), long_text(100'000));
  EXPECT_EQ(driver.close(file).code, status::ok);
}

TEST(store_pool, what_is_open_to_write_is_not_mapped) {
  pool_subject subject{"1"};
  store_driver driver{subject};
  put(driver, subject.url("a"), "text");
  auto const file = driver.must_open(subject.url("a"), store_update);
  EXPECT_TRUE(subject.store().access(file).memory.bytes.empty());
  EXPECT_EQ(driver.close(file).code, status::ok);
}

}  // namespace
}  // namespace tanada::contract
