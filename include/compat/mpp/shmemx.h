/* mpp/shmemx.h: shmemx.h beside mpp/shmem.h. */
#ifndef TANADA_COMPAT_MPP_SHMEMX_H
#define TANADA_COMPAT_MPP_SHMEMX_H

#include "../shmemx.h"

#endif
