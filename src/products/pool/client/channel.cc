#include "products/pool/client/channel.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <cstring>

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
  text_message in;
  return decode(body, in) == status::ok ? in.text : std::string{};
}

// Returns what of `size` lies behind the parts.
size_t advance(std::vector<iovec> &parts, size_t &first, size_t size) {
  while (size > 0 && first < parts.size()) {
    iovec &part = parts[first];
    size_t const taken = std::min(size, part.iov_len);
    part.iov_base = static_cast<std::byte *>(part.iov_base) + taken;
    part.iov_len -= taken;
    size -= taken;
    if (part.iov_len == 0)
      first++;
  }
  return size;
}

}  // namespace

channel::channel(std::unique_ptr<port::stream> connection) : connection_{std::move(connection)} {
  in_.resize(buffer_size);
}
channel::~channel() = default;

result<std::unique_ptr<channel>> channel::open(std::unique_ptr<port::stream> connection,
                                               const std::string &space, const key *with,
                                               uint64_t deadline_ns) {
  std::unique_ptr<channel> made{new channel{std::move(connection)}};
  status const code = made->shake_hands(space, with, deadline_ns);
  if (code != status::ok)
    return code;
  return made;
}

// One message out, one in.
template <class Message>
status channel::exchange(kind what, const Message &out, frame &head, std::vector<std::byte> &body,
                         uint64_t deadline_ns) {
  queue(frame_of({.what = uint16_t(what), .code = 0}, out), {}, {}, {});
  for (;;) {
    bool moved = false;
    // A daemon that turns a client away says why and closes: what it sent is read also where
    // nothing can be sent any more.
    if (send(moved) != status::ok)
      out_.clear();
    if (in_end_ - in_begin_ >= sizeof(frame)) {
      std::memcpy(&head, in_.data() + in_begin_, sizeof head);
      TND_TRY(frame_check(head));
      if (head.data_size != 0)
        return status::protocol;
      if (in_end_ - in_begin_ >= sizeof head + head.body_size)
        break;
    }
    iovec const part{in_.data() + in_end_, in_.size() - in_end_};
    auto size = connection_->receive({&part, 1});
    if (size.ok())
      in_end_ += size.value();
    else if (size.error() == status::again)
      TND_TRY(connection_->wait(true, !out_.empty(), deadline_ns));
    else
      return size.error();
  }
  auto const *const begin = in_.data() + in_begin_ + sizeof head;
  body.assign(begin, begin + head.body_size);
  in_begin_ += sizeof head + head.body_size;
  return status::ok;
}

status channel::refused(status code, const std::string &reason) const {
  return fail(code, "pool at %s: %s", connection_->peer().c_str(), reason.c_str());
}

// Of a handshake.
status channel::unanswered(status code) const {
  if (code == status::timed_out)
    return refused(code, "no answer within the timeout");
  if (code == status::protocol)
    return refused(status::peer_lost, "it does not answer as a pool");
  return refused(status::peer_lost, "it closed the connection before the handshake was done");
}

result<bytes32> channel::identify(std::unique_ptr<port::stream> &connection, uint64_t deadline_ns) {
  channel asking{std::move(connection)};
  frame head;
  std::vector<std::byte> body;
  identity_reply in;
  status code = asking.exchange(kind::identify, empty_message{}, head, body, deadline_ns);
  if (code != status::ok)
    return asking.unanswered(code);
  if (head.code != 0)
    return asking.refused(status_of(head.code), text_of(body));
  if (kind(head.what) != kind::identify || decode(body, in) != status::ok)
    return asking.unanswered(status::protocol);
  connection = std::move(asking.connection_);
  return in.id;
}

