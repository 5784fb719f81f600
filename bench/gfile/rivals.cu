#include "rivals.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pinned.cuh"

namespace bench {

using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

namespace {

int open_file(const std::string &path) {
  int const fd = open(path.c_str(), O_RDONLY);
  if (fd < 0)
    throw std::runtime_error("cannot open " + path);
  return fd;
}

void read_piece(int fd, void *target, uint64_t offset, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    ssize_t const got =
        pread(fd, static_cast<char *>(target) + done, size - done, off_t(offset + done));
    if (got <= 0)
      throw std::runtime_error("pread failed");
    done += uint64_t(got);
  }
}

}  // namespace

double read_naively(const std::string &path, void *target, uint64_t size) {
  int const fd = open_file(path);
  std::vector<u8> buffer(piece_size);
  double const start = now_s();
  for (uint64_t at = 0; at < size; at += piece_size) {
    uint64_t const piece = std::min(piece_size, size - at);
    read_piece(fd, buffer.data(), at, piece);
    examples::copy_to_device(static_cast<u8 *>(target) + at, buffer.data(), piece);
  }
  double const took = now_s() - start;
  close(fd);
  return took;
}

double read_whole_naively(const std::string &path, void *target, uint64_t size) {
  int const fd = open_file(path);
  double const start = now_s();
  void *const buffer = std::malloc(size);
  read_piece(fd, buffer, 0, size);
  examples::copy_to_device(target, buffer, size);
  std::free(buffer);
  double const took = now_s() - start;
  close(fd);
  return took;
}

double read_by_hand(const std::string &path, void *target, uint64_t size, unsigned threads) {
  int const fd = open_file(path);
  std::atomic<uint64_t> next{0};
  double const start = run_together(threads, [&](auto &wait_for_start) {
    two_pieces pieces;
    for (void *const each : pieces.buffers)
      std::memset(each, 0, piece_size);
    wait_for_start();
    for (unsigned turn = 0;; turn ^= 1) {
      uint64_t const at = next.fetch_add(piece_size);
      if (at >= size)
        break;
      uint64_t const piece = std::min(piece_size, size - at);
      pieces.streams[turn].wait();
      read_piece(fd, pieces.buffers[turn], at, piece);
      pieces.streams[turn].copy(static_cast<u8 *>(target) + at, pieces.buffers[turn], piece);
    }
    for (stream &each : pieces.streams)
      each.wait();
  });
  double const took = now_s() - start;
  close(fd);
  return took;
}

// Each thread uses 16 pieces of pinned memory in turn, so that it need not wait for each copy.
double read_files_by_hand(const std::function<std::string(uint32_t)> &path,
                          uint32_t count,
                          uint64_t size,
                          void *target,
                          unsigned threads) {
  constexpr uint32_t pieces = 16;
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < count; i++)
    paths.push_back(path(i));
  u8 *const buffers = static_cast<u8 *>(pinned(threads * pieces * size));
  std::vector<stream> streams(threads);
  std::atomic<uint32_t> next{0}, started{0};
  double const start = run_together(threads, [&](auto &wait_for_start) {
    uint32_t const self = started++;
    u8 *const buffer = buffers + self * pieces * size;
    stream &copies = streams[self];
    wait_for_start();
    for (uint32_t done = 0;; done++) {
      uint32_t const file = next.fetch_add(1);
      if (file >= count)
        break;
      if (done % pieces == 0)
        copies.wait();
      int const fd = open_file(paths[file]);
      read_piece(fd, buffer + done % pieces * size, 0, size);
      copies.copy(static_cast<u8 *>(target) + file * size, buffer + done % pieces * size, size);
      close(fd);
    }
    copies.wait();
  });
  double const took = now_s() - start;
  unpin(buffers);
  return took;
}

double write_by_hand(const std::string &path, const void *source, uint64_t size, unsigned threads) {
  int const fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0)
    throw std::runtime_error("cannot create " + path);
  std::atomic<uint64_t> next{0};
  std::atomic<unsigned> failures{0};
  double const start = run_together(threads, [&](auto &wait_for_start) {
    two_pieces pieces;
    uint64_t offsets[2] = {0, 0}, sizes[2] = {0, 0};
    auto const put = [&](unsigned turn) {
      pieces.streams[turn].wait();
      for (uint64_t done = 0; done < sizes[turn];) {
        ssize_t const moved = pwrite(fd,
                                     static_cast<char *>(pieces.buffers[turn]) + done,
                                     sizes[turn] - done,
                                     off_t(offsets[turn] + done));
        if (moved <= 0)
          return void(failures++);
        done += uint64_t(moved);
      }
      sizes[turn] = 0;
    };
    wait_for_start();
    for (unsigned turn = 0;; turn ^= 1) {
      uint64_t const at = next.fetch_add(piece_size);
      if (at >= size)
        break;
      put(turn);
      offsets[turn] = at;
      sizes[turn] = std::min(piece_size, size - at);
      pieces.streams[turn].copy_back(
          pieces.buffers[turn], static_cast<const u8 *>(source) + at, sizes[turn]);
      put(turn ^ 1);
    }
    put(0);
    put(1);
  });
  (void)fdatasync(fd);
  double const took = now_s() - start;
  close(fd);
  if (failures != 0)
    throw std::runtime_error("pwrite failed");
  return took;
}

