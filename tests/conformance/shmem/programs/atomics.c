// Atomic operations of every type, alone and with all PEs at one word.
#include "check.h"

#define BODY "atomics.inc"
#include "each_atomic_type.inc"
#define BODY "atomics_extended.inc"
#include "each_extended_type.inc"
#define BODY "atomics_bitwise.inc"
#include "each_bitwise_type.inc"

int main(int count, char **words) {
  start("atomics");
  int const rounds = (int)word_or(count, words, 1, 300);
#define BODY "run.inc"
#include "each_atomic_type.inc"
#define BODY "run.inc"
#include "each_extended_type.inc"
#define BODY "run_bits.inc"
#include "each_bitwise_type.inc"
#define BODY "run_contention.inc"
#include "each_atomic_type.inc"
  return finish();
}
