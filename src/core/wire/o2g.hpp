// core/wire/o2g.hpp: the protocol between two o2g endpoints over one TCP connection.
//
// Each message is an envelope and the bytes that follow it. The connecting side sends hello with a
// body first. The other side replies with welcome, which has a body of its own, or with refuse.
// Afterwards both sides send any messages. A connection carries both directions. All numbers are
// little-endian and unaligned. Messages of one connection are handled in the order they were sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/wire/codec.hpp"
#include "core/wire/status_code.hpp"

namespace tanada::wire::o2g {

inline constexpr uint16_t protocol_version = 3;
inline constexpr uint16_t envelope_mark = 0x326F;  // "o2"
inline constexpr uint64_t message_size_max = uint64_t{1} << 46;
inline constexpr size_t hello_size_max = 512;   // bytes
inline constexpr size_t cookie_size_max = 128;  // bytes

enum class kind : uint8_t {
  hello = 1,  // body: hello_message
  welcome,    // body: hello_message
  refuse,     // body: the reason as text
  message,    // an eager message: `size` bytes follow. tag, data; with wants_ack: id
  announce,   // a message of `size` bytes that the receiver pulls: tag, data, id. Nothing follows
  // id: that of the announced message; address: the receiver's id for it; size: bytes requested
  pull,
  body,       // id: the address of the pull; `size` bytes follow
  put,        // tag: region key; address; data; `size` bytes follow. id with wants_ack
  get,        // tag: region key; address; size: bytes requested; id. Nothing follows
  get_reply,  // id; `size` bytes follow
  // tag: region key; address; type, operation; `size` bytes of operands follow, then the compared
  // values of a compare. id with wants_ack or fetches
  atomic,
  fetch_reply,  // id; `size` bytes with the previous values follow
  // id; data: a tnd_status, 0 is ok. Completes a message, put or atomic, and a failed get or pull
  ack,
  credit,   // data: the receiver's new credit, see eager_cost()
  goodbye,  // the sender closes; its outstanding requests are lost
  // the sender's endpoint has failed and closes. data: a status as in ack. With no_space, address:
  // bytes of unexpected messages, id: their number, tag: the limit on the bytes
  failure,
};
inline constexpr uint8_t kind_last = uint8_t(kind::failure);

// A message uses so many bytes of its receiver's credit. A receiver grants each peer credit for
// eager messages, as the number of bytes that all of them since the start of the connection may
// cost. A message without credit is announced.
inline constexpr uint64_t message_overhead = 384;
constexpr uint64_t eager_cost(uint64_t size) {
  return message_overhead + size;
}

// Flags of an envelope.
inline constexpr uint8_t tagged = 1;    // message, announce: matched by tag
inline constexpr uint8_t has_data = 2;  // `data` is immediate data of the sender
// send an ack once the data is in the receiver's memory (delivery complete)
inline constexpr uint8_t wants_ack = 4;
inline constexpr uint8_t fetches = 8;  // atomic: return the previous values
inline constexpr uint8_t can_batch =
    16;  // with wants_ack: no caller waits for the ack, which may be batched with the next send
inline constexpr uint8_t flags_all = 31;

struct envelope {
  uint16_t mark = envelope_mark;
  uint8_t kind = 0;  // kind
  uint8_t flags = 0;
  uint8_t type = 0;       // atomic: a data type of products/o2g/atomic.hpp
  uint8_t operation = 0;  // atomic
  uint16_t reserved = 0;
  uint64_t size = 0;  // bytes
  uint64_t tag = 0;
  uint64_t data = 0;
  uint64_t id = 0;
  uint64_t address = 0;
};
static_assert(sizeof(envelope) == 48 && offsetof(envelope, size) == 8 &&
              offsetof(envelope, address) == 40);

// protocol: the mark is wrong, the kind or a flag is unknown, or the size is invalid for the kind.
status envelope_check(const envelope &head);

// The number of bytes that follow the envelope.
uint64_t following_size(const envelope &head);

struct hello_message {
  uint16_t version = protocol_version;
  // where the sender listens; its IP address is that of the connection unless `bytes` is given
  uint16_t port = 0;
  uint8_t family = 0;               // 0: that of the connection; 4; 6
  std::array<uint8_t, 16> bytes{};  // its IP address
  std::array<uint8_t, 16>
      endpoint{};       // random: distinguishes an endpoint from an earlier one at the same address
  uint64_t credit = 0;  // as in `credit`
  std::string cookie;   // of the job; must be equal on both sides
  static bool fields(auto &f, auto &m) {
    return f(m.version) && f(m.port) && f(m.family) && f(m.bytes) && f(m.endpoint) && f(m.credit) &&
           f(m.cookie);
  }
};

}  // namespace tanada::wire::o2g
