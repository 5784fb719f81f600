#include "seams/stream/stream_set.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tanada::backends
