// products/comex/armci/define.hpp: how the public calls are defined: PARMCI_x is the function,
// ARMCI_x a weak name of it, so that a library which profiles can stand between them.
#pragma once

#include <exception>

#include <compat/comex/armci.h>
#include <compat/comex/comex.h>
#include <compat/comex/message.h>
#include <compat/comex/parmci.h>

#include "products/comex/armci/fatal.hpp"

// ARMCI_DEFINE(int, ARMCI_Fence, (int proc), { ... }): parameters in brackets; in the body `call`
// is the name. The weak name is declared in armci.h already. No exception leaves a call: it ends
// the job as any other failure does.
#define ARMCI_DEFINE(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_TWICE_(RESULT, P##NAME, NAME, PARAMETERS, __VA_ARGS__)

// The same for names in small letters: parmci_x and armci_x.
#define ARMCI_DEFINE_SMALL(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_TWICE_(RESULT, p##NAME, NAME, PARAMETERS, __VA_ARGS__)

// A call with one name alone.
#define ARMCI_DEFINE_PLAIN(RESULT, NAME, PARAMETERS, ...) \
  ARMCI_DEFINE_AS_(RESULT, NAME, NAME, PARAMETERS, __VA_ARGS__)

#define ARMCI_DEFINE_TWICE_(RESULT, TRUE_NAME, NAME, PARAMETERS, ...)                     \
  extern "C" RESULT NAME PARAMETERS __attribute__((weak, alias(ARMCI_TEXT_(TRUE_NAME)))); \
  ARMCI_DEFINE_AS_(RESULT, TRUE_NAME, NAME, PARAMETERS, __VA_ARGS__)
#define ARMCI_DEFINE_AS_(RESULT, TRUE_NAME, NAME, PARAMETERS, ...) \
  extern "C" RESULT TRUE_NAME PARAMETERS {                         \
    [[maybe_unused]] constexpr const char *call = #NAME;           \
    try __VA_ARGS__ catch (const std::exception &thrown) {         \
      tanada::comex::armci::fatal(call, "%s", thrown.what());      \
    }                                                              \
  }
#define ARMCI_TEXT_(NAME) ARMCI_TEXT_OF_(NAME)
#define ARMCI_TEXT_OF_(NAME) #NAME
