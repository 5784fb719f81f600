/* shmemg/handles.h: handles that host and kernels both know. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEMG_HANDLES_H
#define TANADA_COMPAT_SHMEMG_HANDLES_H

#include "../shmem/constants.h"

/* Teams of devices: all PEs, and those whose device memory kernels here reach by loads and stores.
 * Teams that are split from them, and contexts made with SHMEM_DEVICE_CTX, have the numbers after
 * these. */
#define SHMEM_DEVICE_TEAM_WORLD ((shmem_team_t)3)
#define SHMEM_DEVICE_TEAM_SHARED ((shmem_team_t)4)
#define SHMEM_DEVICE_CTX_DEFAULT ((shmem_ctx_t)2)

#endif
