// products/poold/answer.hpp: the one template of session, for the files that hold its parts.
#pragma once

#include "products/poold/session.hpp"

namespace tanada::poold {

template <class Message>
void session::answer(const Message &message, std::vector<iovec> parts, object_ref hold,
                     int descriptor) {
  uint64_t data_size = 0;
  for (const iovec &one : parts)
    data_size += one.iov_len;
  if (data_size > 0)
    count_read(stream_path(), data_size);
  out_.add(wire::pool::frame_of(
               {.what = head_.what, .code = 0, .tag = head_.tag, .data_size = data_size}, message),
           std::move(parts), std::move(hold), descriptor);
}

}  // namespace tanada::poold
