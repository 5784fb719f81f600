// tanada/device/detail/simt/pace.hpp: how far launches run ahead of kernels that wait for the host.
//
// CUDA takes 1024 kernels of a stream ahead. Whoever launches another one stays in the driver until
// the first of them has ended, and keeps all other threads out of it meanwhile: also the one that
// answers that kernel. So nobody gets so far: every batch of launches waits for the end of the one
// before the last, in a way that others can pass. Programs launch kernels of their own in between,
// which is why a batch is short.
#pragma once

#include "launch.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#  if TND_SIMT_CUDA

// One thread's.
class pacer {
 public:
  static constexpr u32 batch = 64;  // launches

  pacer() = default;
  pacer(const pacer &) = delete;
  ~pacer() {
    for (track &each : tracks_)
      for (cudaEvent_t const mark : each.marks)
        if (mark != nullptr)
          (void)cudaEventDestroy(mark);
  }

  // What the driver refuses leaves things as they are.
  void step(stream on) {
    track &mine = track_of(on);
    if (++mine.count % batch != 0)
      return;
    cudaStreamCaptureStatus captures{};
    if (cudaStreamIsCapturing(on, &captures) != cudaSuccess ||
        captures != cudaStreamCaptureStatusNone)
      return;
    u32 const turn = mine.count / batch % 2;
    cudaEvent_t &now = mine.marks[turn];
    if (now == nullptr && cudaEventCreateWithFlags(&now, cudaEventDisableTiming) != cudaSuccess)
      return;
    if (cudaEventRecord(now, on) != cudaSuccess)
      return;
    if (cudaEvent_t const before = mine.marks[1 - turn]; before != nullptr)
      (void)cudaEventSynchronize(before);
  }

 private:
  struct track {
    stream on;
    bool is_used;
    u32 count;
    cudaEvent_t marks[2];  // null: not recorded yet
  };
  static constexpr u32 track_count = 8;  // streams; more of them share

  track &track_of(stream on) {
    for (track &each : tracks_) {
      if (!each.is_used) {
        each.on = on;
        each.is_used = true;
      }
      if (each.on == on)
        return each;
    }
    return tracks_[track_count - 1];
  }

  track tracks_[track_count] = {};
};

// Before a launch on `on` of a kernel that may wait for the host.
inline void pace(stream on) {
  static thread_local pacer mine;
  mine.step(on);
}

#  else

inline void pace(stream) {}

#  endif

}  // namespace tanada::simt

#endif