namespace {

// Blocks take pieces of 512 KiB in turn, as readers of a file do.
TND_KERNEL void copy_pages(u8 *target, const u8 *pages, u64 size) {
  tanada::this_block const block{};
  constexpr u64 piece = 1u << 19;
  for (u64 at = tanada::simt::block_rank() * piece; at < size;
       at += tanada::simt::grid_size_x() * piece)
    tanada::simt::copy_from_host(
        block, target + at, pages + at, piece < size - at ? piece : size - at);
}

}  // namespace

double zero_copy_read(int fd, void *target, uint64_t size) {
  void *const pages = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (pages == MAP_FAILED)
    throw std::runtime_error("mmap failed");
  register_pages(pages, size);
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    double const start = now_s();
    tanada::simt::launch(dim3(examples::on_gpu ? 132 : 4),
                         dim3(examples::on_gpu ? 512 : 32),
                         copy_pages,
                         static_cast<u8 *>(target),
                         static_cast<const u8 *>(pages),
                         u64(size));
    examples::device_wait();
    times.push_back(now_s() - start);
  }
  unregister_pages(pages);
  munmap(pages, size);
  return median(times);
}

double device_copy(uint64_t size) {
  examples::device_array<u8> source(size), target(size);
  std::vector<double> times;
  for (int i = 0; i < 6; i++) {
    double const start = now_s();
    copy_on_device(target.data(), source.data(), size);
    if (i > 0)
      times.push_back(now_s() - start);
  }
  return median(times);
}

namespace {

TND_KERNEL void read_random_pages(const u8 *pages, u64 page_count, u32 reads, u8 *target) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 state = me * 0x9E3779B97F4A7C15ull + 12345;
  for (u32 i = 0; i < reads; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    tanada::simt::copy_from_host(
        warp, target + me * 4096, pages + (state >> 24) % page_count * 4096, 4096);
    warp.sync();
  }
}

TND_KERNEL void ping(u32 *request, u32 *reply, u32 rounds) {
  for (u32 i = 1; i <= rounds; i++) {
    tanada::simt::system_atomic<u32>(*request).store_release(i);
    while (tanada::simt::system_atomic<u32>(*reply).load_acquire() != i)
      tanada::simt::pause(0);
  }
}

}  // namespace

double random_pinned_reads(uint64_t size, unsigned blocks, unsigned reads_a_warp) {
  u8 *const pages = static_cast<u8 *>(pinned(size));
  std::memset(pages, 1, size);
  u32 const threads = examples::on_gpu ? 512 : 32, warps = blocks * threads / 32;
  examples::device_array<u8> target(u64(warps) * 4096);
  std::vector<double> rates;
  for (int i = 0; i < 5; i++) {
    double const start = now_s();
    tanada::simt::launch(dim3(blocks),
                         dim3(threads),
                         read_random_pages,
                         static_cast<const u8 *>(pages),
                         size / 4096,
                         reads_a_warp,
                         target.data());
    examples::device_wait();
    rates.push_back(double(warps) * reads_a_warp / (now_s() - start));
  }
  unpin(pages);
  return median(rates);
}

double round_trip(unsigned rounds) {
  u32 *const words = static_cast<u32 *>(pinned(4096));
  u32 *const request = words, *const reply = words + 64;
  std::vector<double> times;
  for (int i = 0; i < 5; i++) {
    *request = 0;
    *reply = 0;
    double const start = now_s();
    tanada::simt::launch(dim3(1), dim3(1), ping, request, reply, rounds);
    for (u32 seen = 0; seen < rounds;) {
      u32 const now = __atomic_load_n(request, __ATOMIC_ACQUIRE);
      if (now == seen) {
        if (!examples::on_gpu)
          std::this_thread::yield();
        continue;
      }
      seen = now;
      __atomic_store_n(reply, now, __ATOMIC_RELEASE);
    }
    examples::device_wait();
    times.push_back((now_s() - start) / rounds);
  }
  unpin(words);
  return median(times);
}

std::string device_name() {
#if TND_SIMT_CUDA
  cudaDeviceProp properties;
  examples::cuda_check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
#else
  return "host executor";
#endif
}

}  // namespace bench
