// tests/e2e/o2g/scripted_stream_set.hpp: a stream_set whose other side is a test: what comes, how
// much is taken, and when a connection ends. In memory, one thread, nothing happens but in drive().
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "seams/stream/stream_set.hpp"

namespace tanada::test {

class scripted_stream_set final : public port::stream_set {
 public:
  struct connection {
    uint64_t word = 0;
    bool is_accepted = false;  // by the test's side it was made; not told yet
    bool is_connecting = false;
    bool is_ending = false;
    bool wants_room = false;
    std::vector<std::byte> coming, said;  // to and from the endpoint
  };

  const char *name() const noexcept override {
    return "scripted";
  }
  void attach(port::stream_handler &handler) override {
    handler_ = &handler;
  }
  result<port::socket_address> listen(const port::socket_address &at) override {
    port::socket_address bound = at;
    if (bound.port == 0)
      bound.port = 1;
    return bound;
  }
  result<port::stream_id> connect(const port::socket_address &, const port::socket_address &,
                                  uint64_t word) override {
    connection &made = all[++last];
    made.word = word;
    made.is_connecting = true;
    return last;
  }
  result<port::stream_id> adopt(int, uint64_t) override {
    return status::not_supported;
  }
  result<size_t> send(port::stream_id id, std::span<const iovec> parts) override {
    auto const found = all.find(id);
    if (found == all.end())
      return status::peer_lost;
    if (found->second.is_connecting)
      return size_t{0};
    size_t taken = 0;
    for (iovec const &part : parts) {
      size_t const size = std::min(part.iov_len, room);
      auto const *const from = static_cast<const std::byte *>(part.iov_base);
      found->second.said.insert(found->second.said.end(), from, from + size);
      taken += size;
      room -= size;
      found->second.wants_room |= size < part.iov_len;
    }
    return taken;
  }
  void close(port::stream_id id) override {
    all.erase(id);
  }
  port::socket_address peer(port::stream_id) const override {
    return {};
  }

  size_t drive() override {
    size_t count = 0;
    std::vector<port::stream_id> ids;
    for (auto const &each : all)
      ids.push_back(each.first);
    for (port::stream_id const id : ids)
      count += drive(id);
    return count;
  }
  status wait(uint64_t) override {
    return status::timed_out;
  }
  void wake() noexcept override {}
  int descriptor() const noexcept override {
    return -1;
  }

  // Somebody connects.
  port::stream_id accept() {
    all[++last].is_accepted = true;
    return last;
  }

  std::map<port::stream_id, connection> all;
  port::stream_id last = 0;
  size_t room = ~size_t{0};      // bytes that are still taken, of all connections
  size_t piece_size = 64 << 10;  // bytes shown at a time

 private:
  connection *find(port::stream_id id) {
    auto const found = all.find(id);
    return found == all.end() ? nullptr : &found->second;
  }

  size_t drive(port::stream_id id) {
    size_t count = 0;
    connection *at = find(id);
    if (at != nullptr && at->is_accepted) {
      at->is_accepted = false;
      uint64_t const word = handler_->accepted(id);
      at = find(id);
      if (at != nullptr)
        at->word = word;
      count++;
    }
    if (at != nullptr && at->is_connecting) {
      at->is_connecting = false;
      handler_->connected(at->word);
      count++;
    }
    at = find(id);
    if (at != nullptr && at->wants_room && room != 0) {
      at->wants_room = false;
      handler_->writable(at->word);
      count++;
    }
    count += deliver(id);
    at = find(id);
    if (at == nullptr || !at->is_ending)
      return count;
    uint64_t const word = at->word;
    all.erase(id);
    handler_->ended(word, status::peer_lost);
    return count + 1;
  }

  size_t deliver(port::stream_id id) {
    size_t count = 0;
    connection *at = find(id);
    std::vector<std::byte> const coming =
        at == nullptr ? std::vector<std::byte>{} : std::exchange(at->coming, {});
    for (std::span<const std::byte> rest{coming}; !rest.empty() && at != nullptr;
         at = find(id), count++) {
      auto const target = handler_->landing(at->word);
      size_t size =
          std::min({target.empty() ? piece_size : target.size(), rest.size(), piece_size});
      if (target.empty()) {
        std::vector<std::byte> const piece(
            rest.begin(), rest.begin() + ptrdiff_t(size));  // what reads past its end is seen
        size = handler_->shown(at->word, piece);
      } else {
        std::copy_n(rest.begin(), size, target.begin());
        handler_->landed(at->word, size);
      }
      rest = rest.subspan(size);
    }
    return count;
  }

  port::stream_handler *handler_ = nullptr;
};

}  // namespace tanada::test
