// Checks of the frames and records that stagers exchange.
#include "onesided/job/staging_wire.hpp"

#include "seams/fabric/fabric.hpp"

namespace tanada::onesided::staging {
namespace {

bool is_inside(uint64_t offset, uint64_t size, uint64_t whole) noexcept {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

status frame_check(std::span<const std::byte> bytes, uint32_t pe_count) noexcept {
  frame_header head;
  if (bytes.size() < sizeof head)
    return status::protocol;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != frame_magic || head.pe >= pe_count || head.size != bytes.size())
    return status::protocol;
  size_t position = sizeof head;
  for (uint32_t i = 0; i < head.count; i++) {
    record entry;
    if (bytes.size() - position < sizeof entry)
      return status::protocol;
    std::memcpy(&entry, bytes.data() + position, sizeof entry);
    if (entry.kind < record_kind::put || entry.kind > record_kind::done)
      return status::protocol;
    if (entry.data_size > bytes.size() || bytes.size() - position < record_size(entry.data_size))
      return status::protocol;
    position += record_size(entry.data_size);
  }
  return position == bytes.size() ? status::ok : status::protocol;
}

namespace {

// Checks only sizes and positions. The active_message_server checks the content.
status active_message_check(const record &record, const limits &limits) noexcept {
  bool const is_fetch =
      record.kind == record_kind::fetch || record.kind == record_kind::fetch_staged;
  if ((record.flags & ~flag_fenced) != 0 || record.size == 0)
    return status::invalid;
  if (is_fetch ? record.data_size == 0
               : record.data_size != (record.kind == record_kind::active_message ? record.size : 0))
    return status::invalid;
  if (record.data_size > limits.data_size_max)
    return status::range;
  if (record.kind == record_kind::fetch)
    return record.size <= 2 * limits.data_size_max ? status::ok : status::range;
  if (record.kind == record_kind::active_message)
    return status::ok;
  if (record.size > limits.slot_size)
    return status::range;
  return record.kind == record_kind::fetch_staged ||
                 is_inside(record.first, record.size, limits.staging_size)
             ? status::ok
             : status::range;
}

uint64_t update_size(const record &record) noexcept {
  return record.element == uint8_t(seams::fabric_element::u32) ? 4 : 8;
}

status update_check(const record &record) noexcept {
  if (record.atomic >= seams::fabric_atomic_count)
    return status::invalid;
  if (record.element != uint8_t(seams::fabric_element::u32) &&
      record.element != uint8_t(seams::fabric_element::u64))
    return status::invalid;
  return record.offset % update_size(record) == 0 ? status::ok : status::fault;
}

// The limits of each kind: its size, and the bytes of the sender at `first`.
bool is_transfer_within(const record &record, const limits &limits) noexcept {
  uint64_t const size = record.size;
  switch (record.kind) {
    case record_kind::put:
      return size <= limits.data_size_max;
    case record_kind::get:
      return size <= 2 * limits.data_size_max;
    case record_kind::get_staged:
      return size <= limits.slot_size;
    case record_kind::put_staged:
      return size <= limits.slot_size && is_inside(record.first, size, limits.staging_size);
    case record_kind::put_direct:
      return size <= limits.direct_size && is_inside(record.first, size, limits.shared_size);
    default:
      return true;
  }
}

}  // namespace

status request_check(const record &record, const limits &limits) noexcept {
  if (is_active_message(record.kind))
    return active_message_check(record, limits);
  bool const has_data = record.kind == record_kind::put;
  if (!is_request(record.kind) || (record.flags & ~(flag_fenced | flag_returns_value)) != 0)
    return status::invalid;
  if (record.data_size != (has_data ? record.size : 0))
    return status::invalid;
  bool const is_update = record.kind == record_kind::update;
  if (is_update) {
    if (status const code = update_check(record); code != status::ok)
      return code;
  }
  uint64_t const size = is_update ? update_size(record) : record.size;
  if (size == 0)
    return status::invalid;
  if (!is_inside(record.offset, size, limits.heap_size))
    return status::range;
  return is_transfer_within(record, limits) ? status::ok : status::range;
}

status ready_check(const record &record, uint64_t size, const limits &limits) noexcept {
  return record.size == size && is_inside(record.first, size, limits.staging_size) ? status::ok
                                                                                   : status::range;
}

uint64_t status_encode(status code) noexcept {
  return uint64_t(uint32_t(int32_t(code)));
}

status status_decode(uint64_t word) noexcept {
  constexpr status known[] = {status::ok,
                              status::io,
                              status::no_memory,
                              status::access,
                              status::fault,
                              status::invalid,
                              status::range,
                              status::timed_out,
                              status::peer_lost,
                              status::device_lost,
                              status::not_supported,
                              status::bad_state};
  for (auto const code : known) {
    if (word == status_encode(code))
      return code;
  }
  return status::protocol;
}

}  // namespace tanada::onesided::staging
