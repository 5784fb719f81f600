// An engine with insufficient memory: each of its allocations fails, singly or with all later ones,
// while two engines do everything that engines do to each other. A failure may only show as a
// request that is refused and not begun, or as the end of the endpoint, at which every request
// completes.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>

#include "e2e/o2g/failing_memory.hpp"
#include "products/o2g/engine.hpp"
#include "sim/clock.hpp"
#include "sim/stream_set.hpp"
#include "sim/world.hpp"

namespace {

void *allocate(size_t size) noexcept {
  return tanada::test::memory_of_test.fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}

void *allocate_or_throw(size_t size) {
  void *const made = allocate(size);
  if (made == nullptr)
    throw std::bad_alloc{};
  return made;
}

}  // namespace

void *operator new(size_t size) {
  return allocate_or_throw(size);
}
void *operator new[](size_t size) {
  return allocate_or_throw(size);
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocate(size);
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return allocate(size);
}
void operator delete(void *what) noexcept {
  std::free(what);
}
void operator delete[](void *what) noexcept {
  std::free(what);
}
void operator delete(void *what, size_t) noexcept {
  std::free(what);
}
void operator delete[](void *what, size_t) noexcept {
  std::free(what);
}
void operator delete(void *what, const std::nothrow_t &) noexcept {
  std::free(what);
}
void operator delete[](void *what, const std::nothrow_t &) noexcept {
  std::free(what);
}

