// nvshmemx.h: NVSHMEM's extensions: starts, streams, collective launches, registered memory. C++17.
#ifndef TANADA_COMPAT_NVSHMEMX_H
#define TANADA_COMPAT_NVSHMEMX_H

#include "nvshmem.h"

#include "parts/start.h"
#include "parts/on_stream.h"
#include "parts/registered.h"
#include "parts/absent.h"

#endif
