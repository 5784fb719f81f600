// Calls: of the servers of PEs on other nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>

#include "onesided/job/staging.hpp"
#include "onesided/job/testing.hpp"

namespace tanada::pgas {
namespace {

// A request is a place and bytes to be written there, or a place to be read from. Who asks for what
// is outside is told so.
class notebook final : public call_server {
 public:
  static constexpr size_t size = size_t{512} << 10;

  std::vector<std::byte> pages = std::vector<std::byte>(size);

  status serve(pe_index, std::span<const std::byte> request,
               std::span<std::byte> reply) noexcept override {
    uint64_t at = 0;
    if (request.size() < sizeof at)
      return status::protocol;
    std::memcpy(&at, request.data(), sizeof at);
    auto const data = request.subspan(sizeof at);
    size_t const wanted = reply.empty() ? data.size() : reply.size();
    if (at > size || wanted > size - at)
      return status::range;
    if (reply.empty())
      std::copy(data.begin(), data.end(), pages.begin() + ptrdiff_t(at));
    else
      std::copy_n(pages.begin() + ptrdiff_t(at), wanted, reply.begin());
    return status::ok;
  }
};

// What it is asked for is done at the third look, the last one first; meanwhile the bytes are the
// server's.
class slow_notebook final : public call_server {
 public:
  notebook inner;
  std::atomic<uint32_t> begun{0}, looks{0};

