#include "support.cuh"

#include <algorithm>

namespace bench {
namespace {

struct whole_read {
  u8 *target;
  u64 target_size, size, chunk_size;
  u32 rounds;
};

TND_DEVICE void read_chunks(gfile_ref files, const text &url, const whole_read &work) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_RDONLY, &fd) != status::ok)
    return;
  for (u32 round = 0; round < work.rounds; round++)
    for (u64 at = tanada::simt::block_rank() * work.chunk_size; at < work.size;
         at += tanada::simt::grid_size_x() * work.chunk_size)
      (void)gread(block,
                  files,
                  fd,
                  work.target + at % work.target_size,
                  at,
                  work.chunk_size < work.size - at ? work.chunk_size : work.size - at);
  (void)gclose(block, files, fd);
}

// One block at a time: without the second argument the compiler may still take few registers, and
// then keeps values of the kernel in local memory.
TND_KERNEL TND_LAUNCH_BOUNDS(512, 1) void read_whole(gfile_ref files, text url, whole_read work) {
  read_chunks(files, url, work);
}
// Two blocks at a time on a multiprocessor: the compiler has half as many registers.
TND_KERNEL TND_LAUNCH_BOUNDS(512,
                             2) void read_whole_dense(gfile_ref files, text url, whole_read work) {
  read_chunks(files, url, work);
}

TND_KERNEL TND_LAUNCH_BOUNDS(512) void write_whole(
    gfile_ref files, text url, const u8 *source, u64 source_size, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_WRONLY | O_CREAT, &fd) != status::ok)
    return;
  for (u64 at = tanada::simt::block_rank() * chunk_size; at < size;
       at += tanada::simt::grid_size_x() * chunk_size)
    (void)gwrite(block,
                 files,
                 fd,
                 source + at % source_size,
                 at,
                 chunk_size < size - at ? chunk_size : size - at);
  (void)gclose(block, files, fd);
}

}  // namespace

void launch_read(
    instance &on, const std::string &url, u8 *target, u64 target_size, const reading &how) {
  tanada::simt::launch(dim3(how.blocks),
                       dim3(threads_a_block()),
                       how.is_dense ? read_whole_dense : read_whole,
                       on.ref(),
                       text{url},
                       whole_read{target, target_size, how.size, how.chunk_size, how.rounds});
}

void check_words(const u8 *target, u64 size) {
  u64 const step = std::max<u64>(size / 64, 8) / 8 * 8;
  for (u64 at = 0; at + 8 <= size; at += step) {
    u64 word = 0;
    examples::copy_to_host(&word, target + at, 8);
    if (word != word_at(at))
      throw std::runtime_error("wrong bytes at " + std::to_string(at));
  }
}

void launch_write(
    instance &on, const std::string &url, const u8 *source, u64 source_size, const reading &how) {
  tanada::simt::launch(dim3(how.blocks),
                       dim3(threads_a_block()),
                       write_whole,
                       on.ref(),
                       text{url},
                       source,
                       source_size,
                       u64(how.size),
                       u64(how.chunk_size));
}

}  // namespace bench
