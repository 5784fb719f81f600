#include "seams/stream/stream_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tanada::backends {
namespace {

TEST(stream_set, is_chosen_by_the_environment) {
  auto const name_for = [](const char *kind) {
    setenv("TND_STREAM_ENGINE", kind, 1);
    auto created = seams::stream_set_create({});
    unsetenv("TND_STREAM_ENGINE");
    return created.ok() ? std::string{created.value()->name()} : "";
  };
  EXPECT_EQ(name_for("epoll"), "epoll");
  EXPECT_EQ(name_for("auto"), "epoll");
  EXPECT_EQ(name_for(""), "epoll");
  bool const has_uring = seams::uring_stream_set_create({}).ok();
  EXPECT_EQ(name_for("io_uring"), has_uring ? "io_uring" : "epoll");
  EXPECT_EQ(name_for("iouring"), "");
}

TEST(stream_set, on_select_refuses_a_descriptor_that_select_cannot_watch) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max <= FD_SETSIZE)
    GTEST_SKIP() << "no descriptor of that number";
  files.rlim_cur = std::max<rlim_t>(files.rlim_cur, FD_SETSIZE + 1);
  setrlimit(RLIMIT_NOFILE, &files);
  int two[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
  int const high = fcntl(two[0], F_DUPFD_CLOEXEC, FD_SETSIZE);
  ASSERT_GE(high, FD_SETSIZE);
  auto set = seams::select_stream_set_create({}).value();
  EXPECT_EQ(set->adopt(high, 1).error(), status::too_many_files);
  EXPECT_TRUE(set->adopt(two[0], 2).ok());
  close(two[1]);
}

}  // namespace
}  // namespace tanada::backends
