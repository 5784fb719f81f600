// parts/constants.h: constants, handles and structures of NVSHMEM's interface. Not for direct
// inclusion.
#pragma once

#include "select.h"

#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 4
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_MAX_NAME_LEN 256
#define NVSHMEM_VENDOR_STRING "Tanada"

#define NVSHMEM_THREAD_SINGLE SHMEM_THREAD_SINGLE
#define NVSHMEM_THREAD_FUNNELED SHMEM_THREAD_FUNNELED
#define NVSHMEM_THREAD_SERIALIZED SHMEM_THREAD_SERIALIZED
#define NVSHMEM_THREAD_MULTIPLE SHMEM_THREAD_MULTIPLE

#define NVSHMEM_CMP_EQ SHMEM_CMP_EQ
#define NVSHMEM_CMP_NE SHMEM_CMP_NE
#define NVSHMEM_CMP_GT SHMEM_CMP_GT
#define NVSHMEM_CMP_GE SHMEM_CMP_GE
#define NVSHMEM_CMP_LT SHMEM_CMP_LT
#define NVSHMEM_CMP_LE SHMEM_CMP_LE

#define NVSHMEM_SIGNAL_SET SHMEM_SIGNAL_SET
#define NVSHMEM_SIGNAL_ADD SHMEM_SIGNAL_ADD

#define NVSHMEM_SUCCESS 0

/// A team of PEs, valid in host code and in kernels. Teams that are split have the next numbers.
typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
#define NVSHMEM_TEAM_INVALID ((nvshmem_team_t) - 1)
#define NVSHMEM_TEAM_WORLD ((nvshmem_team_t)0)
/// The PEs whose memory kernels load and store.
#define NVSHMEM_TEAM_SHARED ((nvshmem_team_t)1)
/// The PEs of the node; for collectives, NVSHMEM_TEAM_SHARED.
#define NVSHMEMX_TEAM_NODE ((nvshmem_team_t)0x4000)

typedef struct {
  int num_contexts;
} nvshmem_team_config_t;
#define NVSHMEM_TEAM_NUM_CONTEXTS SHMEM_TEAM_NUM_CONTEXTS
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS SHMEM_TEAM_NUM_CONTEXTS
#define NVSHMEM_TEAM_CONFIG_INITIALIZER {0}

enum nvshmemx_status {
  NVSHMEMX_SUCCESS = 0,
  NVSHMEMX_ERROR_INVALID_VALUE,
  NVSHMEMX_ERROR_OUT_OF_MEMORY,
  NVSHMEMX_ERROR_NOT_SUPPORTED,
  NVSHMEMX_ERROR_SYMMETRY,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
  NVSHMEMX_ERROR_INTERNAL
};

/// Of nvshmemx_init_status().
enum {
  NVSHMEM_STATUS_NOT_INITIALIZED = 0,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED,
  NVSHMEM_STATUS_IS_INITIALIZED,
  NVSHMEM_STATUS_LIMITED_MPG,
  NVSHMEM_STATUS_FULL_MPG
};

#define NVSHMEMX_INIT_THREAD_PES 1
#define NVSHMEMX_INIT_WITH_MPI_COMM (1 << 1)
#define NVSHMEMX_INIT_WITH_SHMEM (1 << 2)
#define NVSHMEMX_INIT_WITH_UNIQUEID (1 << 3)

/// Names a job to all of its processes.
typedef struct {
  int version;
  char internal[124];
} nvshmemx_uniqueid_t;
#define NVSHMEMX_UNIQUEID_INITIALIZER {1, {0}}

typedef struct {
  int version;
  nvshmemx_uniqueid_t *id;
  int myrank, nranks;
} nvshmemx_uniqueid_args_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
} nvshmemx_init_args_t;
typedef struct {
  int version;
  void *mpi_comm;  ///< of type MPI_Comm *
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;
#define NVSHMEMX_INIT_ATTR_INITIALIZER \
  {                                    \
    1, NULL, {                         \
      1, {1, NULL, 0, 0}               \
    }                                  \
  }

// ---- types. X(NAME, TYPE, A) for each row.

#define NVSHMEM_TABLE_SMALL_(X, A) \
  SHMEM_TABLE_SMALL_SIGNED(X, A)   \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A) \
  SHMEM_TABLE_SMALL_FIXED(X, A)    \
  X(half, half, A) X(bfloat16, __nv_bfloat16, A)
/// Memory access, moving collectives, and sums, products, minima and maxima.
#define NVSHMEM_TABLE_RMA_(X, A) \
  X(float, float, A) X(double, double, A) NVSHMEM_TABLE_SMALL_(X, A) SHMEM_TABLE_AMO(X, A)
#define NVSHMEM_TABLE_AMO_(X, A) SHMEM_TABLE_AMO(X, A)
#define NVSHMEM_TABLE_AMO_EXTENDED_(X, A) SHMEM_TABLE_AMO_EXTENDED(X, A)
#define NVSHMEM_TABLE_AMO_BITS_(X, A) SHMEM_TABLE_AMO_BITS(X, A)
/// Waits and tests.
#define NVSHMEM_TABLE_WAIT_(X, A) SHMEM_TABLE_AMO(X, A)
#define NVSHMEM_TABLE_REDUCE_BITS_(X, A) \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)       \
  SHMEM_TABLE_SMALL_FIXED(X, A)          \
  SHMEM_TABLE_AMO(X, A)
/// Widths in bits: X(BITS, TYPE, A).
#define NVSHMEM_TABLE_BITS_(X, A) \
  X(8, uint8_t, A) X(16, uint16_t, A) X(32, uint32_t, A) X(64, uint64_t, A) X(128, double2, A)
