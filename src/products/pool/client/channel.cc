// The client's protocol: the handshake, sending requests, and receiving replies.
#include "products/pool/client/channel.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr size_t buffer_size = 128 << 10;
static_assert(buffer_size > sizeof(frame) + body_size_max);
constexpr size_t part_count_max = 64;  // of one send or receive

std::string text_of(std::span<const std::byte> body) {
  text_message message;
  return decode(body, message) == status::ok ? message.text : std::string{};
}

// Returns the part of `size` that is past the end of the parts.
size_t advance(std::vector<iovec> &parts, size_t &first, size_t size) {
  while (size > 0 && first < parts.size()) {
    iovec &part = parts[first];
    size_t const advanced = std::min(size, part.iov_len);
    part.iov_base = static_cast<std::byte *>(part.iov_base) + advanced;
    part.iov_len -= advanced;
    size -= advanced;
    if (part.iov_len == 0)
      first++;
  }
  return size;
}

}  // namespace

channel::channel(std::unique_ptr<seams::stream> connection) : connection_{std::move(connection)} {
  TND_ASSERT(connection_ != nullptr);
  input_.resize(buffer_size);
}
channel::~channel() = default;

result<std::unique_ptr<channel>> channel::open(std::unique_ptr<seams::stream> connection,
                                               const std::string &space, const key *client_key,
                                               uint64_t deadline_ns) {
  std::unique_ptr<channel> created{new channel{std::move(connection)}};
  status const code = created->handshake(space, client_key, deadline_ns);
  if (code != status::ok)
    return code;
  return created;
}

// Sends one message and receives one.
template <class Message>
status channel::exchange(kind message_kind, const Message &request, frame &head,
                         std::vector<std::byte> &body, uint64_t deadline_ns) {
  queue(encode_frame({.kind = uint16_t(message_kind), .code = 0}, request), {}, {}, {});
  TND_TRY(await_frame(head, deadline_ns));
  auto const *const begin = input_.data() + input_begin_ + sizeof head;
  body.assign(begin, begin + head.body_size);
  input_begin_ += sizeof head + head.body_size;
  return status::ok;
}

// Sends what is queued, and receives until the buffer holds a whole frame without data.
status channel::await_frame(frame &head, uint64_t deadline_ns) {
  for (;;) {
    bool moved = false;
    // A daemon that refuses a client sends the reason and closes. So its message is read even when
    // nothing can be sent any more.
    if (send(moved) != status::ok)
      send_queue_.clear();
    if (input_end_ - input_begin_ >= sizeof(frame)) {
      std::memcpy(&head, input_.data() + input_begin_, sizeof head);
      TND_TRY(frame_check(head));
      if (head.data_size != 0)
        return status::protocol;
      if (input_end_ - input_begin_ >= sizeof head + head.body_size)
        return status::ok;
    }
    iovec const part{input_.data() + input_end_, input_.size() - input_end_};
    auto size = connection_->receive({&part, 1});
    if (size.ok())
      input_end_ += size.value();
    else if (size.error() == status::again)
      TND_TRY(connection_->wait(true, !send_queue_.empty(), deadline_ns));
    else
      return size.error();
  }
}

status channel::connection_error(status code, const std::string &reason) const {
  return fail(code, "pool at {}: {}", connection_->peer(), reason);
}

// The error of a handshake that got no reply.
status channel::handshake_error(status code) const {
  if (code == status::timed_out)
    return connection_error(code, "no answer within the timeout");
  if (code == status::protocol)
    return connection_error(status::peer_lost, "the peer does not answer as a pool");
  return connection_error(status::peer_lost,
                          "the peer closed the connection before the handshake was done");
}

// Sends one message, and receives the one that must follow.
template <class Message, class Reply>
status channel::exchange_step(kind message_kind, const Message &request, kind reply_kind,
                              Reply &answer, uint64_t deadline_ns) {
  frame head;
  std::vector<std::byte> body;
  if (status const code = exchange(message_kind, request, head, body, deadline_ns);
      code != status::ok)
    return handshake_error(code);
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

status channel::handshake(const std::string &space, const key *client_key, uint64_t deadline_ns) {
  hello_message hello;
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
                                  "\": the daemon does not have this secret under this id");
    }
    own_proof.proof = proof_of(*client_key, prover::client, hello.nonce, challenge.nonce, space);
  }
  return exchange_step(kind::proof, own_proof, kind::welcome, terms_, deadline_ns);
}

uint64_t channel::queue(std::vector<std::byte> bytes, std::vector<iovec> sources,
                        std::vector<iovec> targets, reply_handler handler) {
  uint64_t const tag = next_tag_++;
  if (end_status_ != status::ok) {
    if (handler)
      handler({end_status_});
    return tag;
  }
  send_queue_.push_back({tag, std::move(bytes), std::move(sources)});
  if (handler)
    pending_.emplace(tag, pending{std::move(targets), std::move(handler)});
  return tag;
}

status channel::send(bool &moved) {
  iovec parts[part_count_max];
  while (!send_queue_.empty()) {
    size_t const count = gather_parts(parts);
    auto size = connection_->send({parts, count});
    if (!size.ok())
      return size.error() == status::again ? status::ok : size.error();
    moved = true;
    consume_sent(size.value());
  }
  return status::ok;
}