  status serve(pe_index, std::span<const std::byte>, std::span<std::byte>) noexcept override {
    return status::again;
  }
  std::unique_ptr<pending_call> begin(pe_index pe, std::span<const std::byte> request,
                                      std::span<std::byte> reply) noexcept override {
    class slow final : public pending_call {
     public:
      slow(slow_notebook &owner, pe_index pe, std::span<const std::byte> request,
           std::span<std::byte> reply)
          : owner_{owner}, pe_{pe}, request_{request}, reply_{reply}, due_{3 + owner.begun++ % 4} {}
      status step() noexcept override {
        return --due_ != 0 ? status::again : owner_.inner.serve(pe_, request_, reply_);
      }

     private:
      slow_notebook &owner_;
      pe_index const pe_;
      std::span<const std::byte> const request_;
      std::span<std::byte> const reply_;
      uint32_t due_;
    };
    return std::make_unique<slow>(*this, pe, request, reply);
  }
  void attend() noexcept override {
    looks++;
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

status read_at(staged_context &self, pe_index pe, uint64_t at, size_t size, landing &to,
               uint64_t first) {
  return self.fetch(pe, std::as_bytes(std::span{&at, 1}), size, to, first);
}

template <class Notebook = notebook, class Part>
void with_notebooks(pe_index count, bool has_servers, Part part) {
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      Notebook mine;
      job_options options = small();
      options.node = "none";
      options.calls = has_servers ? &mine : nullptr;
      options.staging_size = size_t{4} << 20;
      auto made = job::start(*launcher, options);
      ASSERT_TRUE(made.ok()) << int(made.error());
      part(*made.value(), mine);
      EXPECT_EQ(made.value()->finish(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
}

std::vector<std::byte> pattern(size_t size, unsigned salt) {
  std::vector<std::byte> made(size);
  for (size_t i = 0; i < size; i++)
    made[i] = std::byte(i * 7 + i / 251 + salt);
  return made;
}

// Of all sizes, those that go with a message and those that are read; nobody over there calls
// anything.
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
    size_t const sizes[] = {1,
                            9,
                            own.message_size_max() - 8,
                            own.message_size_max() - 7,
                            2 * own.message_size_max(),
                            2 * own.message_size_max() + 1,
                            100'000,
                            longest};
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
      EXPECT_EQ(write_at(own, other, notebook::size - size + 1, std::span{bytes}.first(size)),
                status::ok);
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

// Three write over each other's numbers, many at a time: with a fence between them the last of each
// is there.
template <class Notebook>
void write_in_order(const std::function<std::vector<std::byte> &(Notebook &)> &pages_of) {
  with_notebooks<Notebook>(3, true, [&](job &self, Notebook &mine) {
    staged_context own{*self.staging()};
    constexpr size_t size = 30'000;
    for (int round = 0; round < 60; round++) {
      for (pe_index pe = 0; pe < 3; pe++) {
        if (pe == self.me())
          continue;
        size_t const much = round % 3 == 0 ? 100 : size;
        ASSERT_EQ(write_at(own, pe, size_t(self.me()) * size, pattern(much, unsigned(round))),
                  status::ok);
      }
      own.fence();
    }
    EXPECT_EQ(own.quiet(), status::ok);
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
    auto const wanted = pattern(size, 59);
    static_assert(59 % 3 != 0);
    for (pe_index pe = 0; pe < 3; pe++) {
      if (pe == self.me())
        continue;
      auto const at = pages_of(mine).begin() + ptrdiff_t(size_t(pe) * size);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), at)) << pe;
    }
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

TEST(calls, those_after_a_fence_come_after_those_before) {
  write_in_order<notebook>([](notebook &mine) -> auto & { return mine.pages; });
}

TEST(calls, those_after_a_fence_wait_for_what_is_not_done_at_once) {
  write_in_order<slow_notebook>([](slow_notebook &mine) -> auto & { return mine.inner.pages; });
}

// Of all sizes and kinds, some of which are refused in the end.
TEST(calls, what_is_not_done_at_once_is_done_later) {
  with_notebooks<slow_notebook>(2, true, [](job &self, slow_notebook &mine) {
    staged_context own{*self.staging()};
    pe_index const other = 1 - self.me();
    auto const sent = pattern(notebook::size, unsigned(self.me()));
    landing back;
    size_t const sizes[] = {1, own.message_size_max() - 8, own.message_size_max() - 7, 100'000, 9};
    for (size_t done = 0, i = 0; done < sent.size(); i++) {
      size_t const size = std::min(sizes[i % std::size(sizes)], sent.size() - done);
      ASSERT_EQ(write_at(own, other, done, std::span{sent}.subspan(done, size)), status::ok);
      own.fence();
      ASSERT_EQ(read_at(own, other, done, size, back, done), status::ok);
      done += size;
    }
    while (!own.wait_until(port::monotonic_clock().now_ns() + 1'000'000)) {}
    EXPECT_EQ(own.quiet(), status::ok);
    EXPECT_EQ(back.bytes, sent);
    for (size_t const size : {size_t{8}, size_t{20'000}}) {
      EXPECT_EQ(read_at(own, other, notebook::size - size + 1, size, back, 0), status::ok);
      EXPECT_EQ(own.quiet(), status::range);
      EXPECT_EQ(write_at(own, other, notebook::size - size + 1, std::span{sent}.first(size)),
                status::ok);
      EXPECT_EQ(own.quiet(), status::range);
    }
    EXPECT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
    EXPECT_GT(mine.begun, 20u);
    EXPECT_GT(mine.looks, 20u);
  });
}

TEST(calls, what_is_given_up_lands_no_more) {
  with_notebooks<slow_notebook>(2, true, [](job &self, slow_notebook &) {
    staged_context own{*self.staging()};
    pe_index const other = 1 - self.me();
    landing back;
    constexpr size_t sizes[] = {8, 20'000};
    uint32_t abandoned_rounds = 0;
    for (int round = 0; round < 20; round++) {
      size_t const start = back.total;
      for (size_t const size : sizes)
        ASSERT_EQ(read_at(own, other, 0, size, back, 0), status::ok);
      own.abandon();
      size_t const before = back.total;
      // On a busy machine this thread may be stopped for so long that all answers came first.
      bool const has_all = before - start == sizes[0] + sizes[1];
      status const code = own.quiet();
      EXPECT_TRUE(code == status::timed_out || (has_all && code == status::ok)) << int(code);
      if (code == status::timed_out)
        abandoned_rounds++;
      EXPECT_FALSE(own.is_busy());
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      EXPECT_EQ(back.total, before);
    }
    EXPECT_GT(abandoned_rounds, 0u);
    // It goes on.
    auto const sent = pattern(100, 3);
    size_t const total = back.total;
    EXPECT_EQ(write_at(own, other, 0, sent), status::ok);
    own.fence();
    EXPECT_EQ(read_at(own, other, 0, sent.size(), back, 0), status::ok);
    EXPECT_EQ(own.quiet(), status::ok);
    EXPECT_EQ(back.total, total + sent.size());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), back.bytes.begin()));
    EXPECT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

}  // namespace
}  // namespace tanada::pgas
