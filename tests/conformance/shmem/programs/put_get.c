// Blocking puts and gets of every type.
#include "check.h"

enum { COUNT = 40, STRIDED = 11 };

#define BODY "put_get.inc"
#include "each_rma_type.inc"

int main(void) {
  start("put_get");
#define BODY "run.inc"
#include "each_rma_type.inc"
  return finish();
}
