// products/shmem/define.hpp: the macro that defines each public call: pshmem_x is the function, and
// shmem_x a weak alias of it (section 10).
#pragma once

#include <exception>

#include <compat/shmem.h>
#include <compat/shmemg/handles.h>
#include <compat/shmemg/host.h>

#include "products/shmem/fatal.hpp"

// SHMEM_DEFINE(int, shmem_n_pes, (void), { ... }): the parameters are in parentheses, and in the
// body `call` is the call's name. shmem.h has already declared the weak name. No C++ exception
// leaves a call: it ends the job as any other failure does. (glibc's forced unwinding of a canceled
// thread is not a std::exception and continues.)
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