status channel::shake_hands(const std::string &space, const key *with, uint64_t deadline_ns) {
  hello_message hello;
  hello.space = space;
  hello.nonce = random_bytes();
  if (with != nullptr)
    hello.key_id = with->id;
  frame head;
  std::vector<std::byte> body;
  if (status const code = exchange(kind::hello, hello, head, body, deadline_ns); code != status::ok)
    return unanswered(code);
  if (head.code != 0)
    return refused(status_of(head.code), text_of(body));
  challenge_message challenge;
  if (kind(head.what) != kind::challenge || decode(body, challenge) != status::ok)
    return unanswered(status::protocol);
  proof_message mine;
  if (with != nullptr) {
    auto const expected = proof_of(*with, prover::server, hello.nonce, challenge.nonce, space);
    if (!is_equal(challenge.proof, expected)) {
      return refused(status::access, "authentication failed with key \"" + with->id +
                                         "\": the daemon does not have this secret under this id");
    }
    mine.proof = proof_of(*with, prover::client, hello.nonce, challenge.nonce, space);
  }
  if (status const code = exchange(kind::proof, mine, head, body, deadline_ns); code != status::ok)
    return unanswered(code);
  if (head.code != 0)
    return refused(status_of(head.code), text_of(body));
  if (kind(head.what) != kind::welcome || decode(body, terms_) != status::ok)
    return unanswered(status::protocol);
  return status::ok;
}

uint64_t channel::queue(std::vector<std::byte> bytes, std::vector<iovec> sources,
                        std::vector<iovec> targets, reply_taker taker) {
  uint64_t const tag = next_tag_++;
  if (broken_ != status::ok) {
    if (taker)
      taker({broken_});
    return tag;
  }
  out_.push_back({tag, std::move(bytes), std::move(sources)});
  if (taker)
    pending_.emplace(tag, pending{std::move(targets), std::move(taker)});
  return tag;
}

status channel::send(bool &moved) {
  iovec parts[part_count_max];
  while (!out_.empty()) {
    size_t count = 0;
    for (const outgoing &one : out_) {
      if (count == part_count_max)
        break;
      size_t const head = one.frame.size() - one.frame_sent;
      if (head > 0)
        parts[count++] = {const_cast<std::byte *>(one.frame.data()) + one.frame_sent, head};
      for (size_t i = one.part; i < one.parts.size() && count < part_count_max; i++)
        parts[count++] = one.parts[i];
    }
    auto size = connection_->send({parts, count});
    if (!size.ok())
      return size.error() == status::again ? status::ok : size.error();
    moved = true;
    for (size_t rest = size.value(); rest > 0;) {
      outgoing &one = out_.front();
      size_t const head = std::min(rest, one.frame.size() - one.frame_sent);
      one.frame_sent += head;
      rest -= head;
      rest = advance(one.parts, one.part, rest);
      if (one.frame_sent == one.frame.size() && one.part == one.parts.size())
        out_.pop_front();
    }
  }
  return status::ok;
}

status channel::receive(bool &moved) {
  if (in_begin_ == in_end_) {
    in_begin_ = 0;
    in_end_ = 0;
  }
  if (in_begin_ > 0 && in_.size() - in_end_ < in_.size() / 2) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  iovec parts[part_count_max];
  size_t count = 0, wanted = 0;
  for (size_t i = target_; i < targets_.size() && count + 1 < part_count_max && wanted < data_rest_;
       i++) {
    size_t const size = size_t(std::min<uint64_t>(targets_[i].iov_len, data_rest_ - wanted));
    parts[count++] = {targets_[i].iov_base, size};
    wanted += size;
  }
  if (wanted == 0 || wanted == data_rest_)
    parts[count++] = {in_.data() + in_end_, in_.size() - in_end_};
  auto size = connection_->receive({parts, count});
  if (!size.ok())
    return size.error() == status::again ? status::ok : size.error();
  moved = true;
  size_t const to_target = std::min(size.value(), wanted);
  in_end_ += size.value() - to_target;
  take_data(to_target);
  return status::ok;
}

void channel::take_data(size_t size) {
  (void)advance(targets_, target_, size);
  data_rest_ -= size;
}

