/* shmem.h: OpenSHMEM 1.6: symmetric memory of all processes of a job, read and written one-sidedly.
 * C99, C11, C++11 and up.
 *
 * The names are the specification's; sections in the comments are its own. Each x is there as px,
 * too, and x is a weak name of it, for libraries that profile (section 10). Compile with oshcc or
 * oshc++, run with oshrun. What a call does not accept ends the job with a line on stderr that
 * names call, PE and address; docs/shmem.md has the settings.
 *
 * With TND_SHMEM_WARN_DEPRECATED defined, the compiler warns of deprecated calls. */
#ifndef TANADA_COMPAT_SHMEM_H
#define TANADA_COMPAT_SHMEM_H

#include "shmem/amo.h"
#include "shmem/collectives.h"
#include "shmem/constants.h"
#include "shmem/rma.h"
#include "shmem/setup.h"
#include "shmem/shmem4py.h"
#include "shmem/types.h"
#include "shmem/wait.h"

#if defined(__cplusplus)
#  include "shmem/overloads.h"
#elif __STDC_VERSION__ >= 201112L
#  include "shmem/generics.h"
#endif

#endif
