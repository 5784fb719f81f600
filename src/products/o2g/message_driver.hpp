// products/o2g/message_driver.hpp: a receiver outside of the process that the engine gives its
// tagged receives and the sockets of its connections: the module o2g of the kernel.
//
// The driver matches tagged messages to receives when they arrive, in MPI's order, and stores them.
// It leaves every other message of a connection, and a tagged message that no receive matches, to
// the engine, which reads them in the order in which they were sent. A message that waits to be
// read can still match a receive that is put meanwhile.
//
// The engine keeps the same receives in its own queue, in the same order. It matches the tagged
// messages that it reads itself, and removes their receives from the driver by cancel().
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/result.hpp"
#include "products/o2g/match.hpp"

namespace tanada::o2g {

// A receive that the driver has ended.
struct driver_completion {
  void *owner = nullptr;     // as in put()
  status code = status::ok;  // peer_lost; fault: the buffer cannot be written
  uint64_t tag = 0, data = 0, id = 0;
  uint64_t size = 0;           // bytes of the message
  uint64_t received_size = 0;  // bytes stored
  uint8_t flags = 0;           // of the envelope
  peer_index source = any_peer;
  uint32_t connection = 0;  // as in attach()
};

// Thread safety: one thread at a time. arm() may run beside other calls, and descriptor() always.
class message_driver {
 public:
  static constexpr uint32_t no_slot = ~uint32_t{0};

  virtual ~message_driver() = default;  // detaches all sockets; then memory is written no more

  // Begins to read a socket, whose next byte is the first of an envelope. `connection`: a number
  // below 2^31 that no attached socket has.
  virtual status attach(int socket, uint32_t connection, peer_index source) = 0;
  // Ends it. A receive whose message is incomplete fails.
  virtual void detach(uint32_t connection) noexcept = 0;

  struct receive_entry {
    void *owner = nullptr;  // not null
    match_pattern pattern{0, 0, any_peer};
    std::span<std::byte> buffer{};
    bool is_match_only = false;  // a message that matches it is left to the engine
  };
  // Appends a receive and returns the number of its slot, valid until it has ended or is canceled.
  // no_memory.
  virtual result<uint32_t> put(const receive_entry &entry) = 0;
  // False: the receive has matched a message, and next() will return it.
  virtual bool cancel(uint32_t slot) noexcept = 0;
  // Returns the next receive that has ended. False: no other has.
  virtual bool next(driver_completion &done) noexcept = 0;

  // Whether readable() may return something.
  virtual bool has_readable() const noexcept = 0;
  // Stores connections that have bytes for the engine, or have ended, and returns their number.
  virtual size_t readable(std::span<uint32_t> connections) noexcept = 0;
  // Reads what is for the engine: whole envelopes, and bytes of their bodies, into at most two
  // parts. 0: the connection has ended. again: there is nothing; any other status ends the
  // connection.
  virtual result<size_t> read(uint32_t connection, std::span<const iovec> parts) noexcept = 0;

  // From now on the descriptor is readable when next() or readable() would return something. A
  // driver may receive up to `quiet_size` bytes of messages without this, if their senders do not
  // wait for an acknowledgement.
  virtual void arm(uint64_t quiet_size) noexcept = 0;
  virtual int descriptor() const noexcept = 0;
};

// The module o2g. no_device: it cannot be used. too_many_files, no_memory.
result<std::unique_ptr<message_driver>> kernel_driver_create(uint32_t socket_count_max,
                                                             const char *path);

struct message_driver_choice {
  std::unique_ptr<message_driver> driver;  // null: the engine receives
  std::string reason;                      // why, for the log
};

// The driver that `setting` selects: the value of TND_O2G_DRIVER, null or "" for "auto".
result<message_driver_choice> message_driver_create(uint32_t socket_count_max,
                                                    const char *setting,
                                                    const char *path);

}  // namespace tanada::o2g