// Everything that is in the buffer.
status channel::parse() {
  for (;;) {
    size_t const have = in_end_ - in_begin_;
    if (has_head_) {
      size_t const size = size_t(std::min<uint64_t>(have, data_rest_));
      size_t copied = 0;
      for (size_t i = target_; i < targets_.size() && copied < size; i++) {
        size_t const part = std::min(size - copied, targets_[i].iov_len);
        std::memcpy(targets_[i].iov_base, in_.data() + in_begin_ + copied, part);
        copied += part;
      }
      in_begin_ += size;
      take_data(size);
      if (data_rest_ > 0)
        return status::ok;
      complete();
      continue;
    }
    if (have < sizeof(frame))
      return status::ok;
    std::memcpy(&head_, in_.data() + in_begin_, sizeof head_);
    TND_TRY(frame_check(head_));
    if (have - sizeof head_ < head_.body_size)
      return status::ok;
    auto const *const begin = in_.data() + in_begin_ + sizeof head_;
    body_.assign(begin, begin + head_.body_size);
    in_begin_ += sizeof head_ + head_.body_size;
    has_head_ = true;
    data_rest_ = head_.data_size;
    target_ = 0;
    targets_.clear();
    if (auto const found = pending_.find(head_.tag); found != pending_.end())
      targets_ = std::move(found->second.targets);
  }
}

// The daemon refused the request before all of its data was sent. It passes over as many bytes as
// were announced, and the caller's memory is no longer ours to read: zeros are sent in its place.
void channel::release_sources(uint64_t tag) {
  static constexpr std::byte zeros[64 << 10]{};
  auto const is_request = [tag](const outgoing &each) {
    return each.tag == tag;
  };
  auto const request = std::find_if(out_.begin(), out_.end(), is_request);
  if (request == out_.end())
    return;
  std::vector<iovec> rest;
  for (size_t i = request->part; i < request->parts.size(); i++) {
    for (size_t left = request->parts[i].iov_len; left > 0; left -= rest.back().iov_len) {
      rest.push_back({const_cast<std::byte *>(zeros), std::min(left, sizeof zeros)});
    }
  }
  request->parts = std::move(rest);
  request->part = 0;
}

void channel::complete() {
  has_head_ = false;
  targets_.clear();
  auto const found = pending_.find(head_.tag);
  if (found == pending_.end())
    return;
  reply_taker const taker = std::move(found->second.taker);
  pending_.erase(found);
  release_sources(head_.tag);
  status const code = status_of(head_.code);
  if (code != status::ok) {
    std::string text = text_of(body_);
    set_last_message(text.empty() ? tnd_status_text(tnd_status(code)) : std::move(text));
  }
  if (taker)
    taker({code, body_, head_.data_size});
}

status channel::progress(uint64_t deadline_ns) {
  for (;;) {
    if (broken_ != status::ok)
      return broken_;
    bool sent = false, received = false;
    status code = send(sent);
    // The answer to what has just been sent is not there yet.
    if (code == status::ok && (!sent || deadline_ns == 0))
      code = receive(received);
    if (code == status::ok && received)
      code = parse();
    if (code != status::ok) {
      end(code == status::protocol ? status::protocol : status::peer_lost);
      return broken_;
    }
    if (received || deadline_ns == 0 || pending_.empty())
      return status::ok;
    if (port::monotonic_clock().now_ns() >= deadline_ns)
      return status::timed_out;
    TND_TRY(connection_->wait(true, !out_.empty(), deadline_ns));
  }
}

status channel::check() {
  for (bool received = true; received && broken_ == status::ok;) {
    received = false;
    status code = receive(received);
    if (code == status::ok && received)
      code = parse();
    if (code != status::ok)
      end(code == status::protocol ? status::protocol : status::peer_lost);
  }
  return broken_;
}

bool channel::abandon(uint64_t tag) {
  pending_.erase(tag);
  if (has_head_ && head_.tag == tag)
    targets_.clear();
  for (auto at = out_.begin(); at != out_.end(); ++at) {
    if (at->tag != tag || (at->parts.empty() && at->frame_sent > 0))
      continue;
    if (at->frame_sent == 0) {
      out_.erase(at);
      return true;
    }
    // Its beginning is on the way and its memory is no longer ours to send.
    end(status::peer_lost);
    return false;
  }
  return true;
}

void channel::end(status why) {
  if (broken_ != status::ok)
    return;
  broken_ = why;
  out_.clear();
  has_head_ = false;
  targets_.clear();
  auto const unanswered = std::exchange(pending_, {});
  for (auto const &[tag, one] : unanswered)
    if (one.taker)
      one.taker({why});
}

}  // namespace tanada::pool
