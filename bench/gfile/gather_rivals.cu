#include "gather_rivals.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "pinned.cuh"

namespace bench {

using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

namespace {

constexpr u64 rows_a_piece = 1024;

TND_KERNEL void gather_pinned(
    const u8 *pages, const u64 *rows, u64 count, u64 row_size, u8 *target) {
  tanada::this_warp const warp{};
  u64 const warps = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count() /
                    tanada::simt::warp_size;
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  for (u64 i = me; i < count; i += warps)
    tanada::simt::copy_from_host(
        warp, target + me * row_size, pages + rows[i] * row_size, row_size);
}

}  // namespace

gather_source::gather_source(const std::string &path, uint64_t size) : size_(size) {
  int const fd = open(path.c_str(), O_RDONLY);
  pages_ = fd < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (fd >= 0)
    close(fd);
  if (pages_ == MAP_FAILED)
    throw std::runtime_error("cannot map " + path);
  register_pages(pages_, size);
}

gather_source::~gather_source() {
  unregister_pages(pages_);
  munmap(pages_, size_);
}

double gather_by_uva(const gather_source &source, const gathered &what) {
  u32 const blocks = examples::on_gpu ? 132 * 4 : 4, threads = examples::on_gpu ? 512 : 32;
  examples::device_array<u64> const rows(what.rows);
  examples::device_array<u8> target(u64(blocks) * threads / 32 * what.row_size);
  std::vector<double> times;
  for (int i = 0; i < 3; i++) {
    double const start = now_s();
    tanada::simt::launch(dim3(blocks),
                         dim3(threads),
                         gather_pinned,
                         static_cast<const u8 *>(source.pages()),
                         rows.data(),
                         u64(what.rows.size()),
                         u64(what.row_size),
                         target.data());
    examples::device_wait();
    times.push_back(now_s() - start);
  }
  return median(times);
}

double gather_by_threads(const gather_source &source, const gathered &what, unsigned threads) {
  u64 const piece = rows_a_piece * what.row_size;
  if (piece > piece_size)
    throw std::runtime_error("the rows are too large");
  auto const *const pages = static_cast<const u8 *>(source.pages());
  examples::device_array<u8> target(u64(threads) * 2 * piece);
  std::atomic<u64> next{0};
  std::atomic<u32> started{0};
  double const start = run_together(threads, [&](auto &wait_for_start) {
    two_pieces pieces;
    u8 *const mine = target.data() + started++ * 2 * piece;
    wait_for_start();
    for (unsigned turn = 0;; turn ^= 1) {
      u64 const begin = next.fetch_add(rows_a_piece);
      if (begin >= what.rows.size())
        break;
      u64 const count = std::min<u64>(rows_a_piece, what.rows.size() - begin);
      auto *const buffer = static_cast<u8 *>(pieces.buffers[turn]);
      pieces.streams[turn].wait();
      for (u64 i = 0; i < count; i++)
        std::memcpy(buffer + i * what.row_size,
                    pages + what.rows[begin + i] * what.row_size,
                    what.row_size);
      pieces.streams[turn].copy(mine + turn * piece, buffer, count * what.row_size);
    }
    for (stream &each : pieces.streams)
      each.wait();
  });
  return now_s() - start;
}

}  // namespace bench
