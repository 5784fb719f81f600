// The client's protocol: the handshake, sending requests, and receiving replies.
#include "products/pool/client/channel.hpp"

#include <tanada/status.h>

#include <algorithm>

#include "backends/sockets/ring_stream.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr frame_limits handshake_limits{.data_size_max = 0};
// A reply takes some microseconds while the daemon polls, and some tens if it must wake up.
constexpr uint64_t ring_spin_ns = 50'000;
// A reply over a socket takes about as long as a sleep and a wake-up.
constexpr uint64_t socket_spin_ns = 20'000;

std::string text_of(std::span<const std::byte> body) {
  text_message message;
  return decode(body, message) == status::ok ? message.text : std::string{};
}

}  // namespace

channel::channel(std::unique_ptr<seams::stream> connection)
    : connection_{std::move(connection)}, input_{handshake_limits} {
  TND_ASSERT(connection_ != nullptr);
}
channel::~channel() = default;

result<std::unique_ptr<channel>> channel::open(std::unique_ptr<seams::stream> connection,
                                               const std::string &space,
                                               const key *client_key,
                                               uint64_t deadline_ns,
                                               bool reads_backup,
                                               uint32_t version) {
  std::unique_ptr<channel> created{new channel{std::move(connection)}};
  empty_message answer;
  if (reads_backup)
    TND_TRY(created->exchange_step(
        kind::read_backup, empty_message{}, kind::read_backup, answer, deadline_ns));
  created->version_ = version;
  status const code = created->handshake(space, client_key, deadline_ns, version);
  if (code != status::ok)
    return code;
  return created;
}

// Sends what is queued, and receives until a frame has arrived.
result<received_frame> channel::await_frame(uint64_t deadline_ns) {
  for (;;) {
    bool moved = false;
    // A daemon that refuses a client sends the reason and closes. So its message is read even when
    // nothing can be sent any more.
    if (send(moved) != status::ok)
      send_queue_.clear();
    auto next = input_.next();
    if (next.ok() || next.error() != status::again)
      return next;
    status const code = input_.receive(*connection_).error();
    if (code == status::again)
      TND_TRY(connection_->wait(true, !send_queue_.empty(), deadline_ns));
    else
      TND_TRY(code);
  }
}

status channel::connection_error(status code, const std::string &reason) const {
  return fail(code, "pool at {}: {}", connection_->peer(), reason);
}

// The error of a handshake that got no reply.
status channel::handshake_error(status code) const {
  if (code == status::timed_out)
    return connection_error(code, "no answer within the timeout");
  if (code == status::protocol && input_.has_http_response()) {
    return connection_error(status::peer_lost,
                            "the peer speaks HTTP: is it the port of the web page?");
  }
  if (code == status::protocol)
    return connection_error(status::peer_lost, "the peer does not answer as a pool");
  return connection_error(status::peer_lost,
                          "the peer closed the connection before the handshake was done");
}

// Sends one message, and receives the one that must follow.
template <class Message, class Reply>
status channel::exchange_step(kind message_kind,
                              const Message &request,
                              kind reply_kind,
                              Reply &answer,
                              uint64_t deadline_ns) {
  queue(encode_frame({.kind = uint16_t(message_kind), .code = 0}, request), {}, {}, {});
  auto next = await_frame(deadline_ns);
  if (!next.ok())
    return handshake_error(next.error());
  auto const &[head, body] = next.value();
  // Another server serves the namespace: the client goes there.
  if (status_of(head.code) == status::stale) {
    set_last_message("pool at " + connection_->peer() + ": " + text_of(body));
    return status::stale;
  }
  if (head.code != 0)
    return connection_error(status_of(head.code), text_of(body));
  if (kind(head.kind) != reply_kind || decode(body, answer) != status::ok)
    return handshake_error(status::protocol);
  return status::ok;
}

result<bytes32> channel::identify(std::unique_ptr<seams::stream> &connection,
                                  uint64_t deadline_ns) {
  channel probe{std::move(connection)};
  identity_reply message;
  TND_TRY(
      probe.exchange_step(kind::identify, empty_message{}, kind::identify, message, deadline_ns));
  connection = std::move(probe.connection_);
  return message.id;
}

result<locate_reply> channel::locate(std::unique_ptr<seams::stream> connection,
                                     const std::string &space,
                                     uint64_t deadline_ns) {
  channel probe{std::move(connection)};
  probe.input_.set_limits({});
  locate_reply location;
  TND_TRY(probe.exchange_step(
      kind::locate, locate_request{space}, kind::locate, location, deadline_ns));
  return location;
}

