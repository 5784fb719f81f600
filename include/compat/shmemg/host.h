/* shmemg/host.h: what the host calls for memory of devices. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEMG_HOST_H
#define TANADA_COMPAT_SHMEMG_HOST_H

#include "../shmem/constants.h"

#endif
