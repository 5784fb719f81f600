// examples/common/whole_file.hpp: reads and writes whole files of any store from host memory,
// through a kernel of one block.
#pragma once

#include <string>
#include <vector>

#include "outcome.hpp"

namespace examples {

static TND_KERNEL void store_whole_file(device_url url,
                                        const unsigned char *bytes,
                                        tanada::u64 size,
                                        int *outcome) {
  tanada::this_block const all;
  int fd = -1;
  int const flags = tanada::g_wronly | tanada::g_creat | tanada::g_trunc;
  if (!succeeded(tanada::gopen(all, url.text, flags, &fd), outcome))
    return;
  succeeded(tanada::gwrite(all, fd, bytes, 0, size), size, outcome);
  succeeded(tanada::gclose(all, fd), outcome);
}

// `size` in: capacity of `bytes`; out: bytes of the file. Nothing is read if the file does not fit.
static TND_KERNEL void load_whole_file(device_url url,
                                       unsigned char *bytes,
                                       tanada::u64 *size,
                                       int *outcome) {
  tanada::this_block const all;
  tanada::u64 const room = *size;
  int fd = -1;
  if (!succeeded(tanada::gopen(all, url.text, tanada::g_rdonly, &fd), outcome))
    return;
  tanada::gstat_result const found = tanada::gfstat(all, fd);
  if (succeeded(found.status, outcome) && found.size <= room)
    succeeded(tanada::gread(all, fd, bytes, 0, found.size), found.size, outcome);
  succeeded(tanada::gclose(all, fd), outcome);
  if (all.rank() == 0)
    *size = found.size;
}

/// Creates or replaces the file of `url`. Throws std::runtime_error.
template <class T>
void write_file(const std::string &url, const std::vector<T> &content) {
  kernel_outcome outcome;
  device_array<T> const bytes(content);
  tanada::simt::launch({1},
                       {io_block_size},
                       store_whole_file,
                       device_url(url),
                       reinterpret_cast<const unsigned char *>(bytes.data()),
                       tanada::u64(bytes.size()),
                       outcome.code());
  outcome.await("write " + url);
}

/// Throws std::runtime_error.
template <class T>
std::vector<T> read_file(const std::string &url) {
  kernel_outcome outcome;
  device_array<T> content;
  device_array<tanada::u64> size(1);
  for (;;) {
    tanada::u64 const room = content.size();
    copy_to_device(size.data(), &room, sizeof room);
    tanada::simt::launch({1},
                         {io_block_size},
                         load_whole_file,
                         device_url(url),
                         reinterpret_cast<unsigned char *>(content.data()),
                         size.data(),
                         outcome.code());
    outcome.await("read " + url);
    tanada::u64 const found = size.to_host()[0];
    if (found == room)
      return content.to_host();
    if (found % sizeof(T) != 0)
      throw std::runtime_error(url + " holds no whole number of elements");
    content = device_array<T>(found / sizeof(T));
  }
}

}  // namespace examples
