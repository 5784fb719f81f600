#include "seams/stream/stream_set.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tanada::port {
namespace {

TEST(stream_set, is_chosen_by_the_environment) {
  auto const of = [](const char *kind) {
    setenv("TND_STREAM_ENGINE", kind, 1);
    auto made = stream_set_create({});
    unsetenv("TND_STREAM_ENGINE");
    return made.ok() ? std::string{made.value()->name()} : "";
  };
  EXPECT_EQ(of("epoll"), "epoll");
  EXPECT_EQ(of("auto"), "epoll");
  EXPECT_EQ(of(""), "epoll");
  bool const is_here = uring_stream_set_create({}).ok();
  EXPECT_EQ(of("io_uring"), is_here ? "io_uring" : "epoll");
  EXPECT_EQ(of("iouring"), "");
}

}  // namespace
}  // namespace tanada::port
