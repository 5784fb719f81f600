// examples/fdtd/npy.hpp: the format of a snapshot: a NumPy array of one component, format 1.0,
// which any tool reads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace fdtd {

/// The header of numpy.lib.format, version 1.0. Its size is a multiple of a cache line, so that the
/// cells are aligned.
struct npy_header {
  char text[128];
};

/// Of n^3 floats, little endian, x fastest: array[z][y][x].
inline npy_header make_npy_header(unsigned n) {
  npy_header header;
  constexpr int prefix_size = 10, text_size = int(sizeof header) - prefix_size;
  std::memset(header.text, ' ', sizeof header);
  std::memcpy(header.text, "\x93NUMPY\x01\x00", 8);
  header.text[8] = char(text_size & 0xff);
  header.text[9] = char(text_size >> 8);
  char words[text_size];
  int const length =
      std::snprintf(words,
                    sizeof words,
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u, %u), }",
                    n,
                    n,
                    n);
  std::memcpy(header.text + prefix_size, words, std::size_t(length));
  header.text[sizeof header - 1] = '\n';
  return header;
}

/// Bytes of a snapshot.
inline std::uint64_t npy_size(unsigned n) {
  return sizeof(npy_header) + std::uint64_t(n) * n * n * sizeof(float);
}

/// The name of the snapshot after `step` steps; names sort by step.
struct snapshot_name {
  char text[16 + 10];
};
inline snapshot_name make_snapshot_name(unsigned step) {
  snapshot_name name;
  std::snprintf(name.text, sizeof name.text, "ez-%06u.npy", step);
  return name;
}

}  // namespace fdtd
