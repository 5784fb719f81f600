// Many namespaces: names that nobody uses take no place in the daemon.
#include <sys/stat.h>

#include <fstream>

#include "pool/pool_fixture.hpp"
#include "pool/raw_client.hpp"

namespace tanada::test {
namespace {

using namespace wire::pool;

constexpr int name_count = 10'000;  // more than there may be namespaces

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
  ~pool_namespaces_with_keys() override { std::remove(path_.c_str()); }

  pool::key key_of(size_t index) const { return pool::keys_read(path_).value()[index]; }

  std::string const path_ =
      testing::TempDir() + "tanada_namespaces_" + std::to_string(getpid());
  std::unique_ptr<poold::daemon> daemon_;
};

TEST_F(pool_namespaces_with_keys, clients_that_only_read_use_none_up) {
  pool::key const read_key = key_of(0), write_key = key_of(1);
  std::vector<std::unique_ptr<raw_client>> staying;
  for (int i = 0; i < name_count; i++) {
    auto reader = std::make_unique<raw_client>(daemon_->port(), true);
    std::string const name = "name" + std::to_string(i);
    ASSERT_EQ(reader->greet(name, &read_key), status::ok) << i;
    if (i % 100 == 0) staying.push_back(std::move(reader));
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
