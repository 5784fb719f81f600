// examples/fdtd/snapshot_writer.hpp: writes snapshots while the steps continue. A kernel copies the
// field into one of several buffers, and that buffer's thread writes it to the target. The steps
// wait only for the copy, or when every buffer is in use. With several PEs, the first one's threads
// gather the field and write it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gathering.hpp"
#include "npy.hpp"
#include "snapshot_target.hpp"
#include "snapshots.hpp"

namespace fdtd {

struct writer_settings {
  std::string url;
  u32 buffer_count = 2;
  bool is_synchronous = false;  ///< take() returns when the snapshot is stored
};

class snapshot_writer : public snapshots {
 public:
  /// Opens one connection for each buffer. All PEs construct it together. Throws.
  snapshot_writer(const grid_storage &storage, const writer_settings &wanted)
      : grid_(storage.view()),
        field_(storage, wanted.buffer_count),
        url_(wanted.url),
        is_synchronous_(wanted.is_synchronous),
        stops_(wanted.buffer_count + 1) {
    for (auto &stop : stops_)
      stop = std::make_unique<examples::moment>();
    for (u32 i = 0; i < wanted.buffer_count; i++)
      buffers_.push_back(
          field_.is_writer()
              ? std::make_unique<buffer>(i, grid_.n, open_target(wanted.url, examples::on_gpu))
              : std::make_unique<buffer>(i));
    for (auto &each : buffers_)
      each->thread = std::thread([this, &each] { serve(*each); });
  }
  ~snapshot_writer() override {
    {
      std::lock_guard const lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    for (auto &each : buffers_)
      each->thread.join();
  }

  void take(u32 step) override {
    // Buffers are used in turn: snapshot k waits for snapshot k - buffer_count, so its entry of
    // stops_ is no longer in use.
    buffer &next = *buffers_[count_ % buffers_.size()];
    examples::moment &stop = *stops_[count_ % stops_.size()];
    stop.record();
    if (is_synchronous_)
      stop.wait();
    auto const start = std::chrono::steady_clock::now();
    await_free(next);
    launch_copy_cells(grid_, field_.is_writer() ? next.cells() : field_.slot(next.index));
    next.copied.record();
    {
      std::lock_guard const lock(mutex_);
      next.step = step;
      next.stop = &stop;
      next.is_full = true;
    }
    changed_.notify_all();
    last_step_ = step;
    count_++;
    if (!is_synchronous_)
      return;
    await_free(next);
    std::lock_guard const lock(mutex_);
    lost_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void finish() override {
    for (auto &each : buffers_)
      await_free(*each);
  }

  u64 count_differences() override {
    if (!field_.is_writer()) {
      launch_copy_cells(grid_, field_.slot(0));
      examples::device_wait();
      field_.hand_over(0);
      return 0;
    }
    std::vector<char> stored(npy_size(grid_.n));
    buffers_[0]->target->get(make_snapshot_name(last_step_).text, stored.data(), stored.size());
    npy_header const header = make_npy_header(grid_.n);
    if (std::memcmp(stored.data(), &header, sizeof header) != 0)
      throw std::runtime_error(last_url() + " has another header");
    u64 const cell_count = u64(grid_.n) * grid_.n * grid_.n;
    examples::device_array<float> field(cell_count);
    launch_copy_cells(grid_, field.data());
    examples::device_wait();
    field_.fetch(0, field.data());
    std::vector<float> const here = field.to_host();
    u64 differences = 0;
    for (u64 cell = 0; cell < cell_count; cell++)
      if (std::memcmp(stored.data() + sizeof header + cell * sizeof(float),
                      &here[cell],
                      sizeof(float)) != 0)
        differences++;
    return differences;
  }

  std::string last_url() const override {
    return examples::join_url(url_, make_snapshot_name(last_step_).text);
  }
  u32 count() const override {
    return count_;
  }
  double lost_seconds() const override {
    std::lock_guard const lock(mutex_);
    return lost_;
  }
  /// The mean time of all puts, from the bytes in a buffer to the stored snapshot.
  double put_seconds() const {
    std::lock_guard const lock(mutex_);
    return put_count_ > 0 ? put_seconds_ / put_count_ : 0;
  }

 private:
  static constexpr auto put_limit =
      std::chrono::minutes(5);  // for a put; a pool's own limit is far lower

  // The life of a snapshot: taken by the loop (is_full), then put by the thread (no longer
  // is_full).
  struct buffer {
    explicit buffer(u32 number) : index(number) {}
    buffer(u32 number, u32 n, std::unique_ptr<snapshot_target> made)
        : index(number), bytes(npy_size(n)), target(std::move(made)) {
      npy_header const header = make_npy_header(n);
      examples::copy_to_device(bytes.data(), &header, sizeof header);
    }
    float *cells() const {
      return reinterpret_cast<float *>(bytes.data() + sizeof(npy_header));
    }
    u32 index;
    examples::device_array<u8> bytes;  // the snapshot's cells, written by kernels; only at the
                                       // writer, as is the target
    examples::moment copied;
    std::unique_ptr<snapshot_target> target;
    u32 step = 0;                            // guarded by mutex_, as are the next two
    const examples::moment *stop = nullptr;  // when the steps before the copy had run
    bool is_full = false;
    std::thread thread;
  };

  void put(const buffer &mine, u32 step, examples::host_copy *copy) {
    if (!field_.is_writer())
      return field_.hand_over(mine.index);
    field_.fetch(mine.index, mine.cells());
    const void *const bytes = copy != nullptr ? copy->of(mine.bytes.data()) : mine.bytes.data();
    mine.target->put(make_snapshot_name(step).text, bytes, mine.bytes.size());
  }

  void await_free(const buffer &wanted) {
    std::unique_lock lock(mutex_);
    bool const in_time =
        changed_.wait_for(lock, put_limit, [&] { return !wanted.is_full || !failure_.empty(); });
    if (!failure_.empty())
      throw std::runtime_error(failure_);
    if (!in_time)
      throw std::runtime_error("the snapshot of step " + std::to_string(wanted.step) +
                               " takes more than 5 minutes");
  }

  void serve(buffer &mine) {
    std::unique_ptr<examples::host_copy> copy;
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return mine.is_full || is_ending_; });
      if (is_ending_ || !failure_.empty())
        return;
      u32 const step = mine.step;
      const examples::moment &stop = *mine.stop;
      lock.unlock();
      std::string failure;
      double lost = 0, seconds = 0;
      try {
        if (field_.is_writer() && !mine.target->takes_device_memory() && copy == nullptr)
          copy = std::make_unique<examples::host_copy>(mine.bytes.size());
        mine.copied.wait();
        lost = mine.copied.seconds_since(stop);
        auto const start = std::chrono::steady_clock::now();
        put(mine, step, copy.get());
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      } catch (const std::exception &error) {
        failure = "the snapshot of step " + std::to_string(step) + ": " + error.what();
      }
      lock.lock();
      if (!is_synchronous_)
        lost_ += lost;
      put_seconds_ += seconds;
      put_count_++;
      if (failure_.empty())
        failure_ = failure;  // the first error is the reason; others may be its consequences
      mine.is_full = false;
      changed_.notify_all();
    }
  }

  grid grid_;
  gathering field_;
  std::string url_;
  bool is_synchronous_;
  std::vector<std::unique_ptr<examples::moment>> stops_;
  std::vector<std::unique_ptr<buffer>> buffers_;
  u32 count_ = 0, last_step_ = 0;
  mutable std::mutex mutex_;  // guards the members below, and parts of the buffers
  std::condition_variable changed_;
  std::string failure_;
  double lost_ = 0, put_seconds_ = 0;
  u32 put_count_ = 0;
  bool is_ending_ = false;
};

}  // namespace fdtd
