// nvshmem.h: NVSHMEM's interface over Tanada's OpenSHMEM: programs written for NVSHMEM compile
// unchanged, with nvcc for GPUs and with tanada-nvcc for the host executor. Names and meanings are
// those of NVIDIA's public documentation; docs/nvshmem.md has the differences. C++17.
//
// Symmetric memory is that of devices. Names of calls for one thread serve host code, too: there
// collectives are queued on the default stream and waited for. An invalid call ends the job with a
// message, in kernels at the host's next call that waits.
#ifndef TANADA_COMPAT_NVSHMEM_H
#define TANADA_COMPAT_NVSHMEM_H

#include "parts/collectives.h"

#endif
