// products/pool/client/channel.hpp: frames to a daemon and answers from it, over one stream.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/wire/pool.hpp"
#include "products/pool/address.hpp"
#include "products/pool/auth.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::pool {

// An answer. `body` is gone after the call; `data_size` is what the daemon sent, of which no more
// than the target holds was kept.
struct reply {
  status code = status::ok;
  std::span<const std::byte> body{};
  uint64_t data_size = 0;
};
using reply_taker = std::function<void(const reply &)>;

// Used by one thread at a time.
class channel {
 public:
  // Shake hands over a connected stream. access: one side's proof is wrong, or the namespace is not
  // the key's.
  static result<std::unique_ptr<channel>> open(std::unique_ptr<port::stream> connection,
                                               const std::string &space, const key *with,
                                               uint64_t deadline_ns);
  ~channel();

  // Which daemon is at the other end, before any handshake. The connection stays the caller's.
  static result<wire::pool::bytes32> identify(std::unique_ptr<port::stream> &connection,
                                              uint64_t deadline_ns);

  const wire::pool::welcome_message &terms() const noexcept {
    return terms_;
  }
  const port::stream &connection() const noexcept {
    return *connection_;
  }

  // The next descriptor that came along; the caller's. -1: none.
  int take_descriptor() {
    return connection_->take_descriptor();
  }

  // Queue a request. `sources` follow it as data, `targets` take the data of its answer; both are
  // the caller's until `taker` was called, which happens once: with the answer, or with the status
  // that ended the connection. Without a taker the request is one that has no answer. The tag is
  // for abandon().
  template <class Message>
  uint64_t post(wire::pool::kind what, const Message &message, std::vector<iovec> sources,
                std::vector<iovec> targets, reply_taker taker) {
    uint64_t data_size = 0;
    for (const iovec &one : sources)
      data_size += one.iov_len;
    return queue(
        wire::pool::frame_of(
            {.what = uint16_t(what), .code = 0, .tag = next_tag_, .data_size = data_size}, message),
        std::move(sources), std::move(targets), std::move(taker));
  }

  // Send and receive what can be. With a deadline (absolute, monotonic_clock), wait until something
  // moved. ok, timed_out, or what ended the connection: all takers were called with that.
  status progress(uint64_t deadline_ns);

  // Receive what has come, without waiting. ok: the daemon's end of the connection was open after
  // that; or what ended the connection.
  status check();

  // Nothing is to be sent and nothing is waited for: no memory of the caller's is in use.
  bool is_idle() const {
    return pending_.empty() && out_.empty();
  }

  // Give the request's memory back to the caller, who waits no longer; its taker is not called.
  // False: the connection had to end for that.
  bool abandon(uint64_t tag);

  size_t pending_count() const noexcept {
    return pending_.size();
  }
  bool is_broken() const noexcept {
    return broken_ != status::ok;
  }
  void end(status why);

 private:
  struct outgoing {
    uint64_t tag;
    std::vector<std::byte> frame;
    std::vector<iovec> parts;
    size_t frame_sent = 0, part = 0;
  };
  struct pending {
    std::vector<iovec> targets;
    reply_taker taker;
  };

  explicit channel(std::unique_ptr<port::stream> connection);
  status refused(status code, const std::string &reason) const;
  status unanswered(status code) const;
  status shake_hands(const std::string &space, const key *with, uint64_t deadline_ns);
  template <class Message>
  status exchange(wire::pool::kind what, const Message &out, wire::pool::frame &head,
                  std::vector<std::byte> &body, uint64_t deadline_ns);
  uint64_t queue(std::vector<std::byte> frame, std::vector<iovec> sources,
                 std::vector<iovec> targets, reply_taker taker);
  status send(bool &moved);
  status receive(bool &moved);
  status parse();
  void take_data(size_t size);
  void complete();
  void release_sources(uint64_t tag);

  std::unique_ptr<port::stream> connection_;
  wire::pool::welcome_message terms_;
  status broken_ = status::ok;
  uint64_t next_tag_ = 1;
  std::deque<outgoing> out_;
  std::unordered_map<uint64_t, pending> pending_;

  std::vector<std::byte> in_;
  size_t in_begin_ = 0, in_end_ = 0;
  // The answer whose data is coming.
  bool has_head_ = false;
  wire::pool::frame head_;
  std::vector<std::byte> body_;
  std::vector<iovec> targets_;
  size_t target_ = 0;
  uint64_t data_rest_ = 0;
};

}  // namespace tanada::pool
