// Receiving frames and their data, by daemon and client.
#include "products/pool/frame_receiver.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

constexpr size_t small_buffer_size = sizeof(wire::pool::frame) + small_body_size_max;
constexpr size_t large_buffer_size = 128 << 10;
static_assert(large_buffer_size > sizeof(wire::pool::frame) + wire::pool::body_size_max);

}  // namespace

frame_receiver::frame_receiver(const frame_limits &limits) : buffer_(small_buffer_size) {
  set_limits(limits);
}

void frame_receiver::set_limits(const frame_limits &limits) {
  TND_ASSERT(limits.body_size_max <= wire::pool::body_size_max &&
             limits.data_size_max <= wire::pool::object_size_max);
  limits_ = limits;
}

// Makes space at the end of the buffer.
void frame_receiver::make_space() {
  TND_ASSERT(begin_ <= end_ && end_ <= buffer_.size());
  bool const was_full = end_ == buffer_.size();
  if (begin_ == end_) {
    begin_ = 0;
    end_ = 0;
  }
  if (begin_ > 0 && buffer_.size() - end_ < buffer_.size() / 2) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (was_full && limits_.body_size_max > small_body_size_max)
    buffer_.resize(large_buffer_size);
}

result<frame_receiver::arrival> frame_receiver::receive(seams::stream &connection) {
  make_space();
  part_list list;
  destination_.add_to(list, remaining_data_size_);
  uint64_t const data_size_max = list.size();
  // With several parts left after this list, the next receive continues with them.
  if (data_size_max == 0 || data_size_max == remaining_data_size_)
    list.add(buffer_.data() + end_, buffer_.size() - end_);
  TND_ASSERT(list.size() > 0);
  TND_ASSIGN(size_t const size, connection.receive(list.parts()));
  TND_ASSERT(size > 0 && size <= list.size());
  uint64_t const data_size = std::min<uint64_t>(size, data_size_max);
  (void)destination_.advance(data_size);
  remaining_data_size_ -= data_size;
  end_ += size - data_size;
  return arrival{size, data_size, size < list.size()};
}

result<received_frame> frame_receiver::next() {
  TND_ASSERT(remaining_data_size_ == 0 && begin_ <= end_);
  received_frame frame;
  size_t const available_size = end_ - begin_;
  if (available_size >= sizeof frame.head.magic) {
    std::memcpy(&frame.head.magic, buffer_.data() + begin_, sizeof frame.head.magic);
    if (frame.head.magic != wire::pool::frame_magic)
      return status::protocol;
  }
  if (available_size < sizeof frame.head)
    return status::again;
  std::memcpy(&frame.head, buffer_.data() + begin_, sizeof frame.head);
  TND_TRY(wire::pool::frame_check(frame.head));
  size_t const body_size = frame.head.body_size;
  if (body_size > limits_.body_size_max || frame.head.data_size > limits_.data_size_max)
    return status::protocol;
  if (available_size - sizeof frame.head < body_size)
    return status::again;
  frame.body = {buffer_.data() + begin_ + sizeof frame.head, body_size};
  begin_ += sizeof frame.head + body_size;
  destination_ = {};
  remaining_data_size_ = frame.head.data_size;
  return frame;
}

bool frame_receiver::has_http_response() const noexcept {
  constexpr std::string_view prefix = "HTTP/";
  return end_ - begin_ >= prefix.size() &&
         std::memcmp(buffer_.data() + begin_, prefix.data(), prefix.size()) == 0;
}

void frame_receiver::set_destination(std::vector<iovec> parts) {
  destination_ = part_cursor{std::move(parts)};
}

void frame_receiver::skip_data() {
  destination_ = {};
}

uint64_t frame_receiver::store_data() {
  size_t const size = size_t(std::min<uint64_t>(end_ - begin_, remaining_data_size_));
  size_t const stored_size = destination_.fill({buffer_.data() + begin_, size});
  begin_ += size;
  remaining_data_size_ -= size;
  return stored_size;
}

void frame_receiver::shrink_buffer() {
  TND_ASSERT(is_idle());
  if (buffer_.size() == small_buffer_size)
    return;
  buffer_ = std::vector<std::byte>(small_buffer_size);
  begin_ = 0;
  end_ = 0;
}

}  // namespace tanada::pool
