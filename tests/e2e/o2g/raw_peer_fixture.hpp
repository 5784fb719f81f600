// tests/e2e/o2g/raw_peer_fixture.hpp: an endpoint between a valid and an invalid peer. Its own
// thread drives it, so that tests can wait for the invalid one.
#pragma once

#include <mutex>
#include <vector>

#include "e2e/o2g/raw_peer.hpp"
#include "products/o2g/engine_fixture.hpp"

namespace tanada::test {

class locked_completions final : public o2g::completion_sink {
 public:
  void complete(const o2g::completion &what) override {
    std::lock_guard const lock{mutex_};
    all_.push_back(what);
  }
  size_t count() const {
    std::lock_guard const lock{mutex_};
    return all_.size();
  }
  o2g::completion at(size_t index) const {
    std::lock_guard const lock{mutex_};
    return index < all_.size() ? all_[index] : o2g::completion{.code = status::no_entry};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<o2g::completion> all_;
};

struct raw_peer_test : testing::Test {
  static constexpr uint64_t region_key = 3, region_size = 1 << 16, guard_size = 4096;

  struct endpoint : o2g::loopback_endpoint<locked_completions> {
    explicit endpoint(o2g::engine_options options, const seams::stream_set_options &with = {})
        : loopback_endpoint{quick(std::move(options)), with} {}
    seams::socket_address address() const {
      return speaker->address();
    }

   private:
    static o2g::engine_options quick(o2g::engine_options options) {
      options.tick_ns = 100'000;
      return options;
    }
  };

