// The store contract on GlusterFS; tests/fixtures/gluster.py runs the volume. And what its URLs can
// be.
#include <signal.h>

#include <sstream>

#include "contract/store_contract_queues.hpp"
#include "contract/store_gluster_subject.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::contract {
namespace {

store_case gluster_case() {
  return {"gluster", [] {
            return std::make_unique<gluster_subject>();
          }};
}

std::string case_name(const testing::TestParamInfo<store_case> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(stores, store_contract, testing::Values(gluster_case()), case_name);

TEST(store_gluster, urls_without_host_volume_or_path_are_invalid) {
  gluster_subject subject;
  store_driver driver{subject};
  for (const char *url : {"gluster://",
                          "gluster:///volume/a",
                          "gluster://host",
                          "gluster://host/volume",
                          "gluster://host//a",
                          "gluster://host:0/volume/a",
                          "gluster://host:x/volume/a",
                          "gluster://host:24007x/volume/a"})
    EXPECT_EQ(driver.open(url, store_read_only).code, status::invalid) << url;
}

TEST(store_gluster, a_volume_that_is_not_there_is_an_error_that_ends) {
  gluster_subject subject;
  store_driver driver{subject};
  std::string url = std::getenv("TND_TEST_GLUSTER");
  url.replace(url.find("/tanada/"), 8, "/nothing/");
  EXPECT_NE(driver.open(url + "a", store_read_only).code, status::ok);
}

TEST(store_gluster, a_directory_is_no_file) {
  gluster_subject subject;
  store_driver driver{subject};
  EXPECT_EQ(driver.open(std::getenv("TND_TEST_GLUSTER"), store_read_only).code,
            status::is_directory);
}

TEST(store_gluster, a_large_read_is_whole_and_ends_at_the_end) {
  gluster_subject subject;
  store_driver driver{subject};
  std::string text(3 * (128 << 10) + 77, 0);
  for (size_t i = 0; i < text.size(); i++)
    text[i] = char(i * 131 + (i >> 9));
  auto const file = driver.must_open(subject.url("large"), store_make);
  ASSERT_EQ(driver.write(file, 0, text).code, status::ok);
  EXPECT_EQ(driver.read(file, 0, text.size() + 1'000'000), text);
  EXPECT_EQ(driver.read(file, 100, 2 * (128 << 10)), text.substr(100, 2 * (128 << 10)));
  EXPECT_EQ(driver.close(file).code, status::ok);
}

// A brick that stops for longer than the ping timeout, 2 s for this program: what was asked of it
// ends, and once it goes on the file is read again.
TEST(store_gluster, reads_end_while_a_brick_is_stopped_and_work_when_it_goes_on) {
  gluster_subject subject;
  store_driver driver{subject};
  std::string const text(200'000, 'x');
  auto const file = driver.must_open(subject.url("stopped"), store_make);
  ASSERT_EQ(driver.write(file, 0, text).code, status::ok);
  ASSERT_EQ(driver.close(file).code, status::ok);
  auto const again = driver.must_open(subject.url("stopped"), store_read_only);
  std::vector<pid_t> bricks;
  std::istringstream list{std::getenv("TND_TEST_GLUSTER_BRICKS")};
  for (pid_t pid; list >> pid;)
    bricks.push_back(pid);
  ASSERT_FALSE(bricks.empty());
  for (pid_t pid : bricks)
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
  // Within the driver's limit; what the client has cached it may still give.
  std::string seen(text.size(), 0);
  auto const read = [&](seams::store_file from) {
    return driver.transfer(seams::store_op_kind::read,
                           from,
                           0,
                           {{reinterpret_cast<std::byte *>(seen.data()), seen.size()}});
  };
  auto const held = read(again);
  EXPECT_TRUE(held.code != status::ok || seen == text);
  status const refused = driver.open(subject.url("unknown"), store_read_only).code;
  EXPECT_TRUE(refused != status::ok && refused != status::no_entry) << int(refused);
  for (pid_t pid : bricks)
    ASSERT_EQ(kill(pid, SIGCONT), 0);
  seen.clear();
  // The client tries every 3 s to connect again, and asks glusterd for the brick's port first.
  status last = status::ok;
  for (int i = 0; i < 400 && seen != text; i++) {
    seams::monotonic_clock().sleep_ns(100'000'000);
    auto const opened = driver.open(subject.url("stopped"), store_read_only);
    last = opened.code;
    if (last != status::ok)
      continue;
    seen.assign(text.size(), 0);
    (void)read(opened.file);
    (void)driver.close(opened.file);
  }
  EXPECT_TRUE(seen == text) << "40 s after the bricks went on: open ended with " << int(last);
  (void)driver.close(again);
}

}  // namespace
}  // namespace tanada::contract
