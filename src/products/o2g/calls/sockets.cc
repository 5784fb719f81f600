// products/o2g/calls/sockets.cc: turns the bytes of sockets into messages in entries.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/calls/receiver.hpp"

namespace tanada::o2g::calls {

static_assert(std::endian::native == std::endian::little,
              "the header is copied from the wire without conversion");

namespace {

// The address of the next byte of the message.
std::byte *write_position(queue_entry &entry) {
  return static_cast<std::byte *>(entry.data) + entry.received_size;
}

bool is_valid(const message_header &head, int32_t rank) {
  return head.magic == O2G_MAGIC && head.source == rank && head.tag >= 0 &&
         head.size <= O2G_MESSAGE_SIZE_MAX && head.reserved == 0;
}

}  // namespace

match_key key_of(const message_header &head) {
  return {uint64_t{head.context} << 32 | uint32_t(head.tag), peer_index(head.source)};
}

match_pattern pattern_of(const queue_entry &entry) {
  bool const any_tag = entry.tag == O2G_ANY_TAG;
  uint64_t const tag = any_tag ? 0 : uint32_t(entry.tag);
  peer_index const source = entry.source == O2G_ANY_SOURCE ? any_peer : peer_index(entry.source);
  return {uint64_t{entry.context} << 32 | tag, any_tag ? 0xFFFFFFFFu : 0, source};
}

// Other threads read the flags without the lock. The release store orders the rest of the entry
// before them.
void set_flags(queue_entry &entry, uint32_t add, uint32_t remove) {
  std::atomic_ref flags{entry.flags};
  flags.store((flags.load(std::memory_order_relaxed) | add) & ~remove, std::memory_order_release);
}

std::span<std::byte> receiver::receive_target(uint64_t word) {
  mutex_.assert_held();
  TND_ASSERT(word < connections_.size());
  connection &sender = connections_[word];
  if (sender.phase != stage::body || sender.remaining_size == 0)
    return {};
  return {write_position(*sender.entry), size_t(sender.remaining_size)};
}

void receiver::on_placed(uint64_t word, size_t size) {
  mutex_.assert_held();
  TND_ASSERT(word < connections_.size());
  connection &sender = connections_[word];
  TND_ASSERT(sender.phase == stage::body && size <= sender.remaining_size);
  sender.remaining_size -= size;
  sender.entry->received_size += size;
  advance(sender);
}

size_t receiver::on_received(uint64_t word, std::span<const std::byte> bytes) {
  mutex_.assert_held();
  consume(connections_[word], bytes);
  return bytes.size();
}

void receiver::on_closed(uint64_t word, status reason) {
  mutex_.assert_held();
  end(connections_[word], reason);
}

void receiver::consume(connection &sender, std::span<const std::byte> bytes) {
  TND_ASSERT(mutex_.is_held());
  while (!bytes.empty()) {
    size_t taken_size = 0;
    if (sender.phase == stage::head) {
      taken_size = std::min(bytes.size(), sizeof sender.head - sender.head_size);
      std::memcpy(
          reinterpret_cast<std::byte *>(&sender.head) + sender.head_size, bytes.data(), taken_size);
      sender.head_size += taken_size;
      if (sender.head_size == sizeof sender.head && !begin_message(sender)) {
        bytes = bytes.subspan(taken_size);
        if (sender.phase == stage::blocked)
          sender.backlog.assign(bytes.begin(), bytes.end());
        return;
      }
    } else if (sender.remaining_size != 0) {
      taken_size = size_t(std::min<uint64_t>(bytes.size(), sender.remaining_size));
      std::memcpy(write_position(*sender.entry), bytes.data(), taken_size);
      sender.remaining_size -= taken_size;
      sender.entry->received_size += taken_size;
      advance(sender);
    } else {
      taken_size = size_t(std::min<uint64_t>(bytes.size(), sender.discard_size));
      sender.discard_size -= taken_size;
      advance(sender);
    }
    bytes = bytes.subspan(taken_size);
  }
}

bool receiver::begin_message(connection &sender) {
  TND_ASSERT(mutex_.is_held());
  message_header const &head = sender.head;
  if (!is_valid(head, sender.rank)) {
    log(log_level::error,
        "o2g: protocol error: rank {} sent an invalid header (magic {:08x}, source {}, tag {}, "
        "size {} bytes); closing its connection",
        sender.rank,
        head.magic,
        head.source,
        head.tag,
        head.size);
    set_->close(sender.id);
    end(sender, status::protocol);
    return false;
  }
  if (posted_entry *const posted = queues_.find_posted(key_of(head)); posted != nullptr) {
    queues_.remove(*posted);
    receive_into(sender, *reinterpret_cast<expected *>(posted)->entry);
    return true;
  }
  if (receive_unexpected(sender))
    return true;
  sender.phase = stage::blocked;
  blocked_.push_back(uint32_t(&sender - connections_.data()));
  status const paused = set_->pause(sender.id);
  TND_ASSERT(paused == status::ok);
  return false;
}

// Begin to receive the body into `entry`, which has left the queue or is in the dump area.
void receiver::receive_into(connection &sender, queue_entry &entry) {
  TND_ASSERT(mutex_.is_held());
  entry.source = sender.head.source;
  entry.tag = sender.head.tag;
  entry.message_size = sender.head.size;
  entry.received_size = 0;
  sender.remaining_size = std::min(sender.head.size, entry.size);
  sender.discard_size = sender.head.size - sender.remaining_size;
  sender.entry = &entry;
  sender.phase = stage::body;
  set_flags(entry, O2G_MATCHED, O2G_QUEUED);
  advance(sender);
}

bool receiver::receive_unexpected(connection &sender) {
  TND_ASSERT(mutex_.is_held());
  uint64_t const size = sizeof(unexpected) + sender.head.size;
  void *const memory = unexpected_buffer_ == nullptr ? nullptr : unexpected_buffer_->allocate(size);
  if (memory == nullptr)
    return false;
  auto *const message = new (memory) unexpected;
  message->node.key = key_of(sender.head);
  message->entry.struct_size = sizeof message->entry;
  message->entry.flags = O2G_UNEXPECTED;
  message->entry.context = sender.head.context;
  message->entry.data = message + 1;
  message->entry.size = sender.head.size;
  message->entry.sequence = sequence_.load(std::memory_order_relaxed) + 1;
  message->entry.reserved[0] = reinterpret_cast<uintptr_t>(message);
  message->node.number = message->entry.sequence;
  o2g_match_append(&unexpected_, &message->all_link);
  unexpected_count_++;
  queues_.add(message->node);
  sequence_.store(message->entry.sequence, std::memory_order_release);
  receive_into(sender, message->entry);
  return true;
}

// Completes the message once all of it has been received.
void receiver::advance(connection &sender) {
  TND_ASSERT(sender.phase == stage::body && sender.entry != nullptr);
  if (sender.remaining_size != 0 || sender.discard_size != 0)
    return;
  sender.phase = stage::head;
  sender.head_size = 0;
  received_count_++;
  bool const is_truncated = sender.entry->received_size < sender.entry->message_size;
  complete_entry(*sender.entry, O2G_RECEIVED | (is_truncated ? uint32_t(O2G_TRUNCATED) : 0));
  sender.entry = nullptr;
}

void receiver::end(connection &sender, status reason) {
  TND_ASSERT(mutex_.is_held());
  bool const is_idle = sender.phase == stage::head && sender.head_size == 0;
  if (!is_idle && reason != status::protocol)
    log(log_level::error,
        "o2g: the connection to rank {} ended in the middle of a message",
        sender.rank);
  queue_entry *const failed_entry = sender.phase == stage::body ? sender.entry : nullptr;
  sender.phase = stage::ended;
  sender.code = reason == status::protocol ? reason : status::peer_lost;
  sender.entry = nullptr;
  TND_ASSERT(open_count_ != 0);
  open_count_--;
  event_count_++;
  if (failed_entry != nullptr) {
    failed_entry->status = tnd_status(sender.code);
    complete_entry(*failed_entry, O2G_FAILED);
  }
  queues_.find_posted_if([&](posted_entry &node) {
    mutex_.assert_held();
    if (node.pattern.source != peer_index(sender.rank))
      return false;
    queue_entry &entry = *reinterpret_cast<expected &>(node).entry;
    queues_.remove(node);
    entry.status = tnd_status(sender.code);
    set_flags(entry, 0, O2G_QUEUED);
    complete_entry(entry, O2G_FAILED);
    return false;
  });
}

// The blocked message now has memory: continue with the bytes read after its header.
void receiver::unblock(connection &sender) {
  std::erase(blocked_, uint32_t(&sender - connections_.data()));
  std::vector<std::byte> const rest = std::exchange(sender.backlog, {});
  consume(sender, rest);
  if (sender.phase == stage::blocked || sender.phase == stage::ended)
    return;
  status const code = set_->resume(sender.id);
  if (code == status::ok)
    return;
  set_->close(sender.id);
  end(sender, code);
}

// Match blocked messages first: they are older than any message still to be received.
bool receiver::unblock_for(expected &posted) {
  for (uint32_t const index : blocked_) {
    connection &sender = connections_[index];
    if (!matches(posted.node.pattern, key_of(sender.head)))
      continue;
    receive_into(sender, *posted.entry);
    unblock(sender);
    return true;
  }
  return false;
}

void receiver::unblock_fitting() {
  TND_ASSERT(mutex_.is_held());
  auto const candidates = blocked_;
  for (uint32_t const index : candidates) {
    connection &sender = connections_[index];
    if (sender.phase == stage::blocked && receive_unexpected(sender))
      unblock(sender);
  }
}

}  // namespace tanada::o2g::calls