status channel::handshake(const std::string &space,
                          const key *client_key,
                          uint64_t deadline_ns,
                          uint32_t version) {
  hello_message hello;
  hello.version = version;
  hello.namespace_name = space;
  hello.nonce = random_bytes();
  if (client_key != nullptr)
    hello.key_id = client_key->id;
  challenge_message challenge;
  TND_TRY(exchange_step(kind::hello, hello, kind::challenge, challenge, deadline_ns));
  proof_message own_proof;
  if (client_key != nullptr) {
    auto const expected =
        proof_of(*client_key, prover::server, hello.nonce, challenge.nonce, space);
    if (!is_equal(challenge.proof, expected)) {
      return connection_error(status::access,
                              "authentication failed with key \"" + client_key->id +
                                  "\": the daemon does not have this secret under this id, "
                                  "or has no keys");
    }
    own_proof.proof = proof_of(*client_key, prover::client, hello.nonce, challenge.nonce, space);
  }
  TND_TRY(exchange_step(kind::proof, own_proof, kind::welcome, terms_, deadline_ns));
  connection_->set_spin(socket_spin_ns);
  input_.set_limits({});
  return status::ok;
}

status channel::enter_rings(uint64_t deadline_ns) {
  TND_ASSERT(is_idle() && connection_->is_local() && early_descriptor_.get() < 0);
  if (terms_.shares_memory != 0)
    early_descriptor_ = descriptor{connection_->take_descriptor()};
  status code = status::ok;
  bool is_answered = false;
  post(kind::ring, empty_message{}, {}, {}, [&](const reply &received) {
    ring_reply answer;
    code = received.code == status::ok ? decode(received.body, answer) : received.code;
    is_answered = true;
  });
  while (!is_answered) {
    status const progressed = progress(deadline_ns);
    if (progressed != status::ok && !is_answered) {
      end(progressed);
      return progressed;
    }
  }
  if (end_status_ != status::ok || code != status::ok)
    return end_status_;
  code = adopt_rings(descriptor{connection_->take_descriptor()});
  // The daemon uses the rings from now on.
  if (code != status::ok)
    end(code);
  return end_status_;
}

status channel::adopt_rings(const descriptor &file) {
  auto memory = backends::ring_memory::map(file.get());
  if (!memory.ok())
    return memory.error();
  connection_ = std::make_unique<backends::ring_stream>(
      std::move(connection_),
      std::move(memory).value(),
      backends::ring_settings{.side = backends::ring_side::joiner,
                              .spin_ns = backends::useful_spin_ns(ring_spin_ns),
                              .accepts_descriptors = true,
                              .checks_socket = true});
  return status::ok;
}

uint64_t channel::queue(std::vector<std::byte> bytes,
                        std::vector<iovec> sources,
                        std::vector<iovec> targets,
                        reply_handler handler) {
  uint64_t const tag = next_tag_++;
  if (end_status_ != status::ok) {
    if (handler)
      handler({end_status_});
    return tag;
  }
  send_queue_.push_back({tag, std::move(bytes), part_cursor{std::move(sources)}});
  if (handler)
    pending_.emplace(tag, pending{std::move(targets), std::move(handler)});
  return tag;
}

status channel::send(bool &moved) {
  while (!send_queue_.empty()) {
    auto size = connection_->send(gather_parts().parts());
    if (!size.ok())
      return size.error() == status::again ? status::ok : size.error();
    moved = true;
    consume_sent(size.value());
  }
  return status::ok;
}

// Lists the first bytes of the queue that are not sent yet.
part_list channel::gather_parts() const {
  part_list list;
  for (const outgoing &entry : send_queue_) {
    if (list.is_full())
      break;
    TND_ASSERT(entry.frame_sent <= entry.frame.size());
    list.add(const_cast<std::byte *>(entry.frame.data()) + entry.frame_sent,
             entry.frame.size() - entry.frame_sent);
    entry.data.add_to(list);
  }
  return list;
}

// Removes bytes that were sent from the queue.
void channel::consume_sent(size_t size) {
  while (size > 0) {
    TND_ASSERT(!send_queue_.empty());
    outgoing &entry = send_queue_.front();
    size_t const head = std::min(size, entry.frame.size() - entry.frame_sent);
    entry.frame_sent += head;
    size = entry.data.advance(size - head);
    if (entry.frame_sent == entry.frame.size() && entry.data.is_at_end())
      send_queue_.pop_front();
  }
}

status channel::receive(bool &moved) {
  auto const arrival = input_.receive(*connection_);
  moved = arrival.ok();
  return arrival.error() == status::again ? status::ok : arrival.error();
}

