/* pshmem.h: the names pshmem_x, which libraries that profile call (OpenSHMEM 1.6, section 10).
 * shmem.h has them. */
#ifndef TANADA_COMPAT_PSHMEM_H
#define TANADA_COMPAT_PSHMEM_H

#include "shmem.h"

#endif
