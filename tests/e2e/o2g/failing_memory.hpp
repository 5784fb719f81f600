// tests/e2e/o2g/failing_memory.hpp: makes allocations fail from a chosen moment, for one engine and
// not for the network below it.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "seams/stream/stream_set.hpp"

namespace tanada::test {

// Per thread; operator new (memory_test.cc) checks it.
struct failing_memory {
  bool is_armed = false;         // code under test runs
  uint64_t left = ~uint64_t{0};  // allocations that still succeed
  bool goes_on = false;          // all later ones fail, too
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

// The network has memory; the handlers that it calls do not.
class spared_stream_set final : public seams::stream_set, seams::stream_handler {
 public:
  explicit spared_stream_set(std::unique_ptr<seams::stream_set> inner) : inner_{std::move(inner)} {}

  const char *name() const noexcept override {
    return inner_->name();
  }
  void attach(seams::stream_handler &handler) override {
    handler_ = &handler;
    inner_->attach(*this);
  }
  result<seams::socket_address> listen(const seams::socket_address &at) override {
    armed const spared{false};
    return inner_->listen(at);
  }
  result<seams::stream_id> connect(const seams::socket_address &to,
                                   const seams::socket_address &from,
                                   uint64_t word) override {
    armed const spared{false};
    return inner_->connect(to, from, word);
  }
  result<seams::stream_id> adopt(int socket, uint64_t word) override {
    return inner_->adopt(socket, word);
  }
  result<size_t> send(seams::stream_id id, std::span<const iovec> parts) override {
    armed const spared{false};
    return inner_->send(id, parts);
  }
  void close(seams::stream_id id) override {
    armed const spared{false};
    inner_->close(id);
  }
  uint64_t unsent_size(seams::stream_id id) const override {
    return inner_->unsent_size(id);
  }
  seams::socket_address peer(seams::stream_id id) const override {
    return inner_->peer(id);
  }
  size_t progress() override {
    armed const spared{false};
    return inner_->progress();
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

  uint64_t on_accepted(seams::stream_id id) override {
    return in_it([&] { return handler_->on_accepted(id); });
  }
  void on_connected(uint64_t word) override {
    in_it([&] { handler_->on_connected(word); });
  }
  std::span<std::byte> receive_target(uint64_t word) override {
    return in_it([&] { return handler_->receive_target(word); });
  }
  void on_placed(uint64_t word, size_t size) override {
    in_it([&] { handler_->on_placed(word, size); });
  }
  size_t on_received(uint64_t word, std::span<const std::byte> bytes) override {
    return in_it([&] { return handler_->on_received(word, bytes); });
  }
  void on_writable(uint64_t word) override {
    in_it([&] { handler_->on_writable(word); });
  }
  void on_closed(uint64_t word, status why) override {
    in_it([&] { handler_->on_closed(word, why); });
  }

  std::unique_ptr<seams::stream_set> const inner_;
  seams::stream_handler *handler_ = nullptr;
};

}  // namespace tanada::test