  template <class Condition>
  static bool soon(Condition is, uint64_t limit_ns = 5'000'000'000) {
    auto &clock = seams::monotonic_clock();
    for (uint64_t const end_ns = clock.now_ns() + limit_ns; !is(); clock.sleep_ns(500'000))
      if (clock.now_ns() > end_ns)
        return false;
    return true;
  }

  void make(const o2g::engine_options &options) {
    attacked = std::make_unique<endpoint>(options);
    offer();
    good = std::make_unique<endpoint>(o2g::engine_options{.cookie = options.cookie});
  }
  void SetUp() override {
    make({});
  }

  void offer() {
    auto *const addr = reinterpret_cast<std::byte *>(region.data() + guard_size);
    ASSERT_EQ(attacked->memory.add(
                  region_key, addr, region_size, 0, {.remote_read = true, .remote_write = true}),
              status::ok);
  }

  // Another connection works, nothing is kept, nothing was written outside permitted memory, and no
  // operation uses the region.
  void TearDown() override {
    if (attacked == nullptr)
      return;
    peer.close();
    EXPECT_TRUE(soon([&] { return attacked->speaker->statistics().connection_count <= 1; }));
    std::string const sent(100'000, 's');
    std::string came(sent.size(), ' ');
    size_t const before = attacked->done.count(), sent_before = good->done.count();
    iovec into{came.data(), came.size()}, from{const_cast<char *>(sent.data()), sent.size()};
    peer_of_good =
        result<o2g::peer_index>{attacked->speaker->register_peer(good->address())}.value();
    ASSERT_EQ(attacked->speaker->post_receive(
                  {.parts = {&into, 1}, .pattern = {77, 0, peer_of_good}, .tagged = true}),
              status::ok);
    o2g::peer_index const to =
        result<o2g::peer_index>{good->speaker->register_peer(attacked->address())}.value();
    ASSERT_EQ(
        good->speaker->post_send({.target = to, .parts = {&from, 1}, .tag = 77, .tagged = true}),
        status::ok);
    EXPECT_TRUE(
        soon([&] { return attacked->done.count() > before && good->done.count() > sent_before; }));
    EXPECT_EQ(came, sent);
    EXPECT_EQ(attacked->speaker->statistics().unexpected_size, kept_size);
    (void)attacked->memory.add(region_key, nullptr, 0, 0, {});
    EXPECT_EQ(attacked->memory.remove(region_key, raw_soon()), status::ok);
    std::string const guard(guard_size, 'g');
    EXPECT_EQ(region.substr(0, guard_size), guard);
    EXPECT_EQ(region.substr(guard_size + region_size), guard);
  }
  static uint64_t raw_soon() {
    return seams::monotonic_clock().now_ns() + 2'000'000'000;
  }

  // The peer's bytes end its connection.
  void refuses() {
    EXPECT_TRUE(peer.is_closed());
  }

  o2g::peer_index peer_index() {
    return result<o2g::peer_index>{attacked->speaker->register_peer(peer.address)}.value();
  }
  status post_receive(std::string &into, uint64_t tag, o2g::peer_index from = o2g::any_peer) {
    iovec const part{into.data(), into.size()};
    return attacked->speaker->post_receive(
        {.parts = {&part, 1}, .pattern = {tag, 0, from}, .tagged = true});
  }
  status post_send(std::string &from, bool delivered) {
    iovec const part{from.data(), from.size()};
    return attacked->speaker->post_send({.target = peer_index(),
                                         .parts = {&part, 1},
                                         .tagged = true,
                                         .delivery_complete = delivered});
  }
  // The next completion; no_entry: none arrives soon.
  status next_code() {
    size_t const index = seen++;
    (void)soon([&] { return attacked->done.count() > index; });
    return attacked->done.at(index).code;
  }

  std::string region =
      std::string(guard_size, 'g') + std::string(region_size, 'r') + std::string(guard_size, 'g');
  std::unique_ptr<endpoint> attacked, good;
  raw_peer peer;
  o2g::peer_index peer_of_good = 0;
  size_t seen = 0;
  uint64_t kept_size = 0;  // bytes that the test itself leaves in the unexpected buffer
};

inline envelope message_head(uint64_t size, uint64_t tag, uint8_t flags = 0) {
  envelope head = head_of(kind::message, size);
  head.flags = uint8_t(wire::o2g::tagged | flags);
  head.tag = tag;
  return head;
}

inline envelope numbered(kind what, uint64_t id, uint64_t size = 0) {
  envelope head = head_of(what, size);
  head.id = id;
  return head;
}

// put, get, atomic on the region.
inline envelope at_region(kind what,
                          uint64_t address,
                          uint64_t size,
                          uint64_t key = raw_peer_test::region_key) {
  envelope head = head_of(what, size);
  head.tag = key;
  head.address = address;
  return head;
}

// After a valid handshake.
struct raw_request_test : raw_peer_test {
  void SetUp() override {
    raw_peer_test::SetUp();
    peer.greet(attacked->address());
  }
  // receive_size: as connect() has it.
  void greet_anew(int receive_size = 0) {
    peer.close();
    peer.greet(attacked->address(), receive_size);
  }
  void says(const envelope &head, const std::string &body = {}) {
    (void)peer.send(head, body);
    refuses();
  }
  // The message to be sent is announced, because the peer has granted no credit.
  uint64_t announced(std::string &message, bool delivered) {
    envelope head;
    EXPECT_EQ(post_send(message, delivered), status::ok);
    EXPECT_TRUE(peer.receive(head));
    EXPECT_EQ(head.kind, uint8_t(kind::announce));
    EXPECT_EQ(head.size, message.size());
    return head.id;
  }
  // The endpoint has pulled an announced message of the peer. Returns its request number.
  uint64_t pulled(std::string &into, uint64_t size) {
    EXPECT_EQ(post_receive(into, 7), status::ok);
    envelope head = message_head(size, 7);
    head.kind = uint8_t(kind::announce);
    head.id = 99;
    EXPECT_TRUE(peer.send(head));
    EXPECT_TRUE(peer.receive(head));
    EXPECT_EQ(head.kind, uint8_t(kind::pull));
    EXPECT_EQ(head.id, 99u);
    EXPECT_EQ(head.size, into.size());
    return head.address;
  }
};

}  // namespace tanada::test
