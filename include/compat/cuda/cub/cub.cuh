// cub/cub.cuh: what the host executor has of CUB, reductions of blocks and warps.
#pragma once

#include "block/block_reduce.cuh"
#include "warp/warp_reduce.cuh"
