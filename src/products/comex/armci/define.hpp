// products/comex/armci/define.hpp: defines the public calls. PARMCI_x is the function and ARMCI_x a
// weak alias, so that a profiling library can interpose.
#pragma once

#include <exception>

#include <compat/comex/armci.h>
#include <compat/comex/comex.h>
#include <compat/comex/message.h>
#include <compat/comex/parmci.h>

#include "products/comex/armci/fatal.hpp"

// ARMCI_DEFINE(int, ARMCI_Fence, (int proc), { ... }): the parameters are parenthesized, and in the
// body `call` is the name of the function. armci.h has already declared the weak name. An exception
// that leaves the body ends the job, as any other failure does.
#define ARMCI_DEFINE(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_TWICE_(RESULT, P##NAME, NAME, PARAMETERS, __VA_ARGS__)

// The same for lower-case names: parmci_x and armci_x.
#define ARMCI_DEFINE_SMALL(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_TWICE_(RESULT, p##NAME, NAME, PARAMETERS, __VA_ARGS__)

// A call that has no PARMCI_ name.
#define ARMCI_DEFINE_PLAIN(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_AS_(RESULT, NAME, NAME, PARAMETERS, __VA_ARGS__)

#define ARMCI_DEFINE_TWICE_(RESULT, TRUE_NAME, NAME, PARAMETERS, ...)                     \
  extern "C" RESULT NAME PARAMETERS __attribute__((weak, alias(ARMCI_TEXT_(TRUE_NAME)))); \
  ARMCI_DEFINE_AS_(RESULT, TRUE_NAME, NAME, PARAMETERS, __VA_ARGS__)
#define ARMCI_DEFINE_AS_(RESULT, TRUE_NAME, NAME, PARAMETERS, ...) \
  extern "C" RESULT TRUE_NAME PARAMETERS {                         \
    [[maybe_unused]] constexpr const char *call = #NAME;           \
    try __VA_ARGS__ catch (const std::exception &thrown) {         \
      tanada::comex::armci::fatal(call, "{}", thrown.what());      \
    }                                                              \
  }
#define ARMCI_TEXT_(NAME) ARMCI_TEXT_OF_(NAME)
#define ARMCI_TEXT_OF_(NAME) #NAME
