// The message driver: connections that it reads, and receives that it stores.
#include <tanada/status.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

namespace {

constexpr size_t readable_count_max = 64;
// Bytes read from one connection before the next one is served, and those of one read.
constexpr uint64_t share_size = 1 << 20;
constexpr size_t piece_size = 256 << 10;
// Calls of drive() that may leave out the stream set if the driver reads all connections.
constexpr uint32_t progress_interval = 16;
constexpr uint32_t connection_limit = uint32_t{1} << 31;
static_assert(piece_size <= share_size && direct_size_min <= piece_size);

}  // namespace

// Gives the driver the socket of an established connection, as soon as its next byte is the first
// of an envelope.
void engine_core::attach_to_driver(link &peer_link) noexcept {
  bool const is_at_boundary = peer_link.partial_size == 0 && peer_link.remaining_size == 0;
  if (driver_ == nullptr || peer_link.is_in_driver || peer_link.is_driver_refused ||
      peer_link.current_phase != link::phase::established || !is_at_boundary || is_out_of_memory_)
    return;
  TND_ASSERT(!peer_link.is_self && peer_link.stream != seams::no_stream);
  auto const lent = set_->lend(peer_link.stream);
  if (!lent.ok()) {
    peer_link.is_driver_refused = true;
    return;
  }
  status const code = register_with_driver(peer_link, result<int>{lent}.value());
  if (code == status::ok) {
    TND_ASSERT(direct_link_count_ != 0);
    direct_link_count_--;
    peer_link.is_in_driver = true;
    return;
  }
  peer_link.is_driver_refused = true;
  log_peer_error([&] {
    log(log_level::info,
        "o2g: the driver cannot read the connection to {}, and this process reads it: {}",
        to_text(peers_[peer_link.peer].address),
        tnd_status_text(tnd_status(code)));
  });
  if (set_->reclaim(peer_link.stream) != status::ok)
    drop_link(peer_link, status::no_memory);
}

status engine_core::register_with_driver(link &peer_link, int socket) noexcept try {
  do
    last_driver_connection_ = (last_driver_connection_ + 1) % connection_limit;
  while (driver_links_.contains(last_driver_connection_));
  peer_link.driver_connection = last_driver_connection_;
  driver_links_.emplace(peer_link.driver_connection, &peer_link);
  status const code = driver_->attach(socket, peer_link.driver_connection, peer_link.peer);
  if (code != status::ok)
    driver_links_.erase(peer_link.driver_connection);
  return code;
} catch (const std::bad_alloc &) {
  return status::no_memory;
}

void engine_core::detach_from_driver(link &peer_link) noexcept {
  if (!peer_link.is_in_driver)
    return;
  peer_link.is_in_driver = false;
  driver_links_.erase(peer_link.driver_connection);
  driver_->detach(peer_link.driver_connection);
}

