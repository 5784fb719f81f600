#include "port/stream/teller.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace tanada::port {
namespace {

std::string own_name() { return "tanada-teller-test-" + std::to_string(getpid()); }

// Answers until it ends.
class answering {
 public:
  answering(teller &of, std::string text) : thread_{[this, &of, text] {
      while (!is_over_) {
        of.answer([&] { return text; });
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }} {}
  ~answering() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

TEST(teller, tells_who_asks_as_often_as_they_ask) {
  auto made = teller::open(own_name());
  ASSERT_TRUE(made.ok());
  auto const of = std::move(made).value();
  std::string const text(50'000, 'x');
  answering const thread{*of, text};
  for (int i = 0; i < 3; i++) {
    auto told = teller_ask(own_name());
    ASSERT_TRUE(told.ok());
    EXPECT_EQ(told.value(), text);
  }
}

TEST(teller, has_a_name_of_its_own) {
  EXPECT_EQ(teller_ask(own_name()).error(), status::no_entry);
  {
    auto made = teller::open(own_name());
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(teller::open(own_name()).error(), status::exists);
    EXPECT_EQ(tellers_find("tanada-teller-test-" + std::to_string(getpid())), std::vector<std::string>{own_name()});
  }
  EXPECT_TRUE(tellers_find(own_name()).empty());
}

}  // namespace
}  // namespace tanada::port
