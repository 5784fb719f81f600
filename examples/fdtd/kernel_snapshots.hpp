// examples/fdtd/kernel_snapshots.hpp: writes Ez of every cell to the store from a kernel, and reads
// it back for comparison. With several PEs, the first one gathers the others' cells on its device,
// and its kernels write everything.
#pragma once

#include <chrono>
#include <string>

#include "field_file.hpp"
#include "gathering.hpp"
#include "npy.hpp"
#include "snapshots.hpp"

namespace fdtd {

/// Cell number `at` of plane k of the whole grid: of this PE, or as fetched from another one.
TND_DEVICE inline const float *ez_of(const grid &g, const float *fetched, u32 at, u32 k) {
  return k < g.last ? &g.e[2][g.at(at % g.n, at / g.n, k)] : &fetched[u64(k) * g.n * g.n + at];
}

/// Blocks write planes. The writes are started when this ends, and stored after publish_file.
static TND_KERNEL void write_snapshot(
    grid g, const float *fetched, const int *fd, float *staging, int *outcome) {
  tanada::this_block const all;
  u64 const plane_count = u64(g.n) * g.n, plane_size = plane_count * sizeof(float);
  float *const plane = staging + tanada::simt::block_rank() * plane_count;
  if (*fd < 0)
    return;
  for (u32 k = tanada::simt::block_index_x(); k < g.n; k += tanada::simt::grid_size_x()) {
    for (u32 at = all.rank(); at < plane_count; at += all.size())
      plane[at] = *ez_of(g, fetched, at, k);
    all.sync();
    examples::succeeded(
        tanada::gwrite(all, *fd, plane, sizeof(npy_header) + k * plane_size, plane_size),
        plane_size,
        outcome);
    all.sync();
  }
}

/// Counts the cells whose bits differ from the snapshot's.
static TND_KERNEL void compare_snapshot(grid g,
                                        const float *fetched,
                                        examples::device_url url,
                                        float *staging,
                                        u64 *differences,
                                        int *outcome) {
  tanada::this_block const all;
  u64 const plane_count = u64(g.n) * g.n, plane_size = plane_count * sizeof(float);
  float *const plane = staging + tanada::simt::block_rank() * plane_count;
  u64 mine = 0;
  int fd = -1;
  if (!examples::succeeded(tanada::gopen(all, url.text, tanada::g_rdonly, &fd), outcome))
    return;
  for (u32 k = tanada::simt::block_index_x(); k < g.n; k += tanada::simt::grid_size_x()) {
    auto const moved =
        tanada::gread(all, fd, plane, sizeof(npy_header) + k * plane_size, plane_size);
    if (!examples::succeeded(moved, plane_size, outcome))
      break;
    for (u32 at = all.rank(); at < plane_count; at += all.size()) {
      float const *const here = ez_of(g, fetched, at, k);
      mine += *reinterpret_cast<const u32 *>(&plane[at]) != *reinterpret_cast<const u32 *>(here)
                  ? 1
                  : 0;
    }
    all.sync();
  }
  if (mine != 0)
    (void)tanada::simt::device_atomic<u64>(*differences).fetch_add_relaxed(mine);
  examples::succeeded(tanada::gclose(all, fd), outcome);
}

/// Snapshots through gfile. At most one is in flight: it goes to the store while the next steps
/// run.
class kernel_snapshots : public snapshots {
 public:
  /// `synchronous`: each snapshot is in the store before the next steps. All PEs construct it
  /// together.
  kernel_snapshots(const grid_storage &storage, std::string prefix, bool synchronous)
      : grid_(storage.view()),
        field_(storage, 1),
        prefix_(std::move(prefix)),
        is_synchronous_(synchronous),
        blocks_(io_grid(grid_.n)) {
    if (!field_.is_writer())
      return;
    staging_ = examples::device_array<float>(u64(blocks_.x) * grid_.n * grid_.n);
    if (grid_.last < grid_.n)
      fetched_ = examples::device_array<float>(u64(grid_.n) * grid_.n * grid_.n);
  }

  void take(u32 step) override {
    std::string const under_way = is_open_ ? "the snapshot " + url_ : "nothing";
    examples::await_kernels("run the steps while " + under_way + " is being written");
    auto const start = std::chrono::steady_clock::now();
    publish();
    gather();
    if (field_.is_writer())
      write(step);
    count_++;
    if (is_synchronous_)
      publish();
    lost_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void finish() override {
    publish();
  }

  u64 count_differences() override {
    gather();
    if (!field_.is_writer())
      return 0;
    examples::device_array<u64> differences(1);
    tanada::simt::launch(blocks_,
                         {examples::io_block_size},
                         compare_snapshot,
                         grid_,
                         fetched(),
                         examples::device_url(url_),
                         staging_.data(),
                         differences.data(),
                         outcome_.code());
    outcome_.await("read the snapshot " + url_);
    return differences.to_host()[0];
  }

  std::string last_url() const override {
    return url_;
  }
  u32 count() const override {
    return count_;
  }
  double lost_seconds() const override {
    return lost_;
  }

 private:
  const float *fetched() const {
    return fetched_.data();
  }

  // Call it after the kernels have run. Returns when the writer has the cells.
  void gather() {
    if (field_.is_writer())
      return field_.fetch(0, fetched_.data());
    launch_copy_cells(grid_, field_.slot(0));
    examples::await_kernels();
    field_.hand_over(0);
  }

  void write(u32 step) {
    url_ = examples::join_url(prefix_, make_snapshot_name(step).text);
    tanada::simt::launch({1},
                         {1},
                         create_file<npy_header>,
                         examples::device_url(url_),
                         make_npy_header(grid_.n),
                         fd_.data(),
                         outcome_.code());
    tanada::simt::launch(blocks_,
                         {examples::io_block_size},
                         write_snapshot,
                         grid_,
                         fetched(),
                         fd_.data(),
                         staging_.data(),
                         outcome_.code());
    outcome_.await("write the snapshot " + url_);
    is_open_ = true;
  }

  // Waits until the snapshot in flight is in the store.
  void publish() {
    if (!is_open_)
      return;
    is_open_ = false;
    tanada::simt::launch({1}, {1}, publish_file, fd_.data(), outcome_.code());
    outcome_.await("publish the snapshot " + url_);
  }

  grid grid_;
  gathering field_;
  std::string prefix_, url_;
  bool is_synchronous_;
  tanada::simt::dim3 blocks_;
  examples::device_array<float> staging_,
      fetched_;  // only at the writer; fetched_ has n^3 cells, of which those of other PEs are used
  examples::device_array<int> fd_{1};
  examples::kernel_outcome outcome_;
  u32 count_ = 0;
  double lost_ = 0;
  bool is_open_ = false;
};

}  // namespace fdtd
