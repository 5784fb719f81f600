// onesided/job/staging_wire.hpp: the frames of records that stagers exchange. They are untrusted
// input. These pure functions check them before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/base/assert.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::onesided::staging {

inline constexpr uint32_t frame_magic = 0x32475354;  // "TSG2"
inline constexpr size_t record_alignment = 8;        // bytes

// A frame begins with this header. `count` records follow, each with its data, which are padded to
// record_alignment.
struct frame_header {
  uint32_t magic = frame_magic;
  uint32_t pe = 0;     // the sender
  uint32_t size = 0;   // bytes of the whole frame
  uint32_t count = 0;  // records
};
static_assert(sizeof(frame_header) == 16 && offsetof(frame_header, pe) == 4);
static_assert(offsetof(frame_header, size) == 8 && offsetof(frame_header, count) == 12);
static_assert(sizeof(frame_header) % record_alignment == 0);

// put to fetch_staged are requests. Each has one reply, except that the data of a get or fetch come
// in several. A get_staged or fetch_staged that is not refused is answered by `ready`.
enum class record_kind : uint8_t {
  put = 1,                // its data go to `offset`
  put_staged,             // `size` bytes of the sender's staging buffer, at `first`, go to `offset`
  put_direct,             // `size` bytes of the sender's device heap, at `first`, go to `offset`
  get,                    // replies carry the bytes at `offset`
  get_staged,             // the receiver announces the bytes at `offset` in its staging buffer
  update,                 // updates the word at `offset`; operand `first`, compare `second`
  active_message,         // its data are for the active_message_server
  active_message_staged,  // `size` bytes of the sender's staging buffer, at `first`, are for it
  fetch,                  // its data are for it; replies carry the `size` bytes that it returns
  fetch_staged,           // as fetch, but the receiver announces the bytes in its staging buffer
  // To `id`: status `first`, value `second`. Of a get or fetch: the data from `offset` on.
  reply,
  // To `id`: the bytes are in the sender's staging buffer at `first`, until `done` with `second`.
  ready,
  done,  // its `id` is the `second` of a ready
};
// Performed after all earlier puts and updates of this peer.
inline constexpr uint8_t flag_fenced = 1;
inline constexpr uint8_t flag_returns_value = 2;  // for an update

struct record {
  record_kind kind = record_kind::reply;
  uint8_t flags = 0;
  uint8_t atomic = 0, element = 0;  // seams::fabric_atomic, fabric_element
  uint32_t data_size = 0;           // bytes that follow
  uint64_t id = 0;                  // of the request, as its sender numbers it
  uint64_t offset = 0;              // bytes into the receiver's device heap
  uint64_t size = 0;                // bytes
  uint64_t first = 0, second = 0;
};
static_assert(sizeof(record) == 48 && sizeof(record) % record_alignment == 0);
static_assert(offsetof(record, element) == 3 && offsetof(record, data_size) == 4);
static_assert(offsetof(record, id) == 8 && offsetof(record, offset) == 16);
static_assert(offsetof(record, size) == 24 && offsetof(record, second) == 40);

constexpr size_t padded_size(size_t size) noexcept {
  return (size + record_alignment - 1) / record_alignment * record_alignment;
}
constexpr size_t record_size(size_t data_size) noexcept {
  return sizeof(record) + padded_size(data_size);
}

constexpr bool is_request(record_kind kind) noexcept {
  return kind >= record_kind::put && kind <= record_kind::fetch_staged;
}
constexpr bool is_active_message(record_kind kind) noexcept {
  return kind >= record_kind::active_message && kind <= record_kind::fetch_staged;
}

// ok; protocol: the bytes are not a frame, or have records past their end. `pe_count`: of the job.
status frame_check(std::span<const std::byte> bytes, uint32_t pe_count) noexcept;

// Reads the records of a frame that frame_check() has accepted.
class frame_reader {
 public:
  explicit frame_reader(std::span<const std::byte> frame) noexcept
      : remaining_bytes_{frame.subspan(sizeof(frame_header))} {
    frame_header head;
    TND_ASSERT(frame.size() >= sizeof head);
    std::memcpy(&head, frame.data(), sizeof head);
    remaining_count_ = head.count;
  }
  bool next(record &entry, std::span<const std::byte> &data) noexcept {
    if (remaining_count_ == 0)
      return false;
    remaining_count_--;
    TND_ASSERT(remaining_bytes_.size() >= sizeof entry);
    std::memcpy(&entry, remaining_bytes_.data(), sizeof entry);
    TND_ASSERT(remaining_bytes_.size() >= record_size(entry.data_size));
    data = remaining_bytes_.subspan(sizeof entry, entry.data_size);
    remaining_bytes_ = remaining_bytes_.subspan(record_size(entry.data_size));
    return true;
  }

 private:
  std::span<const std::byte> remaining_bytes_;
  uint32_t remaining_count_;
};

struct limits {
  uint64_t heap_size;      // bytes of device memory that requests may access
  uint64_t staging_size;   // bytes of the sender's staging buffer
  uint64_t slot_size;      // largest staged transfer, in bytes
  uint64_t data_size_max;  // bytes of a record's data; a get or fetch takes up to two records
  uint64_t shared_size;    // readable bytes of the sender's device heap; 0: it cannot be read
  uint64_t direct_size;    // largest read from there, in bytes
};

// Checks a request. range: outside the heap, the staging buffer or a slot. fault: a word that is
// not aligned to its size. invalid: any other violation.
status request_check(const record &record, const limits &limits) noexcept;

// Checks a `ready` that answers a request for `size` bytes: ok or range.
status ready_check(const record &record, uint64_t size, const limits &limits) noexcept;

// Statuses on the wire. An unknown code becomes protocol.
uint64_t status_encode(status code) noexcept;
status status_decode(uint64_t word) noexcept;

}  // namespace tanada::onesided::staging
