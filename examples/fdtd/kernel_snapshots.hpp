// fdtd/kernel_snapshots.hpp: Ez of every cell leaves for the store from inside a kernel, and comes back to be compared.
#pragma once

#include <chrono>
#include <string>

#include "field_file.hpp"
#include "npy.hpp"
#include "snapshots.hpp"

namespace fdtd {

/// Blocks write planes; the bytes are on their way when this is done, and stored after publish_file.
static TND_KERNEL void write_snapshot(grid g, const int *fd, float *staging, int *outcome) {
  tanada::this_block const all;
  u64 const plane_count = u64(g.n) * g.n, plane_size = plane_count * sizeof(float);
  float *const plane = staging + tanada::simt::block_rank() * plane_count;
  if (*fd < 0) return;
  for (u32 k = tanada::simt::block_index_x(); k < g.n; k += tanada::simt::grid_size_x()) {
    for (u32 at = all.rank(); at < plane_count; at += all.size()) plane[at] = g.e[2][g.at(at % g.n, at / g.n, k)];
    all.sync();
    examples::succeeded(tanada::gwrite(all, *fd, plane, sizeof(npy_header) + k * plane_size, plane_size), plane_size, outcome);
    all.sync();
  }
}

/// Count the cells whose bits differ from the snapshot's.
static TND_KERNEL void compare_snapshot(grid g, examples::device_url url, float *staging, u64 *differences,
                                        int *outcome) {
  tanada::this_block const all;
  u64 const plane_count = u64(g.n) * g.n, plane_size = plane_count * sizeof(float);
  float *const plane = staging + tanada::simt::block_rank() * plane_count;
  u64 mine = 0;
  int fd = -1;
  if (!examples::succeeded(tanada::gopen(all, url.text, tanada::g_rdonly, &fd), outcome)) return;
  for (u32 k = tanada::simt::block_index_x(); k < g.n; k += tanada::simt::grid_size_x()) {
    auto const moved = tanada::gread(all, fd, plane, sizeof(npy_header) + k * plane_size, plane_size);
    if (!examples::succeeded(moved, plane_size, outcome)) break;
    for (u32 at = all.rank(); at < plane_count; at += all.size()) {
      float const *const here = &g.e[2][g.at(at % g.n, at / g.n, k)];
      mine += *reinterpret_cast<const u32 *>(&plane[at]) != *reinterpret_cast<const u32 *>(here) ? 1 : 0;
    }
    all.sync();
  }
  if (mine != 0) (void)tanada::simt::device_atomic<u64>(*differences).fetch_add_relaxed(mine);
  examples::succeeded(tanada::gclose(all, fd), outcome);
}

/// Snapshots by gfile. One is under way at a time: it goes to the store while the next steps run.
class kernel_snapshots : public snapshots {
 public:
  /// `synchronous`: each is in the store before the next steps.
  kernel_snapshots(const grid &g, std::string prefix, bool synchronous)
      : grid_(g),
        prefix_(std::move(prefix)),
        is_synchronous_(synchronous),
        blocks_(io_grid(g.n)),
        staging_(u64(blocks_.x) * g.n * g.n) {}

  void take(u32 step) override {
    std::string const under_way = is_open_ ? "the snapshot " + url_ : "nothing";
    examples::await_kernels("run the steps while " + under_way + " is being written");
    auto const start = std::chrono::steady_clock::now();
    publish();
    write(step);
    if (is_synchronous_) publish();
    lost_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void finish() override { publish(); }

  u64 count_differences() override {
    examples::device_array<u64> differences(1);
    tanada::simt::launch(blocks_, {examples::io_block_size}, compare_snapshot, grid_, examples::device_url(url_),
                         staging_.data(), differences.data(), outcome_.code());
    outcome_.await("read the snapshot " + url_);
    return differences.to_host()[0];
  }

  std::string last_url() const override { return url_; }
  u32 count() const override { return count_; }
  double lost_seconds() const override { return lost_; }

 private:
  void write(u32 step) {
    url_ = examples::join_url(prefix_, make_snapshot_name(step).text);
    tanada::simt::launch({1}, {1}, create_file<npy_header>, examples::device_url(url_), make_npy_header(grid_.n),
                         fd_.data(), outcome_.code());
    tanada::simt::launch(blocks_, {examples::io_block_size}, write_snapshot, grid_, fd_.data(), staging_.data(),
                         outcome_.code());
    outcome_.await("write the snapshot " + url_);
    count_++;
    is_open_ = true;
  }

  // Until the snapshot under way is in the store.
  void publish() {
    if (!is_open_) return;
    is_open_ = false;
    tanada::simt::launch({1}, {1}, publish_file, fd_.data(), outcome_.code());
    outcome_.await("publish the snapshot " + url_);
  }

  grid grid_;
  std::string prefix_, url_;
  bool is_synchronous_;
  tanada::simt::dim3 blocks_;
  examples::device_array<float> staging_;
  examples::device_array<int> fd_{1};
  examples::kernel_outcome outcome_;
  u32 count_ = 0;
  double lost_ = 0;
  bool is_open_ = false;
};

}  // namespace fdtd
