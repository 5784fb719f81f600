/* parmci.h: the names PARMCI_x, which profiling libraries call in place of ARMCI_x. C11 and C++20.
 */
#ifndef TANADA_COMPAT_COMEX_PARMCI_H
#define TANADA_COMPAT_COMEX_PARMCI_H

#include "armci.h"
#include "message.h"

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

ARMCI_DECLARE_LIFE(P)
ARMCI_DECLARE_TRANSFERS(P)
ARMCI_DECLARE_STRIDED(P)
ARMCI_DECLARE_VECTORS(P)
ARMCI_DECLARE_VALUES(P)
ARMCI_DECLARE_ORDER(P)
ARMCI_DECLARE_MEMORY(P)
ARMCI_DECLARE_NOTIFY(p)
ARMCI_DECLARE_BARRIERS(p)

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
