// device_host/nvshmem_tensor.h: NVSHMEM's tile collectives and internals, which are not available.
#pragma once

#error "NVSHMEM's tile collectives are not available: use nvshmemx_TYPE_OP_reduce_block and others"
