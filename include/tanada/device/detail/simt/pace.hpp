// tanada/device/detail/simt/pace.hpp: limits how far launches run ahead of kernels that wait for
// the host.
//
// CUDA queues up to 1024 kernels of a stream. A thread that launches one more blocks in the driver
// until the first of them has ended, and blocks all other threads out of the driver meanwhile. This
// includes the thread that would answer that kernel. So the limit must never be reached: every
// batch of launches waits for the end of the batch before the last, in a way that does not block
// other threads. A batch is short because programs launch kernels of their own in between.
#pragma once

#include "launch.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#  if TND_SIMT_CUDA

// The state of one thread.
class pacer {
 public:
  static constexpr u32 batch = 64;  // launches

  pacer() = default;
  pacer(const pacer &) = delete;
  ~pacer() {
    for (track &entry : tracks_)
      for (cudaEvent_t const mark : entry.marks)
        if (mark != nullptr)
          (void)cudaEventDestroy(mark);
  }

  // If the driver refuses a step, the state does not change.
  void step(stream on) {
    track &entry = track_of(on);
    if (++entry.count % batch != 0)
      return;
    cudaStreamCaptureStatus captures{};
    if (cudaStreamIsCapturing(on, &captures) != cudaSuccess ||
        captures != cudaStreamCaptureStatusNone)
      return;
    u32 const turn = entry.count / batch % 2;
    cudaEvent_t &event = entry.marks[turn];
    if (event == nullptr && cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess)
      return;
    if (cudaEventRecord(event, on) != cudaSuccess)
      return;
    if (cudaEvent_t const previous = entry.marks[1 - turn]; previous != nullptr)
      (void)cudaEventSynchronize(previous);
  }

 private:
  struct track {
    stream on;
    bool is_used;
    u32 count;
    cudaEvent_t marks[2];  // null: not recorded yet
  };
  static constexpr u32 track_count = 8;  // streams; further ones share the last entry

  track &track_of(stream on) {
    for (track &entry : tracks_) {
      if (!entry.is_used) {
        entry.on = on;
        entry.is_used = true;
      }
      if (entry.on == on)
        return entry;
    }
    return tracks_[track_count - 1];
  }

  track tracks_[track_count] = {};
};

// Call before launching on `on` a kernel that may wait for the host.
inline void pace(stream on) {
  static thread_local pacer thread_pacer;
  thread_pacer.step(on);
}

#  else

inline void pace(stream) {}

#  endif

}  // namespace tanada::simt

#endif
