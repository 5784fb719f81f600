// onesided/job/staging_wire.hpp: what stagers say to one another: frames of records. All of it is
// checked before it is used: these are pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::pgas::staging {

inline constexpr uint32_t frame_magic = 0x32475354;  // "TSG2"
inline constexpr size_t record_alignment = 8;        // bytes

// A message: this, then `count` records, each with its data, which are padded to record_alignment.
struct frame_head {
  uint32_t magic = frame_magic;
  uint32_t pe = 0;     // who says it
  uint32_t size = 0;   // bytes of all
  uint32_t count = 0;  // of records
};
static_assert(sizeof(frame_head) == 16);

// Requests are put to fetch_staged. Each has one reply, but a get and a fetch, whose data come in
// several, and a get_staged and a fetch_staged, whose is `ready` if they are not refused.
enum class record_kind : uint8_t {
  put = 1,       // the data behind it go to `offset`
  put_staged,    // as many bytes of the sender's area, at `first`, go to `offset`
  put_direct,    // as many bytes of the sender's device heap, at `first`, do
  get,           // replies bring the bytes at `offset`
  get_staged,    // the bytes at `offset` are to be brought to the other's area
  update,        // of the word at `offset`; operand `first`, compare `second`
  call,          // the data behind it are for the call_server
  call_staged,   // as many bytes of the sender's area, at `first`, are
  fetch,         // the data behind it are; replies bring the `size` bytes that it has for them
  fetch_staged,  // the same, but they are to be brought to the other's area
  reply,  // to `id`: status `first`, value `second`; of a get or fetch the data from its `offset`
          // on
  ready,  // to `id`: the bytes lie in the sender's area, at `first`, until `done` with `second`
  done,   // with `id` of a ready
};
inline constexpr uint8_t flag_fenced =
    1;  // performed after all puts and updates that this peer has asked for before
inline constexpr uint8_t flag_wants_value = 2;  // of an update

struct record {
  record_kind kind = record_kind::reply;
  uint8_t flags = 0;
  uint8_t atomic = 0, element = 0;  // port::fabric_atomic, fabric_element
  uint32_t data_size = 0;           // bytes that follow
  uint64_t id = 0;                  // of the request, as its sender numbers it
  uint64_t offset = 0;              // bytes into the device heap of who is asked
  uint64_t size = 0;                // bytes
  uint64_t first = 0, second = 0;
};
static_assert(sizeof(record) == 48);

constexpr size_t padded(size_t size) noexcept {
  return (size + record_alignment - 1) / record_alignment * record_alignment;
}
constexpr size_t room_for(size_t data_size) noexcept {
  return sizeof(record) + padded(data_size);
}

constexpr bool is_request(record_kind kind) noexcept {
  return kind >= record_kind::put && kind <= record_kind::fetch_staged;
}
constexpr bool is_call(record_kind kind) noexcept {
  return kind >= record_kind::call && kind <= record_kind::fetch_staged;
}

// ok; protocol for what is no frame, or has records past its end. `pe_count`: of the job.
status frame_check(std::span<const std::byte> bytes, uint32_t pe_count) noexcept;

// The records of a frame that has been checked.
class frame_reader {
 public:
  explicit frame_reader(std::span<const std::byte> frame) noexcept
      : rest_{frame.subspan(sizeof(frame_head))} {
    frame_head head;
    std::memcpy(&head, frame.data(), sizeof head);
    left_ = head.count;
  }
  bool next(record &into, std::span<const std::byte> &data) noexcept {
    if (left_ == 0)
      return false;
    left_--;
    std::memcpy(&into, rest_.data(), sizeof into);
    data = rest_.subspan(sizeof into, into.data_size);
    rest_ = rest_.subspan(room_for(into.data_size));
    return true;
  }

 private:
  std::span<const std::byte> rest_;
  uint32_t left_;
};

struct limits {
  uint64_t heap_size;      // bytes of device memory that may be asked for
  uint64_t area_size;      // bytes of the sender's area
  uint64_t slot_size;      // bytes of one staged piece at most
  uint64_t data_size_max;  // bytes that come with a record; a get or fetch takes two
  uint64_t shared_size;    // bytes of the sender's device heap that may be read; 0: it cannot be
  uint64_t direct_size;    // bytes that are read from there at a time at most
};

// Of a request: ok; range for what is outside of the heap, the area or a slot; fault for a word
// that is not aligned to its size; invalid for anything else that is not so.
status request_check(const record &what, const limits &of) noexcept;

// Of a `ready` to a request for `size` bytes: ok; range.
status ready_check(const record &what, uint64_t size, const limits &of) noexcept;

// Statuses as they travel: what is none becomes protocol.
uint64_t status_encode(status code) noexcept;
status status_decode(uint64_t word) noexcept;

}  // namespace tanada::pgas::staging
