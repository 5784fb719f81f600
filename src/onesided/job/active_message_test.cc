// Active messages to PEs on other nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>

#include "onesided/job/staging.hpp"
#include "onesided/job/testing.hpp"

namespace tanada::onesided {
namespace {

// A request is a position with bytes to be written there, or a position to be read from. Positions
// outside the pages are refused.
class page_server final : public active_message_server {
 public:
  static constexpr size_t size = size_t{512} << 10;

  std::vector<std::byte> pages = std::vector<std::byte>(size);

  status serve(pe_index,
               std::span<const std::byte> request,
               std::span<std::byte> reply) noexcept override {
    uint64_t position = 0;
    if (request.size() < sizeof position)
      return status::protocol;
    std::memcpy(&position, request.data(), sizeof position);
    auto const data = request.subspan(sizeof position);
    size_t const needed_size = reply.empty() ? data.size() : reply.size();
    if (position > size || needed_size > size - position)
      return status::range;
    if (reply.empty())
      std::copy(data.begin(), data.end(), pages.begin() + ptrdiff_t(position));
    else
      std::copy_n(pages.begin() + ptrdiff_t(position), needed_size, reply.begin());
    return status::ok;
  }
};

// Finishes each request after three to six steps, in another order. Meanwhile the server keeps the
// bytes.
class slow_page_server final : public active_message_server {
 public:
  page_server inner;
  std::atomic<uint32_t> begun{0}, round_count{0};

  status serve(pe_index, std::span<const std::byte>, std::span<std::byte>) noexcept override {
    return status::again;
  }
  std::unique_ptr<deferred_message> begin(pe_index pe,
                                          std::span<const std::byte> request,
                                          std::span<std::byte> reply) noexcept override {
    class slow final : public deferred_message {
     public:
      slow(slow_page_server &owner,
           pe_index pe,
           std::span<const std::byte> request,
           std::span<std::byte> reply)
          : owner_{owner}, pe_{pe}, request_{request}, reply_{reply}, due_{3 + owner.begun++ % 4} {}
      status step() noexcept override {
        return --due_ != 0 ? status::again : owner_.inner.serve(pe_, request_, reply_);
      }

     private:
      slow_page_server &owner_;
      pe_index const pe_;
      std::span<const std::byte> const request_;
      std::span<std::byte> const reply_;
      uint32_t due_;
    };
    return std::make_unique<slow>(*this, pe, request, reply);
  }
  void begin_round() noexcept override {
    round_count++;
  }
};

class page_sink final : public fetch_sink {
 public:
  std::vector<std::byte> bytes = std::vector<std::byte>(page_server::size);
  size_t total = 0;

