/*
 * bench/shmemg/pairs_device.h: the device of pairs_mpi.c: a GPU (pairs_cuda.c), or the host's
 * memory in its place (pairs_host.c), as for a program on the host executor.
 */
#pragma once

#include <stddef.h>

/* Of pairs_size_max bytes each. devices[1]: on another device if there is one. */
struct pairs_memory {
  char *host_local, *host_remote, *devices[2];
};

/* A failure of these calls ends the program. */
struct pairs_memory pairs_device_open(int me);
void pairs_device_copy(char *to, const char *from, size_t size); /* may return before its end */
void pairs_device_wait(void);