// Lists the first bytes of the queue that are not sent yet. Returns the number of parts.
size_t channel::gather_parts(std::span<iovec> parts) const {
  size_t count = 0;
  for (const outgoing &entry : send_queue_) {
    if (count == parts.size())
      break;
    TND_ASSERT(entry.frame_sent <= entry.frame.size() && entry.part <= entry.parts.size());
    size_t const head = entry.frame.size() - entry.frame_sent;
    if (head > 0)
      parts[count++] = {const_cast<std::byte *>(entry.frame.data()) + entry.frame_sent, head};
    for (size_t i = entry.part; i < entry.parts.size() && count < parts.size(); i++)
      parts[count++] = entry.parts[i];
  }
  return count;
}

// Removes bytes that were sent from the queue.
void channel::consume_sent(size_t size) {
  while (size > 0) {
    TND_ASSERT(!send_queue_.empty());
    outgoing &entry = send_queue_.front();
    size_t const head = std::min(size, entry.frame.size() - entry.frame_sent);
    entry.frame_sent += head;
    size -= head;
    size = advance(entry.parts, entry.part, size);
    if (entry.frame_sent == entry.frame.size() && entry.part == entry.parts.size())
      send_queue_.pop_front();
  }
}

// Makes space in the buffer for further bytes.
void channel::compact_input() {
  TND_ASSERT(input_begin_ <= input_end_ && input_end_ <= input_.size());
  if (input_begin_ == input_end_) {
    input_begin_ = 0;
    input_end_ = 0;
  }
  if (input_begin_ > 0 && input_.size() - input_end_ < input_.size() / 2) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
}

status channel::receive(bool &moved) {
  compact_input();
  iovec parts[part_count_max];
  size_t count = 0, wanted = 0;
  for (size_t i = target_; i < targets_.size() && count + 1 < part_count_max && wanted < data_rest_;
       i++) {
    size_t const size = size_t(std::min<uint64_t>(targets_[i].iov_len, data_rest_ - wanted));
    parts[count++] = {targets_[i].iov_base, size};
    wanted += size;
  }
  if (wanted == 0 || wanted == data_rest_)
    parts[count++] = {input_.data() + input_end_, input_.size() - input_end_};
  auto size = connection_->receive({parts, count});
  if (!size.ok())
    return size.error() == status::again ? status::ok : size.error();
  moved = true;
  size_t const to_target = std::min(size.value(), wanted);
  input_end_ += size.value() - to_target;
  take_data(to_target);
  return status::ok;
}

void channel::take_data(size_t size) {
  TND_ASSERT(size <= data_rest_);
  (void)advance(targets_, target_, size);
  data_rest_ -= size;
}

// Parses all bytes in the buffer.
status channel::parse() {
  for (;;) {
    if (!has_head_)
      TND_TRY(parse_head());
    if (!has_head_)
      return status::ok;
    copy_data();
    if (data_rest_ > 0)
      return status::ok;
    complete();
  }
}

// Parses the head and body of the next reply, if they have arrived.
status channel::parse_head() {
  TND_ASSERT(!has_head_ && input_begin_ <= input_end_);
  size_t const available = input_end_ - input_begin_;
  if (available < sizeof(frame))
    return status::ok;
  std::memcpy(&head_, input_.data() + input_begin_, sizeof head_);
  TND_TRY(frame_check(head_));
  if (available - sizeof head_ < head_.body_size)
    return status::ok;
  auto const *const begin = input_.data() + input_begin_ + sizeof head_;
  body_.assign(begin, begin + head_.body_size);
  input_begin_ += sizeof head_ + head_.body_size;
  has_head_ = true;
  data_rest_ = head_.data_size;
  target_ = 0;
  targets_.clear();
  if (auto const it = pending_.find(head_.tag); it != pending_.end())
    targets_ = std::move(it->second.targets);
  return status::ok;
}

// Copies the reply's data, as far as it is in the buffer, to the targets.
void channel::copy_data() {
  TND_ASSERT(has_head_ && input_begin_ <= input_end_);
  size_t const size = size_t(std::min<uint64_t>(input_end_ - input_begin_, data_rest_));
  size_t copied = 0;
  for (size_t i = target_; i < targets_.size() && copied < size; i++) {
    size_t const part = std::min(size - copied, targets_[i].iov_len);
    std::memcpy(targets_[i].iov_base, input_.data() + input_begin_ + copied, part);
    copied += part;
  }
  input_begin_ += size;
  take_data(size);
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
  for (size_t i = request->part; i < request->parts.size(); i++) {
    for (size_t remaining = request->parts[i].iov_len; remaining > 0;
         remaining -= zero_parts.back().iov_len) {
      zero_parts.push_back({const_cast<std::byte *>(zeros), std::min(remaining, sizeof zeros)});
    }
  }
  request->parts = std::move(zero_parts);
  request->part = 0;
}

void channel::complete() {
  TND_ASSERT(has_head_ && data_rest_ == 0);
  has_head_ = false;
  targets_.clear();
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
    if (seams::monotonic_clock().now_ns() >= deadline_ns)
      return status::timed_out;
    TND_TRY(connection_->wait(true, !send_queue_.empty(), deadline_ns));
  }
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
    targets_.clear();
  for (auto it = send_queue_.begin(); it != send_queue_.end(); ++it) {
    if (it->tag != tag || (it->parts.empty() && it->frame_sent > 0))
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
  has_head_ = false;
  targets_.clear();
  auto const unanswered = std::exchange(pending_, {});
  for (auto const &[tag, request] : unanswered)
    if (request.handler)
      request.handler({reason});
}

}  // namespace tanada::pool
