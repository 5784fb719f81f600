// shmem/define.hpp: how each public call is defined: pshmem_x is the function, shmem_x a weak name of it (section 10).
#pragma once

#include <compat/shmem.h>

// SHMEM_DEFINE(int, shmem_n_pes, (void)) { ... }: parameters in brackets. The weak name is declared in shmem.h already.
#define SHMEM_DEFINE(RESULT, NAME, PARAMETERS)                                           \
  extern "C" RESULT NAME PARAMETERS __attribute__((weak, alias(SHMEM_TEXT_(p##NAME))));  \
  extern "C" RESULT p##NAME PARAMETERS
#define SHMEM_TEXT_(...) SHMEM_TEXT_OF_(__VA_ARGS__)
#define SHMEM_TEXT_OF_(...) #__VA_ARGS__
