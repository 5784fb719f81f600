// products/shmem/define.hpp: how each public call is defined: pshmem_x is the function, shmem_x a
// weak name of it (section 10).
#pragma once

#include <exception>

#include <compat/shmem.h>
#include <compat/shmemg/handles.h>
#include <compat/shmemg/host.h>

#include "products/shmem/fatal.hpp"

// SHMEM_DEFINE(int, shmem_n_pes, (void), { ... }): parameters in brackets; in the body `call` is
// the name. The weak name is declared in shmem.h already. No exception of ours leaves a call: it
// ends the job as any other failure does. (What glibc unwinds a cancelled thread with is none, and
// goes on.)
#define SHMEM_DEFINE(RESULT, NAME, PARAMETERS, ...)                                     \
  extern "C" RESULT NAME PARAMETERS __attribute__((weak, alias(SHMEM_TEXT_(p##NAME)))); \
  extern "C" RESULT p##NAME PARAMETERS {                                                \
    [[maybe_unused]] constexpr const char *call = #NAME;                                \
    try __VA_ARGS__ catch (const std::exception &thrown) {                              \
      tanada::shmem::fatal(thrown, call);                                               \
    }                                                                                   \
  }
#define SHMEM_TEXT_(...) SHMEM_TEXT_OF_(__VA_ARGS__)
#define SHMEM_TEXT_OF_(...) #__VA_ARGS__
