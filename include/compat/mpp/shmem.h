/* mpp/shmem.h: shmem.h under the name that OpenSHMEM inherited from SGI's library (specification,
 * section 6). */
#ifndef TANADA_COMPAT_MPP_SHMEM_H
#define TANADA_COMPAT_MPP_SHMEM_H

#include "../shmem.h"

#endif
