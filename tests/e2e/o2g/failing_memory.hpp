// tests/e2e/o2g/failing_memory.hpp: memory that runs out at a chosen moment, for
// one engine and not for the network under it.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "seams/stream/stream_set.hpp"

namespace tanada::test {

// Of one thread. operator new (memory_test.cc) asks it.
struct failing_memory {
  bool is_armed = false;         // code under test runs
  uint64_t left = ~uint64_t{0};  // allocations that still succeed
  bool goes_on = false;          // all that follow fail, too
  uint64_t failed_count = 0;

  bool fails() noexcept {
    if (!is_armed)
      return false;
    if (left != 0) {
      left--;
      return false;
    }
    if (!goes_on)
      left = ~uint64_t{0};
    failed_count++;
    return true;
  }
};
inline failing_memory memory_of_test;

class [[nodiscard]] armed {
 public:
  explicit armed(bool is = true) : before_{std::exchange(memory_of_test.is_armed, is)} {}
  armed(const armed &) = delete;
  armed &operator=(const armed &) = delete;
  ~armed() {
    memory_of_test.is_armed = before_;
  }

 private:
  bool const before_;
};

// The network has memory, what it calls has not.
class spared_stream_set final : public port::stream_set, port::stream_handler {
 public:
  explicit spared_stream_set(std::unique_ptr<port::stream_set> inner) : inner_{std::move(inner)} {}

  const char *name() const noexcept override {
    return inner_->name();
  }
  void attach(port::stream_handler &handler) override {
    handler_ = &handler;
    inner_->attach(*this);
  }
  result<port::socket_address> listen(const port::socket_address &at) override {
    armed const spared{false};
    return inner_->listen(at);
  }
  result<port::stream_id> connect(const port::socket_address &to, const port::socket_address &from,
                                  uint64_t word) override {
    armed const spared{false};
    return inner_->connect(to, from, word);
  }
  result<port::stream_id> adopt(int socket, uint64_t word) override {
    return inner_->adopt(socket, word);
  }
  result<size_t> send(port::stream_id id, std::span<const iovec> parts) override {
    armed const spared{false};
    return inner_->send(id, parts);
  }
  void close(port::stream_id id) override {
    armed const spared{false};
    inner_->close(id);
  }
  uint64_t unsent_size(port::stream_id id) const override {
    return inner_->unsent_size(id);
  }
  port::socket_address peer(port::stream_id id) const override {
    return inner_->peer(id);
  }
  size_t drive() override {
    armed const spared{false};
    return inner_->drive();
  }
  status wait(uint64_t deadline_ns) override {
    armed const spared{false};
    return inner_->wait(deadline_ns);
  }
  void wake() noexcept override {
    inner_->wake();
  }
  int descriptor() const noexcept override {
    return inner_->descriptor();
  }

 private:
  template <class Call>
  static auto in_it(Call call) {
    armed const under_test;
    return call();
  }

  uint64_t accepted(port::stream_id id) override {
    return in_it([&] { return handler_->accepted(id); });
  }
  void connected(uint64_t word) override {
    in_it([&] { handler_->connected(word); });
  }
  std::span<std::byte> landing(uint64_t word) override {
    return in_it([&] { return handler_->landing(word); });
  }
  void landed(uint64_t word, size_t size) override {
    in_it([&] { handler_->landed(word, size); });
  }
  size_t shown(uint64_t word, std::span<const std::byte> bytes) override {
    return in_it([&] { return handler_->shown(word, bytes); });
  }
  void writable(uint64_t word) override {
    in_it([&] { handler_->writable(word); });
  }
  void ended(uint64_t word, status why) override {
    in_it([&] { handler_->ended(word, why); });
  }

  std::unique_ptr<port::stream_set> const inner_;
  port::stream_handler *handler_ = nullptr;
};

}  // namespace tanada::test
