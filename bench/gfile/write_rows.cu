// Rows for writing a file from kernels.
#include <unistd.h>

#include "support.cuh"

namespace bench {
namespace {

// One block: when this returns, all data that the other blocks wrote are durable.
TND_KERNEL void sync_file(gfile_ref files, text url) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_WRONLY, &fd) != status::ok)
    return;
  (void)gfsync(block, files, fd);
  (void)gclose(block, files, fd);
}

}  // namespace

void writing(report &to, const std::string &folder, const reading &how) {
  u64 const size = on_gpu ? 4ull << 30 : 64u << 20;
  std::string const path = folder + "/tanada-bench-write-" + std::to_string(getpid());
  examples::device_array<u8> source(size);
  std::vector<double> hand, mine;
  for (int i = 0; i < 4; i++) {
    unlink(path.c_str());
    hand.push_back(write_by_hand(path, source.data(), size, on_gpu ? 8 : 2));
  }
  for (int i = 0; i < 4; i++) {
    unlink(path.c_str());
    instance on{config_of(u32(how.chunk_size), 64u << 20, on_gpu ? 1ull << 30 : 32u << 20)};
    double const start = now_s();
    launch_write(on, path, source.data(), size, {size, how.chunk_size, how.blocks});
    tanada::simt::launch(dim3(1), dim3(32), sync_file, on.ref(), text{path});
    on.wait();
    mine.push_back(now_s() - start);
  }
  unlink(path.c_str());
  hand.erase(hand.begin());
  mine.erase(mine.begin());
  double const gb = double(size) / 1e9;
  to.add({"gwrite of " + std::to_string(size >> 20) + " MiB to tmpfs, then gfsync",
          gb / median(mine),
          "GB/s",
          "pinned copies to the host and pwrite by 8 threads",
          gb / median(hand),
          on_gpu ? std::optional<double>{0.7} : std::nullopt,
          better::higher});
}

}  // namespace bench
