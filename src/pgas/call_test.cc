// Calls: of the servers of PEs on other nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "pgas/staging.hpp"
#include "pgas/testing.hpp"

namespace tanada::pgas {
namespace {

// A request is a place and bytes to be written there, or a place to be read from. Who asks for what is outside is told so.
class notebook final : public call_server {
 public:
  static constexpr size_t size = size_t{512} << 10;

  std::vector<std::byte> pages = std::vector<std::byte>(size);

  status serve(pe_index, std::span<const std::byte> request, std::span<std::byte> reply) noexcept override {
    uint64_t at = 0;
    if (request.size() < sizeof at) return status::protocol;
    std::memcpy(&at, request.data(), sizeof at);
    auto const data = request.subspan(sizeof at);
    size_t const wanted = reply.empty() ? data.size() : reply.size();
    if (at > size || wanted > size - at) return status::range;
    if (reply.empty()) std::copy(data.begin(), data.end(), pages.begin() + ptrdiff_t(at));
    else std::copy_n(pages.begin() + ptrdiff_t(at), wanted, reply.begin());
    return status::ok;
  }
};

class landing final : public call_landing {
 public:
  std::vector<std::byte> bytes = std::vector<std::byte>(notebook::size);
  size_t total = 0;

  void land(uint64_t at, std::span<const std::byte> some) noexcept override {
    std::copy(some.begin(), some.end(), bytes.begin() + ptrdiff_t(at));
    total += some.size();
  }
};

status write_at(staged_context &self, pe_index pe, uint64_t at, std::span<const std::byte> data) {
  return self.call(pe, sizeof at + data.size(), [&](std::span<std::byte> into) {
    std::memcpy(into.data(), &at, sizeof at);
    std::copy(data.begin(), data.end(), into.begin() + sizeof at);
  });
}

status read_at(staged_context &self, pe_index pe, uint64_t at, size_t size, landing &to, uint64_t first) {
  return self.fetch(pe, std::as_bytes(std::span{&at, 1}), size, to, first);
}

template <class Part>
void with_notebooks(pe_index count, bool has_servers, Part part) {
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      notebook mine;
      job_options options = small();
      options.node = "none";
      options.calls = has_servers ? &mine : nullptr;
      options.staging_size = size_t{1} << 20;
      auto made = job::start(*launcher, options);
      ASSERT_TRUE(made.ok()) << int(made.error());
      part(*made.value(), mine);
      EXPECT_EQ(made.value()->finish(), status::ok);
    });
  }
  for (auto &each : threads) each.join();
}

std::vector<std::byte> pattern(size_t size, unsigned salt) {
  std::vector<std::byte> made(size);
  for (size_t i = 0; i < size; i++) made[i] = std::byte(i * 7 + i / 251 + salt);
  return made;
}

// Of all sizes, those that go with a message and those that are read; nobody over there calls anything.
TEST(calls, bytes_go_there_and_come_back) {
  with_notebooks(2, true, [](job &self, notebook &mine) {
    if (self.me() == 1) {
      ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
      auto const sent = pattern(mine.pages.size(), 3);
      EXPECT_EQ(mine.pages, sent);
      return;
    }
    staged_context own{*self.staging()};
    auto const sent = pattern(notebook::size, 3);
    landing back;
    size_t const longest = own.call_size_max() - sizeof(uint64_t);
    size_t const sizes[] = {1, 9, own.message_size_max() - 8, own.message_size_max() - 7, 2 * own.message_size_max(),
                            2 * own.message_size_max() + 1, 100'000, longest};
    for (size_t done = 0, i = 0; done < sent.size(); i++) {
      size_t const size = std::min(sizes[i % std::size(sizes)], sent.size() - done);
      ASSERT_EQ(write_at(own, 1, done, std::span{sent}.subspan(done, size)), status::ok);
      own.fence();
      ASSERT_EQ(read_at(own, 1, done, size, back, done), status::ok);
      done += size;
    }
    EXPECT_EQ(own.quiet(), status::ok);
    EXPECT_EQ(back.total, sent.size());
    EXPECT_EQ(back.bytes, sent);
    EXPECT_FALSE(own.is_busy());
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

TEST(calls, who_asks_for_too_much_is_told) {
  with_notebooks(2, true, [](job &self, notebook &) {
    staged_context own{*self.staging()};
    pe_index const other = 1 - self.me();
    std::vector<std::byte> const bytes(own.call_size_max() + 1);
    landing back;
    EXPECT_EQ(own.call(other, bytes.size(), [](auto) {}), status::invalid);
    EXPECT_EQ(own.call(other, 0, [](auto) {}), status::invalid);
    EXPECT_EQ(own.fetch(other, {}, 8, back, 0), status::invalid);
    EXPECT_EQ(own.fetch(other, std::span{bytes}.first(8), bytes.size(), back, 0), status::invalid);
    EXPECT_EQ(own.fetch(other, bytes, 8, back, 0), status::invalid);
    for (size_t const size : {size_t{8}, size_t{20'000}}) {
      EXPECT_EQ(write_at(own, other, notebook::size - size + 1, std::span{bytes}.first(size)), status::ok);
      EXPECT_EQ(own.quiet(), status::range);
      EXPECT_EQ(read_at(own, other, notebook::size - size + 1, size, back, 0), status::ok);
      EXPECT_EQ(own.quiet(), status::range);
    }
    EXPECT_EQ(back.total, 0u);
    // It goes on.
    EXPECT_EQ(write_at(own, other, 0, std::span{bytes}.first(100)), status::ok);
    EXPECT_EQ(own.quiet(), status::ok);
  });
}

TEST(calls, there_are_none_where_nobody_serves) {
  with_notebooks(2, false, [](job &self, notebook &) { EXPECT_EQ(self.staging(), nullptr); });
}

// Three write over each other's numbers, many at a time: with a fence between them the last of each is there.
TEST(calls, those_after_a_fence_come_after_those_before) {
  with_notebooks(3, true, [](job &self, notebook &mine) {
    staged_context own{*self.staging()};
    constexpr size_t size = 30'000;
    for (int round = 0; round < 60; round++) {
      for (pe_index pe = 0; pe < 3; pe++) {
        if (pe == self.me()) continue;
        size_t const much = round % 3 == 0 ? 100 : size;
        ASSERT_EQ(write_at(own, pe, size_t(self.me()) * size, pattern(much, unsigned(round))), status::ok);
      }
      own.fence();
    }
    EXPECT_EQ(own.quiet(), status::ok);
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
    auto const wanted = pattern(size, 59);
    static_assert(59 % 3 != 0);
    for (pe_index pe = 0; pe < 3; pe++) {
      if (pe == self.me()) continue;
      auto const at = mine.pages.begin() + ptrdiff_t(size_t(pe) * size);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), at)) << pe;
    }
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

}  // namespace
}  // namespace tanada::pgas
