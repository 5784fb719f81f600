// examples/fdtd/material.hpp: the map of materials, a file that kernels write and read.
//
// Layout, little endian: the header, then one byte for each cell, x fastest: an index into the
// header's kinds.
#pragma once

#include <string>

#include "field_file.hpp"

namespace fdtd {

struct material_kind {
  float permittivity, conductivity;  // relative; per cell length
};

struct material_header {
  char magic[8];  // TNDMAT01
  u32 n, kind_count;
  material_kind kinds[6];
};
static_assert(sizeof(material_header) == header_size);

/// A ball of glass in the beam and a lossy wall behind it.
struct scene {
  u32 n;
  float ball_centre[3], ball_radius;
  float wall_low[3], wall_high[3];
};

inline scene make_scene(u32 n) {
  float const size = float(n);
  return {n,
          {0.44f * size, 0.5f * size, 0.5f * size},
          0.135f * size,
          {0.60f * size, 0.70f * size, 0.20f * size},
          {0.74f * size, 0.86f * size, 0.80f * size}};
}

inline material_header make_material_header(u32 n) {
  return {{'T', 'N', 'D', 'M', 'A', 'T', '0', '1'},
          n,
          3,
          {{1, 0}, {2.25f, 0}, {2.0f, 0.12f}, {1, 0}, {1, 0}, {1, 0}}};
}

TND_DEVICE inline u8 material_at(const scene &s, u32 i, u32 j, u32 k) {
  float const at[3] = {float(i) + 0.5f, float(j) + 0.5f, float(k) + 0.5f};
  float square = 0;
  bool in_wall = true;
  for (u32 axis = 0; axis < 3; axis++) {
    float const from_centre = at[axis] - s.ball_centre[axis];
    square += from_centre * from_centre;
    in_wall = in_wall && at[axis] >= s.wall_low[axis] && at[axis] < s.wall_high[axis];
  }
  if (square < s.ball_radius * s.ball_radius)
    return 1;
  return in_wall ? 2 : 0;
}

/// Blocks write planes of the map; `staging` holds one plane for each block.
static TND_KERNEL void write_material(scene s, const int *fd, u8 *staging, int *outcome) {
  tanada::this_block const all;
  u64 const plane_size = u64(s.n) * s.n;
  u8 *const plane = staging + tanada::simt::block_rank() * plane_size;
  if (*fd < 0)
    return;
  for (u32 k = tanada::simt::block_index_x(); k < s.n; k += tanada::simt::grid_size_x()) {
    for (u32 at = all.rank(); at < plane_size; at += all.size())
      plane[at] = material_at(s, at % s.n, at / s.n, k);
    all.sync();
    examples::succeeded(tanada::gwrite(all, *fd, plane, header_size + k * plane_size, plane_size),
                        plane_size,
                        outcome);
    all.sync();
  }
}

TND_DEVICE inline tanada::status check_header(const material_header &header, u32 n) {
  const char *const magic = "TNDMAT01";
  for (u32 i = 0; i < sizeof header.magic; i++)
    if (header.magic[i] != magic[i])
      return tanada::status::corrupt;
  if (header.kind_count == 0 || header.kind_count > 6)
    return tanada::status::corrupt;
  return header.n == n ? tanada::status::ok : tanada::status::range;
}

inline constexpr u32 material_chunk = 8192;  // bytes that a block reads at a time
using material_bytes = u8[material_chunk];

/// Processes one plane: bytes from the file, and from them the coefficients of the update.
TND_DEVICE inline bool read_material_plane(const grid &g,
                                           int fd,
                                           u32 k,
                                           u8 *bytes,
                                           const material_header &header,
                                           u8 *middle,
                                           int *outcome) {
  tanada::this_block const all;
  u64 const plane_size = u64(g.n) * g.n;
  for (u64 from = 0; from < plane_size; from += material_chunk) {
    u64 const size = plane_size - from < material_chunk ? plane_size - from : material_chunk;
    all.sync();
    auto const moved = tanada::gread(all, fd, bytes, header_size + k * plane_size + from, size);
    if (!examples::succeeded(moved, size, outcome))
      return false;
    for (u64 i = all.rank(); i < size; i += all.size()) {
      bool const known = bytes[i] < header.kind_count;
      if (!known)
        (void)examples::succeeded(tanada::status::corrupt, outcome);
      material_kind const kind = header.kinds[known ? bytes[i] : 0];
      float const loss = g.time_step * kind.conductivity / (2 * kind.permittivity);
      u64 const cell = g.cell(0, 0, k) + from + i;
      g.keep[cell] = (1 - loss) / (1 + loss);
      g.gain[cell] = g.time_step / kind.permittivity / (1 + loss);
      if (k == g.n / 2)
        middle[from + i] = bytes[i];
    }
  }
  return true;
}

/// Every block reads its planes of the map with gread; all blocks together read those of the PE.
/// `middle` gets the plane k = n / 2 if this PE has it.
static TND_KERNEL void read_material(grid g, examples::device_url url, u8 *middle, int *outcome) {
  TND_SHARED(material_header, header);
  TND_SHARED(material_bytes, bytes);
  tanada::this_block const all;
  int fd = -1;
  if (!examples::succeeded(tanada::gopen(all, url.text, tanada::g_rdonly, &fd), outcome))
    return;
  bool ok = examples::succeeded(
      tanada::gread(all, fd, &header, 0, sizeof header), sizeof header, outcome);
  ok = ok && examples::succeeded(check_header(header, g.n), outcome);
  for (u32 k = g.first + tanada::simt::block_index_x(); ok && k < g.last;
       k += tanada::simt::grid_size_x())
    ok = read_material_plane(g, fd, k, bytes, header, middle, outcome);
  examples::succeeded(tanada::gclose(all, fd), outcome);
}

/// Writes the map of `s` to `url`. Throws.
inline void make_material(const scene &s,
                          const std::string &url,
                          examples::kernel_outcome &outcome) {
  auto const blocks = io_grid(s.n);
  examples::device_array<int> fd(1);
  examples::device_array<u8> staging(u64(blocks.x) * s.n * s.n);
  tanada::simt::launch({1},
                       {1},
                       create_file<material_header>,
                       examples::device_url(url),
                       make_material_header(s.n),
                       fd.data(),
                       outcome.code());
  tanada::simt::launch(blocks,
                       {examples::io_block_size},
                       write_material,
                       s,
                       fd.data(),
                       staging.data(),
                       outcome.code());
  tanada::simt::launch({1}, {1}, publish_file, fd.data(), outcome.code());
  outcome.await("write the material map " + url);
}

/// Sets the grid's coefficients from the map at `url` and returns its middle plane. Collective.
/// Throws.
inline std::vector<u8> load_material(const grid_storage &storage,
                                     const std::string &url,
                                     examples::kernel_outcome &outcome) {
  grid const &g = storage.view();
  std::vector<u8> plane(u64(g.n) * g.n);
  u8 *const middle = examples::device_symmetric<u8>(plane.size());
  tanada::simt::launch(io_grid(g.last - g.first),
                       {examples::io_block_size},
                       read_material,
                       g,
                       examples::device_url(url),
                       middle,
                       outcome.code());
  outcome.await("read the material map " + url + " for " + std::to_string(g.n) + " cells an axis");
  shmem_barrier_all();
  shmem_getmem(plane.data(), middle, plane.size(), int(storage.parts().owner(g.n / 2)));
  return plane;
}

}  // namespace fdtd
