// Computing of a known length: arithmetic in registers, so that only the processor's time counts.
#ifndef TND_BENCH_O2G_WORK_H
#define TND_BENCH_O2G_WORK_H

#include "measure.h"

// Read after the clock and written before it; otherwise the compiler may move the loop out of the
// timed section.
static volatile double work_value = 1.0;

static inline double compute_s(long steps) {
  double const start = now_s();
  double value = work_value;
  for (long i = 0; i < steps; i++)
    value = value * 0.999999 + 1e-6;
  work_value = value;
  return now_s() - start;
}

// Processor seconds of the steps. Other ranks may compute on the same processor at the same time.
static inline double compute_processor_s(long steps) {
  double const start = processor_s();
  compute_s(steps);
  return processor_s() - start;
}

// The number of steps that take `seconds` on this processor now; the fastest of three measurements.
// They are long, because some kernels count processor time in steps of 10 ms.
static inline long calibrate(double seconds) {
  long const probe = 100 * 1000 * 1000;
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    double const took = compute_processor_s(probe);
    if (took < best)
      best = took;
  }
  return (long)((double)probe * seconds / best);
}

#endif
