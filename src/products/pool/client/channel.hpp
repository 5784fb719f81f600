// products/pool/client/channel.hpp: requests to a daemon and replies from it, as frames over one
// stream.
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
#include "products/pool/client/segments.hpp"
#include "products/pool/frame_receiver.hpp"
#include "products/pool/memory_parts.hpp"
#include "seams/clock/clock.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::pool {

// A reply. `body` is valid only during the call. `data_size` is the size that the daemon sent;
// bytes beyond the targets were discarded.
struct reply {
  status code = status::ok;
  std::span<const std::byte> body{};
  uint64_t data_size = 0;
};
using reply_handler = std::function<void(const reply &)>;

// Used by one thread at a time.
class channel {
 public:
  // Carries out the handshake over a connected stream. `reads_backup`: the connection is for reads
  // only, and to any server of a cluster that has a copy of the namespace. `version`: of the
  // protocol, which the peer may not have: `not_supported`. `access`: one side's
  // proof is wrong, or the key does not allow the namespace.
  static result<std::unique_ptr<channel>> open(std::unique_ptr<seams::stream> connection,
                                               const std::string &space,
                                               const key *client_key,
                                               uint64_t deadline_ns,
                                               bool reads_backup = false,
                                               uint32_t version = wire::pool::protocol_version);
  ~channel();

  // Returns the identity of the daemon at the other end, before any handshake. The connection stays
  // the caller's.
  static result<wire::pool::bytes32> identify(std::unique_ptr<seams::stream> &connection,
                                              uint64_t deadline_ns);

  // Of deadlines; monotonic_clock, unless another one is set. It outlives the channel.
  void set_clock(seams::clock &clock) {
    clock_ = &clock;
  }

  // Asks a cluster's server where a namespace is served, before any handshake.
  static result<wire::pool::locate_reply> locate(std::unique_ptr<seams::stream> connection,
                                                 const std::string &space,
                                                 uint64_t deadline_ns);

  // Moves the connection from its UNIX socket to rings in shared memory, before the first request.
  // If the daemon refuses that, the socket stays in use, with `ok`. Otherwise the status that ended
  // the connection.
  status enter_rings(uint64_t deadline_ns);

  const wire::pool::welcome_message &terms() const noexcept {
    return terms_;
  }
  // Of the protocol.
  uint32_t version() const noexcept {
    return version_;
  }
  const seams::stream &connection() const noexcept {
    return *connection_;
  }

  // The next descriptor that was received; the caller owns it. -1: none.
  int take_descriptor() {
    int const early = early_descriptor_.release();
    return early >= 0 ? early : connection_->take_descriptor();
  }

  // Queues a request. `sources` follow it as data, and `targets` receive the data of its reply.
  // Both stay in use until `handler` was called. That happens exactly once: with the reply, or with
  // the status that ended the connection. A request without a handler has no reply. The tag is for
  // abandon().
  template <class Message>
  uint64_t post(wire::pool::kind message_kind,
                const Message &message,
                std::vector<iovec> sources,
                std::vector<iovec> targets,
                reply_handler handler) {
    uint64_t data_size = 0;
    for (const iovec &source : sources)
      data_size += source.iov_len;
    return queue(
        wire::pool::encode_frame(
            {.kind = uint16_t(message_kind), .code = 0, .tag = next_tag_, .data_size = data_size},
            message),
        std::move(sources),
        std::move(targets),
        std::move(handler));
  }

  // Sends and receives as much as possible. With a deadline (absolute, of its clock), waits for
  // a reply or other received bytes. Returns `ok`, `timed_out`, or the status that ended the
  // connection. In the last case all handlers were called with it.
  status progress(uint64_t deadline_ns);

  // Sends as much as possible, without waiting or receiving.
  void flush();

  // Receives the bytes that have arrived, without waiting. `ok`: the daemon's end of the connection
  // was open after that. Otherwise the status that ended the connection.
  status check();

  // Nothing is queued to be sent, and no reply is outstanding: no memory of the caller is in use.
  bool is_idle() const {
    return pending_.empty() && send_queue_.empty();
  }

  // Ends the use of the request's memory for a caller that has stopped waiting. Its handler is not
  // called. False: the connection had to be ended for that.
  bool abandon(uint64_t tag);

  size_t pending_count() const noexcept {
    return pending_.size();
  }
  bool is_broken() const noexcept {
    return end_status_ != status::ok;
  }
  void end(status reason);

 private:
  struct outgoing {
    uint64_t tag;
    std::vector<std::byte> frame;
    part_cursor data;
    size_t frame_sent = 0;
  };
  struct pending {
    std::vector<iovec> targets;
    reply_handler handler;
  };

  explicit channel(std::unique_ptr<seams::stream> connection);
  status connection_error(status code, const std::string &reason) const;
  status handshake_error(status code) const;
  status handshake(const std::string &space,
                   const key *client_key,
                   uint64_t deadline_ns,
                   uint32_t version);
  template <class Message, class Reply>
  status exchange_step(wire::pool::kind message_kind,
                       const Message &request,
                       wire::pool::kind reply_kind,
                       Reply &answer,
                       uint64_t deadline_ns);
  uint64_t queue(std::vector<std::byte> frame,
                 std::vector<iovec> sources,
                 std::vector<iovec> targets,
                 reply_handler handler);
  status send(bool &moved);
  part_list gather_parts() const;
  void consume_sent(size_t size);
  status receive(bool &moved);
  status parse();
  status begin_reply();
  result<received_frame> await_frame(uint64_t deadline_ns);
  status adopt_rings(const descriptor &file);
  void complete();
  void release_sources(uint64_t tag);

  std::unique_ptr<seams::stream> connection_;
  descriptor early_descriptor_;  // of the welcome, received before those of `connection_`
  wire::pool::welcome_message terms_;
  uint32_t version_ = wire::pool::protocol_version;
  seams::clock *clock_ = &seams::monotonic_clock();
  status end_status_ = status::ok;
  uint64_t next_tag_ = 1;
  std::deque<outgoing> send_queue_;
  std::unordered_map<uint64_t, pending> pending_;

  frame_receiver input_;
  // The reply whose data is being received.
  bool has_head_ = false;
  wire::pool::frame head_;
  std::vector<std::byte> body_;
};

}  // namespace tanada::pool
