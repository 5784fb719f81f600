// products/o2g/calls/sockets.cc: bytes of sockets become messages in entries.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/calls/receiver.hpp"

namespace tanada::o2g::seed {

static_assert(std::endian::native == std::endian::little,
              "the header is read as it lies in memory");

namespace {

// Where the next byte of a message goes.
std::byte *end_of(queue_entry &entry) {
  return static_cast<std::byte *>(entry.data) + entry.received_size;
}

bool is_sound(const message_header &head, int32_t rank) {
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

// Others read them without the lock, and then what came before.
void set_flags(queue_entry &entry, uint32_t add, uint32_t remove) {
  std::atomic_ref flags{entry.flags};
  flags.store((flags.load(std::memory_order_relaxed) | add) & ~remove, std::memory_order_release);
}

std::span<std::byte> receiver::landing(uint64_t word) {
  connection &to = connections_[word];
  if (to.at != stage::body || to.landing_size == 0)
    return {};
  return {end_of(*to.into), size_t(to.landing_size)};
}

void receiver::landed(uint64_t word, size_t size) {
  connection &from = connections_[word];
  from.landing_size -= size;
  from.into->received_size += size;
  advance(from);
}

size_t receiver::shown(uint64_t word, std::span<const std::byte> bytes) {
  consume(connections_[word], bytes);
  return bytes.size();
}

void receiver::ended(uint64_t word, status why) {
  end(connections_[word], why);
}

void receiver::consume(connection &from, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t taken = 0;
    if (from.at == stage::head) {
      taken = std::min(bytes.size(), sizeof from.head - from.head_size);
      std::memcpy(reinterpret_cast<std::byte *>(&from.head) + from.head_size, bytes.data(), taken);
      from.head_size += taken;
      if (from.head_size == sizeof from.head && !begin_message(from)) {
        bytes = bytes.subspan(taken);
        if (from.at == stage::blocked)
          from.backlog.assign(bytes.begin(), bytes.end());
        return;
      }
    } else if (from.landing_size != 0) {
      taken = size_t(std::min<uint64_t>(bytes.size(), from.landing_size));
      std::memcpy(end_of(*from.into), bytes.data(), taken);
      from.landing_size -= taken;
      from.into->received_size += taken;
      advance(from);
    } else {
      taken = size_t(std::min<uint64_t>(bytes.size(), from.lost_size));
      from.lost_size -= taken;
      advance(from);
    }
    bytes = bytes.subspan(taken);
  }
}

bool receiver::begin_message(connection &from) {
  message_header const &head = from.head;
  if (!is_sound(head, from.rank)) {
    log(log_level::error,
        "o2g: what comes from rank %d is no message (magic %08x, source %d, tag %d, size %llu "
        "bytes); it is read no more",
        from.rank, head.magic, head.source, head.tag, static_cast<unsigned long long>(head.size));
    set_->close(from.id);
    end(from, status::protocol);
    return false;
  }
  if (posted_entry *const posted = queues_.find_posted(key_of(head)); posted != nullptr) {
    queues_.remove(*posted);
    receive_into(from, *reinterpret_cast<expected *>(posted)->entry);
    return true;
  }
  if (receive_unexpected(from))
    return true;
  from.at = stage::blocked;
  blocked_.push_back(uint32_t(&from - connections_.data()));
  status const paused = set_->pause(from.id);
  TND_ASSERT(paused == status::ok);
  return false;
}

// The entry has left the queue, or lies in the dump area.
void receiver::receive_into(connection &from, queue_entry &entry) {
  entry.source = from.head.source;
  entry.tag = from.head.tag;
  entry.message_size = from.head.size;
  entry.received_size = 0;
  from.landing_size = std::min(from.head.size, entry.size);
  from.lost_size = from.head.size - from.landing_size;
  from.into = &entry;
  from.at = stage::body;
  set_flags(entry, O2G_MATCHED, O2G_QUEUED);
  advance(from);
}

bool receiver::receive_unexpected(connection &from) {
  uint64_t const size = sizeof(unexpected) + from.head.size;
  void *const piece = dump_ == nullptr ? nullptr : dump_->allocate(size);
  if (piece == nullptr)
    return false;
  auto *const made = new (piece) unexpected;
  made->node.key = key_of(from.head);
  made->entry.struct_size = sizeof made->entry;
  made->entry.flags = O2G_UNEXPECTED;
  made->entry.context = from.head.context;
  made->entry.data = made + 1;
  made->entry.size = from.head.size;
  made->entry.sequence = sequence_.load(std::memory_order_relaxed) + 1;
  made->entry.reserved[0] = reinterpret_cast<uintptr_t>(made);
  made->all.put_before(unexpected_);
  unexpected_count_++;
  queues_.add(made->node);
  sequence_.store(made->entry.sequence, std::memory_order_release);
  receive_into(from, made->entry);
  return true;
}

// Ends the message when all of it has come.
void receiver::advance(connection &from) {
  if (from.landing_size != 0 || from.lost_size != 0)
    return;
  from.at = stage::head;
  from.head_size = 0;
  received_count_++;
  bool const is_cut = from.into->received_size < from.into->message_size;
  settle(*from.into, O2G_RECEIVED | (is_cut ? uint32_t(O2G_TRUNCATED) : 0));
  from.into = nullptr;
}

void receiver::end(connection &what, status why) {
  bool const is_between = what.at == stage::head && what.head_size == 0;
  if (!is_between && why != status::protocol)
    log(log_level::error, "o2g: the connection of rank %d ended in the middle of a message",
        what.rank);
  queue_entry *const broken = what.at == stage::body ? what.into : nullptr;
  what.at = stage::ended;
  what.code = why == status::protocol ? why : status::peer_lost;
  what.into = nullptr;
  open_count_--;
  event_count_++;
  if (broken != nullptr) {
    broken->status = tnd_status(what.code);
    settle(*broken, O2G_FAILED);
  }
  queues_.find_posted_if([&](posted_entry &node) {
    if (node.pattern.source != peer_index(what.rank))
      return false;
    queue_entry &entry = *reinterpret_cast<expected &>(node).entry;
    queues_.remove(node);
    entry.status = tnd_status(what.code);
    set_flags(entry, 0, O2G_QUEUED);
    settle(entry, O2G_FAILED);
    return false;
  });
}

// Its message has found its memory: go on with what was read behind its header.
void receiver::unblock(connection &what) {
  std::erase(blocked_, uint32_t(&what - connections_.data()));
  std::vector<std::byte> const rest = std::exchange(what.backlog, {});
  consume(what, rest);
  if (what.at == stage::blocked || what.at == stage::ended)
    return;
  status const code = set_->resume(what.id);
  if (code == status::ok)
    return;
  set_->close(what.id);
  end(what, code);
}

// A message that waits for memory is older than what else may come.
bool receiver::unblock_for(expected &wanted) {
  for (uint32_t const index : blocked_) {
    connection &from = connections_[index];
    if (!matches(wanted.node.pattern, key_of(from.head)))
      continue;
    receive_into(from, *wanted.entry);
    unblock(from);
    return true;
  }
  return false;
}

void receiver::unblock_what_fits() {
  auto const waiting = blocked_;
  for (uint32_t const index : waiting) {
    connection &from = connections_[index];
    if (from.at == stage::blocked && receive_unexpected(from))
      unblock(from);
  }
}

}  // namespace tanada::o2g::seed
