// tests/e2e/o2g/scripted_stream_set.hpp: a stream_set whose other side is a test, which decides
// what arrives, how much is accepted, and when a connection ends. In memory, one thread; things
// happen only in drive().
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "seams/stream/stream_set.hpp"

namespace tanada::test {

class scripted_stream_set final : public seams::stream_set {
 public:
  struct connection {
    uint64_t word = 0;
    bool is_accepted = false;  // created by the test's side; not reported yet
    bool is_connecting = false;
    bool is_ending = false;
    bool wants_room = false;
    std::vector<std::byte> coming, said;  // to and from the endpoint
  };

  const char *name() const noexcept override {
    return "scripted";
  }
  void attach(seams::stream_handler &handler) override {
    handler_ = &handler;
  }
  result<seams::socket_address> listen(const seams::socket_address &at) override {
    seams::socket_address bound = at;
    if (bound.port == 0)
      bound.port = 1;
    return bound;
  }
  result<seams::stream_id> connect(const seams::socket_address &,
                                   const seams::socket_address &,
                                   uint64_t word) override {
    connection &made = all[++last];
    made.word = word;
    made.is_connecting = true;
    return last;
  }
  result<seams::stream_id> adopt(int, uint64_t) override {
    return status::not_supported;
  }
  result<size_t> send(seams::stream_id id, std::span<const iovec> parts) override {
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
  void close(seams::stream_id id) override {
    all.erase(id);
  }
  seams::socket_address peer(seams::stream_id) const override {
    return {};
  }

  size_t progress() override {
    size_t count = 0;
    std::vector<seams::stream_id> ids;
    for (auto const &each : all)
      ids.push_back(each.first);
    for (seams::stream_id const id : ids)
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

  // A peer connects.
  seams::stream_id accept() {
    all[++last].is_accepted = true;
    return last;
  }

  std::map<seams::stream_id, connection> all;
  seams::stream_id last = 0;
  size_t room = ~size_t{0};      // bytes that are still accepted, over all connections
  size_t piece_size = 64 << 10;  // bytes delivered at a time

 private:
  connection *find(seams::stream_id id) {
    auto const found = all.find(id);
    return found == all.end() ? nullptr : &found->second;
  }

  size_t drive(seams::stream_id id) {
    size_t count = 0;
    connection *at = find(id);
    if (at != nullptr && at->is_accepted) {
      at->is_accepted = false;
      uint64_t const word = handler_->on_accepted(id);
      at = find(id);
      if (at != nullptr)
        at->word = word;
      count++;
    }
    if (at != nullptr && at->is_connecting) {
      at->is_connecting = false;
      handler_->on_connected(at->word);
      count++;
    }
    at = find(id);
    if (at != nullptr && at->wants_room && room != 0) {
      at->wants_room = false;
      handler_->on_writable(at->word);
      count++;
    }
    count += deliver(id);
    at = find(id);
    if (at == nullptr || !at->is_ending)
      return count;
    uint64_t const word = at->word;
    all.erase(id);
    handler_->on_closed(word, status::peer_lost);
    return count + 1;
  }

  size_t deliver(seams::stream_id id) {
    size_t count = 0;
    connection *at = find(id);
    std::vector<std::byte> const coming =
        at == nullptr ? std::vector<std::byte>{} : std::exchange(at->coming, {});
    for (std::span<const std::byte> rest{coming}; !rest.empty() && at != nullptr;
         at = find(id), count++) {
      auto const target = handler_->receive_target(at->word);
      size_t size =
          std::min({target.empty() ? piece_size : target.size(), rest.size(), piece_size});
      if (target.empty()) {
        std::vector<std::byte> const piece(
            rest.begin(), rest.begin() + ptrdiff_t(size));  // detects a read past its end
        size = handler_->on_received(at->word, piece);
      } else {
        std::copy_n(rest.begin(), size, target.begin());
        handler_->on_placed(at->word, size);
      }
      rest = rest.subspan(size);
    }
    return count;
  }

  seams::stream_handler *handler_ = nullptr;
};

}  // namespace tanada::test
