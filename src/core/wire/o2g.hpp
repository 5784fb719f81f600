// core/wire/o2g.hpp: what two o2g endpoints say to each other over one TCP connection.
//
// Everything is an envelope and the bytes behind it. The side that connected says hello first, with
// a body; the other answers welcome, with its own, or refuse; then both say what they like. A
// connection carries both directions. All numbers are little-endian and unaligned. One connection
// keeps order: what was said first is handled first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/wire/codec.hpp"
#include "core/wire/status_code.hpp"

namespace tanada::wire::o2g {

inline constexpr uint16_t protocol_version = 2;
inline constexpr uint16_t envelope_mark = 0x326F;  // "o2"
inline constexpr uint64_t message_size_max = uint64_t{1} << 46;
inline constexpr size_t hello_size_max = 512;   // bytes
inline constexpr size_t cookie_size_max = 128;  // bytes

enum class kind : uint8_t {
  hello = 1,  // body: hello_message
  welcome,    // body: hello_message
  refuse,     // body: a text
  message,    // size bytes of a message follow. tag, data; with wants_ack: id
  announce,   // a message of `size` bytes that is to be pulled: tag, data, id. Nothing follows
  pull,    // id: the announced message's; address: the receiver's own number for it; size: how much
           // of it is wanted
  body,    // id: the number that came in pull; `size` bytes follow
  put,     // tag: key; address; data; `size` bytes follow. id with wants_ack
  get,     // tag: key; address; size: what is wanted; id. Nothing follows
  got,     // id; `size` bytes follow
  atomic,  // tag: key; address; type and operation; size bytes of operands follow, for compare the
           // compared ones behind. id with wants_ack, or with fetches
  fetched,  // id; `size` bytes, what was there before
  ack,      // id; data: a status as tnd_status, 0 is ok. Ends a message, put, atomic; and get, pull
            // when they failed
  room,     // data: the largest message, in bytes, that may come without being announced
  bye,      // the sender closes; whatever is still expected of it is lost
  ending,   // the sender's endpoint ends by a fault and closes. data: a status as in ack; for
            // no_space: address: bytes of messages that no receive was posted for, id: how many
            // these are, tag: the limit on the bytes
};
inline constexpr uint8_t kind_last = uint8_t(kind::ending);

// Flags of an envelope.
inline constexpr uint8_t tagged = 1;     // message, announce: it matches by tag
inline constexpr uint8_t has_data = 2;   // `data` is the sender's immediate data
inline constexpr uint8_t wants_ack = 4;  // when it is in the receiver's memory: delivery complete
inline constexpr uint8_t fetches = 8;    // atomic: send what was there
inline constexpr uint8_t can_wait =
    16;  // with wants_ack: nobody waits for the ack, it may go with what is said next
inline constexpr uint8_t flags_all = 31;

struct envelope {
  uint16_t mark = envelope_mark;
  uint8_t what = 0;  // kind
  uint8_t flags = 0;
  uint8_t type = 0;       // atomic: products/o2g/atomic.hpp's data type
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

// protocol: no mark, an unknown kind or flag, a size that its kind cannot have.
status envelope_check(const envelope &head);

// How many bytes follow the envelope.
uint64_t following_size(const envelope &head);

struct hello_message {
  uint16_t version = protocol_version;
  uint16_t port = 0;   // where the sender listens; its IP address is the connection's unless given
  uint8_t family = 0;  // 0: as the connection's; 4; 6
  std::array<uint8_t, 16> bytes{};  // its IP address
  std::array<uint8_t, 16>
      endpoint{};      // random: tells an endpoint from one that had its address before
  uint64_t room = 0;   // as in `room`
  std::string cookie;  // of the job; must be equal
  static bool fields(auto &f, auto &m) {
    return f(m.version) && f(m.port) && f(m.family) && f(m.bytes) && f(m.endpoint) && f(m.room) &&
           f(m.cookie);
  }
};

}  // namespace tanada::wire::o2g