namespace tanada::test {
namespace {

constexpr uint64_t region_key = 9, region_size = 4096;
constexpr size_t large_size = 30'000;

struct request {
  status posted = status::again;
  uint32_t told_count = 0;
  status code = status::ok;
  bool is_receive = false, is_many = false, is_message = false;
  uint64_t number = 0;  // of a message
  std::vector<std::byte> memory{};
};

struct endpoint final : o2g::completion_sink {
  void complete(const o2g::completion &what) override {
    auto &of = *static_cast<request *>(what.context);
    of.told_count++;
    of.code = what.code;
    bool const is_there = what.code == status::ok || what.code == status::overflow;
    if (what.kind == o2g::completion_kind::receive && is_there && what.has_data)
      came.push_back(what.data);
    if (is_failing && memory_of_test.fails())
      throw std::bad_alloc{};
  }
  bool is_failing = false;  // this engine's memory runs out
  o2g::regions regions{};
  std::vector<std::byte> memory = std::vector<std::byte>(region_size);
  std::unique_ptr<o2g::engine> engine{};
  o2g::peer_index other = 0, self = 0;
  std::deque<request> requests{};
  std::vector<uint64_t> came = [] {
    std::vector<uint64_t> room;
    room.reserve(1000);
    return room;
  }();
};

class shortage {
 public:
  shortage() {
    for (endpoint *const each : {&a_, &b_}) {
      each->is_failing = each == &a_;
      o2g::engine_options options{
          .unexpected_size_soft = 20'000, .has_thread = false, .clock = &clock_};
      options.listen_address = {.family = seams::socket_address::family_kind::ipv4,
                                .bytes = {10, 0, 0, uint8_t(each == &a_ ? 1 : 2)}};
      EXPECT_EQ(each->regions.add(region_key, each->memory.data(), region_size, 0, {true, true}),
                status::ok);
      auto set = network_.open();
      if (each->is_failing)
        set = std::make_unique<spared_stream_set>(std::move(set));
      each->engine = o2g::engine::create(std::move(set), options, *each, each->regions).value();
    }
    a_.other = a_.engine->register_peer(b_.engine->address()).value();
    b_.other = b_.engine->register_peer(a_.engine->address()).value();
    a_.self = a_.engine->register_peer(a_.engine->address()).value();
  }

  // How many allocations failed. Checks all invariants.
  uint64_t run(uint64_t after, bool goes_on) {
    memory_of_test = {.left = after, .goes_on = goes_on};
    for (int round = 0; round < 2; round++) {
      exchange();
      one_sided();
    }
    move(300);
    uint64_t const failed_count = memory_of_test.failed_count;
    memory_of_test = {};
    settle();
    check();
    memory_of_test = {.left = 0, .goes_on = true};
    {
      armed const under_test;
      a_.engine.reset();
    }
    memory_of_test = {};
    settle();
    for (auto const &each : b_.requests)
      EXPECT_TRUE(each.is_receive || each.posted != status::ok || each.told_count == 1);
    return failed_count;
  }

 private:
  template <class Call>
  void post(endpoint &at, size_t size, Call call) {
    auto &made = at.requests.emplace_back();
    made.memory.resize(size);
    for (size_t i = 0; i < size; i++)
      made.memory[i] = std::byte(i);
    iovec const part{made.memory.data(), size};
    armed const under_test{at.is_failing};
    made.posted = call(made, std::span{&part, 1});
  }
  void send(
      endpoint &at, size_t size, bool inject, bool delivered = false, bool is_to_self = false) {
    uint64_t const number = ++last_;
    post(at, size, [&](request &made, std::span<const iovec> parts) {
      made.is_message = true;
      made.number = number;
      return at.engine->post_send({.target = is_to_self ? at.self : at.other,
                                   .parts = parts,
                                   .tag = 1,
                                   .data = number,
                                   .tagged = true,
                                   .has_data = true,
                                   .inject = inject,
                                   .delivery_complete = delivered,
                                   .context = &made});
    });
  }
  void receive(endpoint &at, size_t size, uint64_t ignore = 0, uint64_t many_size = 0) {
    post(at, size, [&](request &made, std::span<const iovec> parts) {
      made.is_receive = true;
      made.is_many = many_size != 0;
      return at.engine->post_receive({.parts = parts,
                                      .pattern = {1, ignore, o2g::any_peer},
                                      .tagged = true,
                                      .multi_receive_min = many_size,
                                      .context = &made});
    });
  }

  void exchange() {
    for (endpoint *const at : {&a_, &b_}) {
      receive(*at, 100);
      for (int i = 0; i < 3; i++)
        send(*at, 100, true);
      send(*at, large_size, false);
      send(*at, 500, false, true);
      for (int i = 0; i < 25; i++)
        send(*at, 40, true);  // batched from the 17th on
    }
    send(a_, 80, true, false, true);
    send(a_, large_size, false, true, true);
    move(60);
    for (endpoint *const at : {&a_, &b_}) {
      receive(*at, large_size, 2);
      receive(*at, 4000, 4, 1000);
      claim(*at);
    }
    move(60);
    for (endpoint *const at : {&a_, &b_})
      for (uint64_t i = 0; i < 34; i++)
        receive(*at, large_size, i % 10 << 8);  // more classes than are hashed
    move(60);
  }
  void claim(endpoint &at) {
    for (bool const discards : {false, true}) {
      post(at, large_size, [&](request &made, std::span<const iovec>) {
        made.is_receive = true;
        return at.engine->post_peek(
            {.pattern = {1, 0, o2g::any_peer}, .tagged = true, .claim = true, .context = &made});
      });
      auto &made = at.requests.back();
      if (made.posted != status::ok || made.code != status::ok)
        continue;
      if (!at.came.empty())
        at.came.pop_back();
      made.told_count = 0;
      iovec const part{made.memory.data(), made.memory.size()};
      armed const under_test{at.is_failing};
      made.posted = discards ? at.engine->discard_claimed(&made, false, nullptr)
                             : at.engine->post_receive_claimed(
                                   {.parts = {&part, 1}, .tagged = true, .context = &made});
    }
  }
  void one_sided() {
    uint64_t const one = 1;
    for (endpoint *const at : {&a_, &b_}) {
      for (size_t const size : {size_t{8}, size_t{1000}, size_t{2000}}) {
        post(*at, size, [&](request &made, std::span<const iovec> parts) {
          return at->engine->post_put({.target = at->other,
                                       .parts = parts,
                                       .remote = {0, size, region_key},
                                       .inject = size < 1000,
                                       .context = &made});
        });
        post(*at, size, [&](request &made, std::span<const iovec> parts) {
          return at->engine->post_get({.target = at->other,
                                       .parts = parts,
                                       .remote = {8, size, region_key},
                                       .context = &made});
        });
      }
      post(*at, 8, [&](request &made, std::span<const iovec>) {
        return at->engine->post_atomic({.target = at->other,
                                        .operands = std::as_bytes(std::span{&one, 1}),
                                        .fetched = made.memory,
                                        .remote = {0, 8, region_key},
                                        .inject = true,
                                        .context = &made});
      });
    }
    move(60);
  }

  void move(int count) {
    for (int i = 0; i < count; i++) {
      if (!world_.step())
        world_.advance(1'000);
      look(a_);
      look(b_);
    }
  }
  size_t look(endpoint &at) {
    if (at.engine == nullptr)
      return 0;
    armed const under_test{at.is_failing};
    return at.engine->poll(false);
  }
  void settle() {
    for (int quiet = 0; quiet < 20;) {
      size_t count = world_.step() ? 1 : 0;
      count += look(a_) + look(b_);
      quiet = count == 0 ? quiet + 1 : 0;
      if (count == 0)
        world_.advance(1'000);
    }
  }

  void check() {
    iovec const none{nullptr, 0};
    for (endpoint *const at : {&a_, &b_})
      for (int i = 0; i < 80; i++)
        receive(*at, large_size);
    settle();
    bool const has_ended = a_.engine->post_receive({.parts = {&none, 1},
                                                    .pattern = {99, 0, o2g::any_peer},
                                                    .tagged = true,
                                                    .context = &last_request_}) != status::ok;
    for (endpoint *const at : {&a_, &b_}) {
      for (auto const &each : at->requests) {
        bool const must =
            each.posted == status::ok && (!each.is_receive || (at == &a_ && has_ended));
        EXPECT_TRUE(!must || each.told_count == 1 || each.is_many)
            << "a request that was begun is told " << each.told_count << " times";
        EXPECT_TRUE(each.posted == status::ok || each.told_count == 0)
            << "a request that was refused";
        EXPECT_LE(each.told_count, each.is_many ? 100u : 1u);
      }
      std::set<uint64_t> refused;
      for (auto const &each : at->requests)
        if (each.is_message && each.posted != status::ok)
          refused.insert(each.number);
      for (uint64_t const number : (at == &a_ ? b_ : a_).came)
        EXPECT_FALSE(refused.contains(number)) << "a message that was refused came";
      std::set<uint64_t> const once{at->came.begin(), at->came.end()};
      EXPECT_EQ(once.size(), at->came.size()) << "a message came twice";
      EXPECT_EQ(at->regions.remove(region_key, 0), status::ok) << "somebody still uses the region";
    }
    if (has_ended)
      return;
    (void)a_.engine->cancel(&last_request_);
    std::set<uint64_t> came{a_.came.begin(), a_.came.end()};
    came.insert(b_.came.begin(), b_.came.end());
    for (endpoint const *const at : {&a_, &b_})
      for (auto const &each : at->requests)
        EXPECT_TRUE(!each.is_message || each.posted != status::ok || came.contains(each.number))
            << "message " << each.number << " is lost";
  }

  sim::world world_{7};
  sim::clock clock_{world_};
  sim::stream_network network_{world_, {.segment_size_max = 9'000, .window_size = 20'000}};
  endpoint a_{}, b_{};
  request last_request_{};
  uint64_t last_ = 0;
};

TEST(out_of_memory, ends_the_endpoint_or_refuses_a_request) {
  for (bool const goes_on : {false, true}) {
    uint64_t after = 0;
    for (; !testing::Test::HasFailure(); after++) {
      SCOPED_TRACE("allocation " + std::to_string(after) +
                   (goes_on ? " and all that follow" : " alone"));
      if (shortage{}.run(after, goes_on) == 0)
        break;
    }
    EXPECT_GT(after, 100u);
  }
}

}  // namespace
}  // namespace tanada::test
