// Many namespaces: unused names take no memory in the daemon.
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"

namespace tanada::test {
namespace {

using namespace wire::pool;

constexpr int name_count = 10'000;  // more than the limit on namespaces

TEST(pool_namespaces, ten_thousand_names_one_after_the_other_use_none_up) {
  auto const daemon = started(small_pool());
  for (int i = 0; i < name_count; i++) {
    raw_client client{daemon->port(), true};
    ASSERT_EQ(client.greet("name" + std::to_string(i)), status::ok) << i;
  }
  connection last{url_of(*daemon, "last"), true};
  ASSERT_EQ(last.code, TND_OK) << tnd_last_message();
  EXPECT_EQ(put(last, "a", pattern(100, 1)), TND_OK);
}

// Size and segments have their defaults. Each namespace with memory has a descriptor of this
// process.
class pool_of_many_namespaces : public testing::Test {
 protected:
  static constexpr int space_count = 4096;  // as many as the limit

  void SetUp() override {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 4 * space_count)
      GTEST_SKIP() << "too few descriptors";
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    auto options = small_pool(poold::daemon_options{}.size);
    options.segment_size = poold::daemon_options{}.segment_size;
    options.prefault = false;
    options.quotas = {{"limited", 64 << 10}};
    daemon_ = started(options);
  }
  static std::string name_of(int number) {
    return "name" + std::to_string(number);
  }

  std::unique_ptr<poold::daemon> daemon_;
};

TEST_F(pool_of_many_namespaces, each_holds_an_object) {
  for (int i = 0; i < space_count; i++) {
    raw_client client{daemon_->port(), true};
    ASSERT_EQ(client.greet(name_of(i)), status::ok) << i;
    put_request put;
    put.name = "a";
    ASSERT_EQ(client.ask(kind::put, put, name_of(i)), status::ok) << i;
  }
  // One with a quota is still admitted, and the quota counts memory in use.
  connection limited{url_of(*daemon_, "limited"), true};
  ASSERT_EQ(limited.code, TND_OK) << tnd_last_message();
  EXPECT_EQ(put(limited, "a", pattern(60'000, 1)), TND_OK) << tnd_last_message();
  EXPECT_EQ(put(limited, "b", pattern(60'000, 1)), -ENOSPC);
  EXPECT_NE(std::string{tnd_last_message()}.find("quota"), std::string::npos);
  for (int const i : {0, 1, space_count / 2, space_count - 1}) {
    connection each{url_of(*daemon_, name_of(i)), true};
    auto const bytes = get(each, "a");
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), name_of(i));
    // Half a pool goes into one of them, by shared memory.
    if (i != 1)
      continue;
    auto const large = pattern(256 << 20, 2);
    EXPECT_EQ(put(each, "large", large), TND_OK) << tnd_last_message();
    EXPECT_EQ(get(each, "large", TND_OK, large.size()), large);
    EXPECT_EQ(tnd_pool_remove(each, "large", 0), TND_OK);
  }
  // Removed objects free memory for others.
  for (int i = 0; i < space_count; i++) {
    raw_client client{daemon_->port(), true};
    ASSERT_EQ(client.greet(name_of(i)), status::ok) << i;
    flags_request remove;
    remove.name = "a";
    ASSERT_EQ(client.ask(kind::remove, remove), status::ok) << i;
  }
  auto now = daemon_->report();
  for (int tries = 0; tries < 3'000 && now.owned > 128 << 10; tries++) {  // its clients disconnect
    usleep(10'000);
    now = daemon_->report();
  }
  EXPECT_LE(now.owned, 128u << 10);
}

// By shared memory, into mappings of their own.
TEST_F(pool_of_many_namespaces, each_client_maps_what_its_namespace_has) {
  std::vector<std::unique_ptr<connection>> clients;
  for (int i = 0; i < 200; i++) {
    clients.push_back(std::make_unique<connection>(url_of(*daemon_, name_of(i)), true));
    ASSERT_EQ(clients.back()->code, TND_OK) << tnd_last_message();
    auto const bytes = pattern(100'000 + 1000 * i, uint32_t(i));
    ASSERT_EQ(put(*clients.back(), "a", bytes), TND_OK) << tnd_last_message();
  }
  for (int i = 0; i < 200; i++) {
    EXPECT_EQ(get(*clients[i], "a"), pattern(100'000 + 1000 * i, uint32_t(i)));
  }
  for (auto const &each : daemon_->report().spaces) {
    EXPECT_GE(each.owned, each.used);
    EXPECT_LE(each.owned, 2 * each.used) << each.name;
  }
}

class pool_namespaces_with_keys : public testing::Test {
 protected:
  pool_namespaces_with_keys() {
    std::ofstream{path_} << "reader " << std::string(64, 'a') << " ro *\n"
                         << "writer " << std::string(64, 'b') << " rw *\n";
    chmod(path_.c_str(), 0600);
    auto options = small_pool();
    options.key_file = path_;
    daemon_ = started(options);
  }
  ~pool_namespaces_with_keys() override {
    std::remove(path_.c_str());
  }

  pool::key key_of(size_t index) const {
    return pool::keys_read(path_).value()[index];
  }

  std::string const path_ = testing::TempDir() + "tanada_namespaces_" + std::to_string(getpid());
  std::unique_ptr<poold::daemon> daemon_;
};

TEST_F(pool_namespaces_with_keys, clients_that_only_read_use_none_up) {
  pool::key const read_key = key_of(0), write_key = key_of(1);
  std::vector<std::unique_ptr<raw_client>> staying;
  for (int i = 0; i < name_count; i++) {
    auto reader = std::make_unique<raw_client>(daemon_->port(), true);
    std::string const name = "name" + std::to_string(i);
    ASSERT_EQ(reader->greet(name, &read_key), status::ok) << i;
    if (i % 100 == 0)
      staying.push_back(std::move(reader));
  }
  raw_client writer{daemon_->port(), true};
  ASSERT_EQ(writer.greet("name0", &write_key), status::ok);
  put_request put;
  put.name = "a";
  ASSERT_EQ(writer.ask(kind::put, put, "bytes"), status::ok);
  EXPECT_EQ(staying[0]->ask(kind::get, get_request{"a", 100}), status::ok)
      << "a reader that was there before sees it";
  EXPECT_EQ(staying[1]->ask(kind::get, get_request{"a", 100}), status::no_entry);
  ASSERT_EQ(staying[1]->ask(kind::list, list_request{}), status::ok)
      << "what nobody wrote to is empty";
  list_reply listed;
  ASSERT_EQ(wire::decode(staying[1]->answer.body, listed), status::ok);
  EXPECT_TRUE(listed.entries.empty());
}

}  // namespace
}  // namespace tanada::test