  void write(uint64_t offset, std::span<const std::byte> data) noexcept override {
    std::copy(data.begin(), data.end(), bytes.begin() + ptrdiff_t(offset));
    total += data.size();
  }
};

status write_at(staged_context &self,
                pe_index pe,
                uint64_t position,
                std::span<const std::byte> data) {
  return self.active_message(pe, sizeof position + data.size(), [&](std::span<std::byte> buffer) {
    std::memcpy(buffer.data(), &position, sizeof position);
    std::copy(data.begin(), data.end(), buffer.begin() + sizeof position);
  });
}

status read_at(staged_context &self,
               pe_index pe,
               uint64_t position,
               size_t size,
               page_sink &sink,
               uint64_t first) {
  return self.fetch(pe, std::as_bytes(std::span{&position, 1}), size, sink, first);
}

template <class Server = page_server, class Part>
void with_servers(pe_index count, bool has_servers, Part part) {
  auto launchers = backends::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      Server server;
      job_options options = small_options();
      options.node = "none";
      options.message_server = has_servers ? &server : nullptr;
      options.staging_size = size_t{4} << 20;
      auto started = job::start(*launcher, options);
      ASSERT_TRUE(started.ok()) << int(started.error());
      part(*started.value(), server);
      EXPECT_EQ(started.value()->finish(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

std::vector<std::byte> pattern(size_t size, unsigned salt) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = std::byte(i * 7 + i / 251 + salt);
  return bytes;
}

// All sizes: requests that travel with a message, and requests that are read. The other PE makes no
// calls.
TEST(calls, bytes_go_there_and_come_back) {
  with_servers(2, true, [](job &self, page_server &server) {
    if (self.me() == 1) {
      ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
      auto const sent = pattern(server.pages.size(), 3);
      EXPECT_EQ(server.pages, sent);
      return;
    }
    staged_context ctx{*self.staging()};
    auto const sent = pattern(page_server::size, 3);
    page_sink back;
    size_t const longest = ctx.active_message_size_max() - sizeof(uint64_t);
    size_t const sizes[] = {1,
                            9,
                            ctx.eager_size_max() - 8,
                            ctx.eager_size_max() - 7,
                            2 * ctx.eager_size_max(),
                            2 * ctx.eager_size_max() + 1,
                            100'000,
                            longest};
    for (size_t done = 0, i = 0; done < sent.size(); i++) {
      size_t const size = std::min(sizes[i % std::size(sizes)], sent.size() - done);
      ASSERT_EQ(write_at(ctx, 1, done, std::span{sent}.subspan(done, size)), status::ok);
      ctx.fence();
      ASSERT_EQ(read_at(ctx, 1, done, size, back, done), status::ok);
      done += size;
    }
    EXPECT_EQ(ctx.quiet(), status::ok);
    EXPECT_EQ(back.total, sent.size());
    EXPECT_EQ(back.bytes, sent);
    EXPECT_FALSE(ctx.is_busy());
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

TEST(calls, who_asks_for_too_much_is_told) {
  with_servers(2, true, [](job &self, page_server &) {
    staged_context ctx{*self.staging()};
    pe_index const peer = 1 - self.me();
    std::vector<std::byte> const bytes(ctx.active_message_size_max() + 1);
    page_sink back;
    EXPECT_EQ(ctx.active_message(peer, bytes.size(), [](auto) {}), status::invalid);
    EXPECT_EQ(ctx.active_message(peer, 0, [](auto) {}), status::invalid);
    EXPECT_EQ(ctx.fetch(peer, {}, 8, back, 0), status::invalid);
    EXPECT_EQ(ctx.fetch(peer, std::span{bytes}.first(8), bytes.size(), back, 0), status::invalid);
    EXPECT_EQ(ctx.fetch(peer, bytes, 8, back, 0), status::invalid);
    for (size_t const size : {size_t{8}, size_t{20'000}}) {
      EXPECT_EQ(write_at(ctx, peer, page_server::size - size + 1, std::span{bytes}.first(size)),
                status::ok);
      EXPECT_EQ(ctx.quiet(), status::range);
      EXPECT_EQ(read_at(ctx, peer, page_server::size - size + 1, size, back, 0), status::ok);
      EXPECT_EQ(ctx.quiet(), status::range);
    }
    EXPECT_EQ(back.total, 0u);
    // The context stays usable.
    EXPECT_EQ(write_at(ctx, peer, 0, std::span{bytes}.first(100)), status::ok);
    EXPECT_EQ(ctx.quiet(), status::ok);
  });
}

TEST(calls, there_are_none_where_nobody_serves) {
  with_servers(2, false, [](job &self, page_server &) { EXPECT_EQ(self.staging(), nullptr); });
}

// Three PEs overwrite one another's bytes, many at a time. With a fence between rounds the last
// round stays.
template <class Server>
void write_in_order(const std::function<std::vector<std::byte> &(Server &)> &pages_of) {
  with_servers<Server>(3, true, [&](job &self, Server &server) {
    staged_context ctx{*self.staging()};
    constexpr size_t size = 30'000;
    for (int round = 0; round < 60; round++) {
      for (pe_index pe = 0; pe < 3; pe++) {
        if (pe == self.me())
          continue;
        size_t const length = round % 3 == 0 ? 100 : size;
        ASSERT_EQ(write_at(ctx, pe, size_t(self.me()) * size, pattern(length, unsigned(round))),
                  status::ok);
      }
      ctx.fence();
    }
    EXPECT_EQ(ctx.quiet(), status::ok);
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
    auto const expected = pattern(size, 59);
    static_assert(59 % 3 != 0);
    for (pe_index pe = 0; pe < 3; pe++) {
      if (pe == self.me())
        continue;
      auto const actual = pages_of(server).begin() + ptrdiff_t(size_t(pe) * size);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual)) << pe;
    }
    ASSERT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

TEST(calls, those_after_a_fence_come_after_those_before) {
  write_in_order<page_server>([](page_server &server) -> auto & { return server.pages; });
}

TEST(calls, those_after_a_fence_wait_for_what_is_not_done_at_once) {
  write_in_order<slow_page_server>(
      [](slow_page_server &server) -> auto & { return server.inner.pages; });
}

// All sizes and kinds, some of which are refused in the end.
TEST(calls, what_is_not_done_at_once_is_done_later) {
  with_servers<slow_page_server>(2, true, [](job &self, slow_page_server &server) {
    staged_context ctx{*self.staging()};
    pe_index const peer = 1 - self.me();
    auto const sent = pattern(page_server::size, unsigned(self.me()));
    page_sink back;
    size_t const sizes[] = {1, ctx.eager_size_max() - 8, ctx.eager_size_max() - 7, 100'000, 9};
    for (size_t done = 0, i = 0; done < sent.size(); i++) {
      size_t const size = std::min(sizes[i % std::size(sizes)], sent.size() - done);
      ASSERT_EQ(write_at(ctx, peer, done, std::span{sent}.subspan(done, size)), status::ok);
      ctx.fence();
      ASSERT_EQ(read_at(ctx, peer, done, size, back, done), status::ok);
      done += size;
    }
    while (!ctx.wait_until(seams::monotonic_clock().now_ns() + 1'000'000)) {}
    EXPECT_EQ(ctx.quiet(), status::ok);
    EXPECT_EQ(back.bytes, sent);
    for (size_t const size : {size_t{8}, size_t{20'000}}) {
      EXPECT_EQ(read_at(ctx, peer, page_server::size - size + 1, size, back, 0), status::ok);
      EXPECT_EQ(ctx.quiet(), status::range);
      EXPECT_EQ(write_at(ctx, peer, page_server::size - size + 1, std::span{sent}.first(size)),
                status::ok);
      EXPECT_EQ(ctx.quiet(), status::range);
    }
    EXPECT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
    EXPECT_GT(server.begun, 20u);
    EXPECT_GT(server.round_count, 20u);
  });
}

TEST(calls, what_is_given_up_lands_no_more) {
  with_servers<slow_page_server>(2, true, [](job &self, slow_page_server &) {
    staged_context ctx{*self.staging()};
    pe_index const peer = 1 - self.me();
    page_sink back;
    constexpr size_t sizes[] = {8, 20'000};
    uint32_t abandoned_rounds = 0;
    for (int round = 0; round < 20; round++) {
      size_t const start = back.total;
      for (size_t const size : sizes)
        ASSERT_EQ(read_at(ctx, peer, 0, size, back, 0), status::ok);
      ctx.abandon();
      size_t const before = back.total;
      // On a busy machine this thread may be stopped until all replies have arrived.
      bool const has_all = before - start == sizes[0] + sizes[1];
      status const code = ctx.quiet();
      EXPECT_TRUE(code == status::timed_out || (has_all && code == status::ok)) << int(code);
      if (code == status::timed_out)
        abandoned_rounds++;
      EXPECT_FALSE(ctx.is_busy());
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      EXPECT_EQ(back.total, before);
    }
    EXPECT_GT(abandoned_rounds, 0u);
    // The context stays usable.
    auto const sent = pattern(100, 3);
    size_t const total = back.total;
    EXPECT_EQ(write_at(ctx, peer, 0, sent), status::ok);
    ctx.fence();
    EXPECT_EQ(read_at(ctx, peer, 0, sent.size(), back, 0), status::ok);
    EXPECT_EQ(ctx.quiet(), status::ok);
    EXPECT_EQ(back.total, total + sent.size());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), back.bytes.begin()));
    EXPECT_EQ(self.launcher().barrier(20'000'000'000), status::ok);
  });
}

}  // namespace
}  // namespace tanada::onesided
