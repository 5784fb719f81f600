// examples/fdtd/field_file.hpp: files written by a kernel of many blocks. One thread creates the
// file, blocks write planes, and one thread publishes it, each in a launch of its own. Blocks must
// not create the file: a late block would truncate what an early one wrote.
#pragma once

#include "../common/outcome.hpp"
#include "grid.hpp"

namespace fdtd {

inline constexpr u32 header_size = 64;  // bytes before the cells in a map of materials

template <class Header>
TND_KERNEL void create_file(examples::device_url url, Header header, int *fd, int *outcome) {
  static_assert(sizeof(Header) % header_size == 0);
  int const flags = tanada::g_wronly | tanada::g_creat | tanada::g_trunc;
  *fd = -1;
  if (!examples::succeeded(tanada::gopen(url.text, flags, fd), outcome))
    return;
  examples::succeeded(tanada::gwrite(*fd, &header, 0, sizeof header), sizeof header, outcome);
}

/// When this has succeeded, everything written is durable in the store.
static TND_KERNEL void publish_file(const int *fd, int *outcome) {
  if (*fd < 0)
    return;  // create_file failed and reported the error
  examples::succeeded(tanada::gfsync(*fd), outcome);
  examples::succeeded(tanada::gclose(*fd), outcome);
}

inline tanada::simt::dim3 io_grid(u32 plane_count) {
  u32 const most = examples::on_gpu ? 128 : 4;
  return {plane_count < most ? plane_count : most, 1, 1};
}

}  // namespace fdtd