// Appends a tagged receive to the driver's queue. False: there is no memory.
bool engine_core::put_in_driver(receive &receiver) noexcept {
  TND_ASSERT(receiver.tagged && !receiver.is_queued);
  if (driver_ == nullptr)
    return true;
  message_driver::receive_entry entry;
  entry.owner = &receiver;
  entry.pattern = receiver.pattern;
  entry.is_match_only = !receiver.can_driver_store();
  if (receiver.part_count != 0)
    entry.buffer = {static_cast<std::byte *>(receiver.parts[0].iov_base),
                    receiver.parts[0].iov_len};
  try {
    auto const slot = driver_->put(entry);
    if (!slot.ok())
      return false;
    receiver.driver_slot = result<uint32_t>{slot}.value();
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}

// Takes a posted receive back from the driver, so that the engine can receive into it or fail it.
// False: the driver has matched it, so it leaves the queue, and ends by finish_driver_receive().
bool engine_core::claim_posted(receive &receiver) noexcept {
  TND_ASSERT(receiver.is_queued);
  if (receiver.driver_slot == message_driver::no_slot || !receiver.can_driver_store())
    return true;
  if (driver_->cancel(receiver.driver_slot)) {
    receiver.driver_slot = message_driver::no_slot;
    return true;
  }
  tagged_matcher_.remove(receiver);
  return false;
}

// Removes a receive from its queue, and from that of the driver if it only matches there.
void engine_core::remove_posted(receive &receiver) noexcept {
  matcher_for(receiver.tagged).remove(receiver);
  if (receiver.driver_slot == message_driver::no_slot)
    return;
  bool const is_canceled = driver_->cancel(receiver.driver_slot);
  TND_ASSERT(is_canceled && !receiver.can_driver_store());
  receiver.driver_slot = message_driver::no_slot;
}

// Handles what the driver has received, and reads what it has left. Returns the number of events.
size_t engine_core::drive_driver() {
  size_t count = take_driver_completions();
  if (driver_->has_readable())
    count += read_readable();
  return count;
}

size_t engine_core::read_readable() {
  std::array<uint32_t, readable_count_max> connections;
  size_t const connection_count = driver_->readable(connections);
  size_t count = 0;
  for (uint32_t const connection : std::span{connections}.first(connection_count)) {
    auto const item = driver_links_.find(connection);
    if (item != driver_links_.end())
      count += read_from_driver(*item->second);
  }
  return count + take_driver_completions();
}

// Where the next bytes of a large body are to be placed, or nothing.
std::span<std::byte> engine_core::driver_target(link &peer_link) {
  auto const target = receive_target(reinterpret_cast<uint64_t>(&peer_link));
  return target.first(std::min(target.size(), piece_size));
}

// Returns the number of reads.
size_t engine_core::read_from_driver(link &peer_link) {
  auto const word = reinterpret_cast<uint64_t>(&peer_link);
  size_t count = 0;
  for (uint64_t received_size = 0; received_size < share_size && peer_link.is_in_driver;) {
    auto const target = driver_target(peer_link);
    std::array<iovec, 2> const parts{iovec{target.data(), target.size()},
                                     iovec{driver_buffer_.data(), driver_buffer_.size()}};
    auto const read =
        driver_->read(peer_link.driver_connection, std::span{parts}.last(target.empty() ? 1 : 2));
    if (!read.ok() && read.error() == status::again)
      return count;
    size_t const size = read.ok() ? result<size_t>{read}.value() : 0;
    count++;
    if (size == 0) {
      handle_event([&] { drop_link(peer_link, status::peer_lost); });
      return count;
    }
    size_t const placed_size = std::min(size, target.size());
    if (placed_size != 0)
      on_placed(word, placed_size);
    if (size != placed_size)
      on_received(word, std::span{driver_buffer_}.first(size - placed_size));
    received_size += size;
    if (size < target.size() + driver_buffer_.size() || should_stop())
      return count;  // the driver returns the connection again if there is more
  }
  return count;
}

size_t engine_core::take_driver_completions() noexcept {
  if (driver_ == nullptr)
    return 0;
  size_t count = 0;
  for (driver_completion event; driver_->next(event); count++)
    finish_driver_receive(event);
  return count;
}

void engine_core::finish_driver_receive(const driver_completion &event) noexcept {
  auto *const receiver = static_cast<receive *>(event.owner);
  TND_ASSERT(receiver->can_driver_store() && event.source < peers_.size());
  receiver->driver_slot = message_driver::no_slot;
  if (receiver->is_queued)
    tagged_matcher_.remove(*receiver);
  auto const item = driver_links_.find(event.connection);
  if (item != driver_links_.end())
    count_eager(*item->second, wire::o2g::eager_cost(event.size));
  incoming const info{event.tag,
                      event.data,
                      event.size,
                      event.id,
                      std::min(event.size, receiver->capacity),
                      event.flags,
                      event.source,
                      item == driver_links_.end() ? 0 : item->second->serial};
  counters_.received_count++;
  counters_.driver_received_count++;
  auto *const buffer =
      receiver->part_count == 0 ? nullptr : static_cast<std::byte *>(receiver->parts[0].iov_base);
  finish_receive(receiver, info, buffer, event.code);
}

// Whether this drive() may leave out the stream set: only the driver's connections are active.
bool engine_core::may_skip_set() noexcept {
  if (driver_ == nullptr || must_progress_.exchange(false, std::memory_order_relaxed) ||
      handshaking_link_count_ != 0 || direct_link_count_ != 0 || driver_links_.empty() ||
      ++skipped_progress_count_ >= progress_interval) {
    skipped_progress_count_ = 0;
    return false;
  }
  return true;
}

}  // namespace tanada::o2g