// Parses all bytes in the buffer.
status channel::parse() {
  for (;;) {
    status const code = has_head_ ? status::ok : begin_reply();
    if (code != status::ok)
      return code == status::again ? status::ok : code;
    input_.store_data();
    if (input_.remaining_data_size() > 0)
      return status::ok;
    complete();
  }
}

// Takes the head and body of the next reply. again: they have not arrived.
status channel::begin_reply() {
  TND_ASSERT(!has_head_);
  TND_ASSIGN(const received_frame next, input_.next());
  head_ = next.head;
  body_.assign(next.body.begin(), next.body.end());
  has_head_ = true;
  if (auto const it = pending_.find(head_.tag); it != pending_.end())
    input_.set_destination(std::move(it->second.targets));
  return status::ok;
}

// The daemon refused the request before all of its data was sent. It skips as many bytes as were
// announced. The caller's memory must not be read any more, so zeros are sent in its place.
void channel::release_sources(uint64_t tag) {
  static constexpr std::byte zeros[64 << 10]{};
  auto const is_request = [tag](const outgoing &entry) {
    return entry.tag == tag;
  };
  auto const request = std::find_if(send_queue_.begin(), send_queue_.end(), is_request);
  if (request == send_queue_.end())
    return;
  std::vector<iovec> zero_parts;
  for (uint64_t remaining = request->data.remaining_size(); remaining > 0;
       remaining -= zero_parts.back().iov_len) {
    zero_parts.push_back(
        {const_cast<std::byte *>(zeros), std::min<uint64_t>(remaining, sizeof zeros)});
  }
  request->data = part_cursor{std::move(zero_parts)};
}

void channel::complete() {
  TND_ASSERT(has_head_ && input_.remaining_data_size() == 0);
  has_head_ = false;
  auto const it = pending_.find(head_.tag);
  if (it == pending_.end())
    return;
  reply_handler const handler = std::move(it->second.handler);
  pending_.erase(it);
  release_sources(head_.tag);
  status const code = status_of(head_.code);
  if (code != status::ok) {
    std::string text = text_of(body_);
    set_last_message(text.empty() ? tnd_status_text(tnd_status(code)) : std::move(text));
  }
  if (handler)
    handler({code, body_, head_.data_size});
}

status channel::progress(uint64_t deadline_ns) {
  for (;;) {
    if (end_status_ != status::ok)
      return end_status_;
    bool sent = false, received = false;
    status code = send(sent);
    // The reply to the request just sent cannot be there yet.
    if (code == status::ok && (!sent || deadline_ns == 0))
      code = receive(received);
    if (code == status::ok && received)
      code = parse();
    if (code != status::ok) {
      end(code == status::protocol ? status::protocol : status::peer_lost);
      return end_status_;
    }
    if (received || deadline_ns == 0 || pending_.empty())
      return status::ok;
    // A wait for space returns at once while there is some.
    if (!send_queue_.empty() && clock_->now_ns() >= deadline_ns)
      return status::timed_out;
    TND_TRY(connection_->wait(true, !send_queue_.empty(), deadline_ns));
  }
}

void channel::flush() {
  bool sent = false;
  if (end_status_ == status::ok && send(sent) != status::ok)
    end(status::peer_lost);
}

status channel::check() {
  for (bool received = true; received && end_status_ == status::ok;) {
    received = false;
    status code = receive(received);
    if (code == status::ok && received)
      code = parse();
    if (code != status::ok)
      end(code == status::protocol ? status::protocol : status::peer_lost);
  }
  return end_status_;
}

bool channel::abandon(uint64_t tag) {
  pending_.erase(tag);
  if (has_head_ && head_.tag == tag)
    input_.skip_data();
  for (auto it = send_queue_.begin(); it != send_queue_.end(); ++it) {
    if (it->tag != tag || (it->data.part_count() == 0 && it->frame_sent > 0))
      continue;
    if (it->frame_sent == 0) {
      send_queue_.erase(it);
      return true;
    }
    // The first part of the request is sent, and the rest of its memory must not be read any more.
    end(status::peer_lost);
    return false;
  }
  return true;
}

void channel::end(status reason) {
  TND_ASSERT(reason != status::ok);
  if (end_status_ != status::ok)
    return;
  end_status_ = reason;
  send_queue_.clear();
  input_.skip_data();
  auto const unanswered = std::exchange(pending_, {});
  for (auto const &[tag, request] : unanswered)
    if (request.handler)
      request.handler({reason});
}

}  // namespace tanada::pool
