#include "onesided/job/staging_wire.hpp"

#include "seams/fabric/fabric.hpp"

namespace tanada::pgas::staging {
namespace {

bool is_inside(uint64_t offset, uint64_t size, uint64_t whole) noexcept {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

status frame_check(std::span<const std::byte> bytes, uint32_t pe_count) noexcept {
  frame_head head;
  if (bytes.size() < sizeof head)
    return status::protocol;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != frame_magic || head.pe >= pe_count || head.size != bytes.size())
    return status::protocol;
  size_t at = sizeof head;
  for (uint32_t i = 0; i < head.count; i++) {
    record each;
    if (bytes.size() - at < sizeof each)
      return status::protocol;
    std::memcpy(&each, bytes.data() + at, sizeof each);
    if (each.kind < record_kind::put || each.kind > record_kind::done)
      return status::protocol;
    if (each.data_size > bytes.size() || bytes.size() - at < room_for(each.data_size))
      return status::protocol;
    at += room_for(each.data_size);
  }
  return at == bytes.size() ? status::ok : status::protocol;
}

namespace {

// What it says is the call_server's to check; only how much of it there is, and where, is ours.
status call_check(const record &what, const limits &of) noexcept {
  bool const is_fetch = what.kind == record_kind::fetch || what.kind == record_kind::fetch_staged;
  if ((what.flags & ~flag_fenced) != 0 || what.size == 0)
    return status::invalid;
  if (is_fetch ? what.data_size == 0
               : what.data_size != (what.kind == record_kind::call ? what.size : 0))
    return status::invalid;
  if (what.data_size > of.data_size_max)
    return status::range;
  if (what.kind == record_kind::fetch)
    return what.size <= 2 * of.data_size_max ? status::ok : status::range;
  if (what.kind == record_kind::call)
    return status::ok;
  if (what.size > of.slot_size)
    return status::range;
  return what.kind == record_kind::fetch_staged || is_inside(what.first, what.size, of.area_size)
             ? status::ok
             : status::range;
}

}  // namespace

status request_check(const record &what, const limits &of) noexcept {
  if (is_call(what.kind))
    return call_check(what, of);
  bool const has_data = what.kind == record_kind::put;
  if (!is_request(what.kind) || (what.flags & ~(flag_fenced | flag_wants_value)) != 0)
    return status::invalid;
  if (what.data_size != (has_data ? what.size : 0))
    return status::invalid;
  uint64_t size = what.size;
  if (what.kind == record_kind::update) {
    if (what.atomic >= port::fabric_atomic_count)
      return status::invalid;
    bool const is_small = what.element == uint8_t(port::fabric_element::u32);
    if (!is_small && what.element != uint8_t(port::fabric_element::u64))
      return status::invalid;
    size = is_small ? 4 : 8;
    if (what.offset % size != 0)
      return status::fault;
  }
  if (size == 0)
    return status::invalid;
  if (!is_inside(what.offset, size, of.heap_size))
    return status::range;
  bool const is_staged =
      what.kind == record_kind::put_staged || what.kind == record_kind::get_staged;
  if (is_staged && size > of.slot_size)
    return status::range;
  if (what.kind == record_kind::put && size > of.data_size_max)
    return status::range;
  if (what.kind == record_kind::get && size > 2 * of.data_size_max)
    return status::range;
  if (what.kind == record_kind::put_staged && !is_inside(what.first, size, of.area_size))
    return status::range;
  if (what.kind != record_kind::put_direct)
    return status::ok;
  return size <= of.direct_size && is_inside(what.first, size, of.shared_size) ? status::ok
                                                                               : status::range;
}

status ready_check(const record &what, uint64_t size, const limits &of) noexcept {
  return what.size == size && is_inside(what.first, size, of.area_size) ? status::ok
                                                                        : status::range;
}

uint64_t status_encode(status code) noexcept {
  return uint64_t(uint32_t(int32_t(code)));
}

status status_decode(uint64_t word) noexcept {
  constexpr status known[] = {
      status::ok,        status::io,          status::no_memory,     status::access,
      status::fault,     status::invalid,     status::range,         status::timed_out,
      status::peer_lost, status::device_lost, status::not_supported, status::bad_state};
  for (auto const each : known) {
    if (word == status_encode(each))
      return each;
  }
  return status::protocol;
}

}  // namespace tanada::pgas::staging
