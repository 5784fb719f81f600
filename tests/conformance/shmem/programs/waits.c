// Point-to-point synchronisation of every type.
#include "check.h"

enum { WORD_COUNT = 8 };

#define BODY "waits_declared.inc"
#include "each_atomic_type.inc"
#define BODY "waits.inc"
#include "each_atomic_type.inc"

int main(void) {
  start("waits");
#define BODY "run.inc"
#include "each_atomic_type.inc"
  return finish();
}
