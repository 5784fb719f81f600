// products/o2g/testing/process_driver.hpp: a message_driver in the process, for tests without the
// kernel's module. It reads its sockets whenever the engine looks for events.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"
#include "kernel/o2g/envelope.h"
#include "products/o2g/message_driver.hpp"

namespace tanada::o2g {

class process_driver final : public message_driver {
 public:
  process_driver() : poll_{epoll_create1(EPOLL_CLOEXEC)} {}
  ~process_driver() override {
    while (!connections_.empty())
      detach(connections_.begin()->first);
    for (slot_entry &entry : slots_)
      if (entry.is_queued)
        matcher_.remove(entry);
    close(poll_);
  }

  status attach(int socket, uint32_t connection, peer_index source) override {
    TND_ASSERT(!connections_.contains(connection));
    auto created = std::make_unique<connection_state>();
    created->socket = socket;
    created->number = connection;
    created->source = source;
    epoll_event event{.events = EPOLLIN, .data = {.u32 = connection}};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, socket, &event) != 0)
      return status::no_memory;
    connections_.emplace(connection, std::move(created));
    return status::ok;
  }

  void detach(uint32_t connection) noexcept override {
    auto const found = connections_.find(connection);
    TND_ASSERT(found != connections_.end());
    end(*found->second);
    epoll_ctl(poll_, EPOLL_CTL_DEL, found->second->socket, nullptr);
    connections_.erase(found);
  }

  result<uint32_t> put(const receive_entry &entry) override {
    if (free_slots_.empty()) {
      slots_.emplace_back();
      slots_.back().number = uint32_t(slots_.size() - 1);
      free_slots_.push_back(slots_.back().number);
    }
    slot_entry &slot = slots_[free_slots_.back()];
    free_slots_.pop_back();
    slot.entry = entry;
    slot.pattern = entry.pattern;
    slot.is_matched = false;
    auto *const blocked = static_cast<connection_state *>(blocked_.find_arrived(entry.pattern));
    if (blocked != nullptr) {
      blocked_.remove(*blocked);
      if (entry.is_match_only)
        blocked->current_phase = phase::read;
      else
        begin_body(*blocked, slot, false);
    }
    if (!slot.is_matched)
      matcher_.add(slot);
    return slot.number;
  }

  bool cancel(uint32_t slot) noexcept override {
    slot_entry &entry = slots_[slot];
    if (entry.is_matched)
      return false;
    matcher_.remove(entry);
    free_slots_.push_back(slot);
    return true;
  }

  bool next(driver_completion &done) noexcept override {
    receive_all();
    if (completions_.empty())
      return false;
    done = completions_.front();
    completions_.pop_front();
    return true;
  }

  bool has_readable() const noexcept override {
    return std::ranges::any_of(connections_,
                               [](auto const &item) { return is_readable(*item.second); });
  }

  size_t readable(std::span<uint32_t> connections) noexcept override {
    size_t count = 0;
    for (auto const &[number, state] : connections_)
      if (count < connections.size() && is_readable(*state))
        connections[count++] = number;
    return count;
  }

  result<size_t> read(uint32_t connection, std::span<const iovec> parts) noexcept override {
    auto const found = connections_.find(connection);
    TND_ASSERT(found != connections_.end());
    connection_state &state = *found->second;
    destination target{parts};
    if (state.current_phase == phase::read && state.is_head_read && state.read_size == 0)
      end_frame(state);
    receive(state, &target);
    if (target.stored_size != 0)
      return target.stored_size;
    return state.current_phase == phase::ended ? result<size_t>{size_t{0}}
                                               : result<size_t>{status::again};
  }

  void arm(uint64_t /*quiet_size*/) noexcept override {}
  int descriptor() const noexcept override {
    return poll_;
  }

 private:
  enum class phase { head, body, blocked, read, ended };

  struct slot_entry : posted_entry {
    uint32_t number = 0;
    receive_entry entry{};
    bool is_matched = false;
  };

  struct connection_state : arrived_entry {
    int socket = -1;
    uint32_t number = 0;
    peer_index source = any_peer;
    phase current_phase = phase::head;
    o2g_envelope head{};
    size_t head_size = 0;
    slot_entry *slot = nullptr;
    uint64_t stored_size = 0, remaining_size = 0;  // body
    uint64_t read_size = 0;                        // read
    bool is_head_read = false;
    bool must_wait = false;  // later frames wait until the engine has matched it
  };

  // Memory of read().
  struct destination {
    std::span<const iovec> parts;
    size_t stored_size = 0;

    std::span<std::byte> rest() const {
      size_t skip = stored_size;
      for (iovec const &part : parts) {
        if (skip < part.iov_len)
          return {static_cast<std::byte *>(part.iov_base) + skip, part.iov_len - skip};
        skip -= part.iov_len;
      }
      return {};
    }
    size_t free_size() const {
      size_t size = 0;
      for (iovec const &part : parts)
        size += part.iov_len;
      return size - stored_size;
    }
    void put(const void *bytes, size_t size) {
      auto const *source = static_cast<const std::byte *>(bytes);
      while (size != 0) {
        auto const memory = rest();
        size_t const part = std::min(size, memory.size());
        std::copy_n(source, part, memory.data());
        source += part;
        size -= part;
        stored_size += part;
      }
    }
  };

  static bool is_readable(const connection_state &state) noexcept {
    if (state.current_phase == phase::blocked || state.current_phase == phase::ended)
      return true;
    if (state.current_phase != phase::read)
      return false;
    char byte = 0;
    return !state.is_head_read || state.read_size == 0 ||
           recv(state.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }

  void receive_all() noexcept {
    for (auto const &[number, state] : connections_)
      receive(*state, nullptr);
  }

  void end_frame(connection_state &state) noexcept {
    state.head_size = 0;
    state.current_phase = phase::head;
  }

  void end(connection_state &state) noexcept {
    if (state.is_queued)
      blocked_.remove(state);
    if (state.slot != nullptr)
      complete(state, status::peer_lost);
    state.current_phase = phase::ended;
  }

  void complete(connection_state &state, status code) noexcept {
    driver_completion done;
    done.owner = state.slot->entry.owner;
    done.code = code;
    done.tag = le64_to_cpu(state.head.tag);
    done.data = le64_to_cpu(state.head.data);
    done.id = le64_to_cpu(state.head.id);
    done.size = le64_to_cpu(state.head.size);
    done.received_size = state.stored_size;
    done.flags = state.head.flags;
    done.source = state.source;
    done.connection = state.number;
    completions_.push_back(done);
    free_slots_.push_back(state.slot->number);
    state.slot = nullptr;
  }

  void begin_body(connection_state &state, slot_entry &slot, bool is_posted) noexcept {
    if (is_posted)
      matcher_.remove(slot);
    slot.is_matched = true;
    state.slot = &slot;
    state.stored_size = 0;
    state.remaining_size = le64_to_cpu(state.head.size);
    state.current_phase = phase::body;
    finish_body(state);
  }

  void finish_body(connection_state &state) noexcept {
    if (state.remaining_size != 0)
      return;
    complete(state, status::ok);
    end_frame(state);
  }

  void dispatch(connection_state &state) noexcept {
    bool const is_valid = o2g_envelope_is_valid(&state.head);
    state.is_head_read = false;
    state.read_size = is_valid ? o2g_envelope_following_size(&state.head) : 0;
    state.current_phase = phase::read;
    if (!is_valid || !o2g_envelope_is_message(&state.head))
      return;
    state.key = {le64_to_cpu(state.head.tag), state.source};
    auto *const slot = static_cast<slot_entry *>(matcher_.find_posted(state.key));
    if (slot == nullptr) {
      state.current_phase = phase::blocked;
      blocked_.add(state);
    } else if (!slot->entry.is_match_only) {
      begin_body(state, *slot, true);
    }
  }

  // The receive that left the message to the engine may have been canceled.
  bool match_again(connection_state &state) noexcept {
    state.must_wait =
        state.head.kind == O2G_KIND_ANNOUNCE && (state.head.flags & O2G_ENVELOPE_TAGGED) != 0;
    if (!o2g_envelope_is_valid(&state.head) || !o2g_envelope_is_message(&state.head))
      return false;
    auto *const slot = static_cast<slot_entry *>(matcher_.find_posted(state.key));
    state.must_wait = slot != nullptr;
    if (slot == nullptr || slot->entry.is_match_only)
      return false;
    begin_body(state, *slot, true);
    return true;
  }

  // Copies a waiting envelope. False: there is no space.
  bool read_head(connection_state &state, destination &target) noexcept {
    if (target.free_size() < sizeof state.head)
      return false;
    state.must_wait = false;
    if (state.is_queued)
      blocked_.remove(state);
    else if (match_again(state))
      return true;
    state.current_phase = phase::read;
    target.put(&state.head, sizeof state.head);
    state.is_head_read = true;
    if (state.read_size == 0 && !state.must_wait)
      end_frame(state);
    return true;
  }

  // Receives up to `size` bytes. 0: no byte has arrived, or the connection has ended.
  size_t take(connection_state &state, void *memory, size_t size) noexcept {
    ssize_t const read_result = recv(state.socket, memory, size, MSG_DONTWAIT);
    if (read_result > 0)
      return size_t(read_result);
    if (read_result == 0 || (errno != EAGAIN && errno != EINTR))
      end(state);
    return 0;
  }

  bool receive_body(connection_state &state) noexcept {
    std::array<std::byte, 16384> dropped;
    auto const buffer = state.slot->entry.buffer;
    uint64_t const room = state.stored_size < buffer.size() ? buffer.size() - state.stored_size : 0;
    bool const is_stored = room != 0;
    size_t const size = size_t(
        std::min<uint64_t>(state.remaining_size, is_stored ? room : uint64_t{dropped.size()}));
    size_t const size_read =
        take(state, is_stored ? buffer.data() + state.stored_size : dropped.data(), size);
    if (size_read == 0)
      return false;
    state.stored_size += is_stored ? size_read : 0;
    state.remaining_size -= size_read;
    finish_body(state);
    return true;
  }

  // One step. False: it must wait for bytes, or for the engine.
  bool step(connection_state &state, destination *target) noexcept {
    switch (state.current_phase) {
      case phase::head: {
        size_t const size_read = take(state,
                                      reinterpret_cast<std::byte *>(&state.head) + state.head_size,
                                      sizeof state.head - state.head_size);
        state.head_size += size_read;
        if (state.head_size == sizeof state.head)
          dispatch(state);
        return size_read != 0;
      }
      case phase::body:
        return receive_body(state);
      case phase::blocked:
        return target != nullptr && read_head(state, *target);
      case phase::read: {
        if (target == nullptr)
          return false;
        if (!state.is_head_read)
          return read_head(state, *target);
        auto const memory = target->rest();
        size_t const size = size_t(std::min<uint64_t>(memory.size(), state.read_size));
        size_t const size_read = size == 0 ? 0 : take(state, memory.data(), size);
        target->stored_size += size_read;
        state.read_size -= size_read;
        if (size_read != 0 && state.read_size == 0 && !state.must_wait)
          end_frame(state);
        return size_read != 0;
      }
      case phase::ended:
        return false;
    }
    return false;
  }

  void receive(connection_state &state, destination *target) noexcept {
    while (step(state, target)) {}
  }

  int const poll_;
  std::map<uint32_t, std::unique_ptr<connection_state>> connections_;
  std::deque<slot_entry> slots_;
  std::vector<uint32_t> free_slots_;
  std::deque<driver_completion> completions_;
  matcher matcher_, blocked_;
};

}  // namespace tanada::o2g
