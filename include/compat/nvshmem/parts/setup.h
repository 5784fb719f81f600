// parts/setup.h: the start and the end, memory, teams, ordering. Not for direct inclusion.
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constants.h"

namespace tanada::nvshmem {

// ---- teams: a device team's number, less that of the first one

NVSHMEM_BOTH_ u64 team_number(nvshmem_team_t team) {
  if (team == NVSHMEMX_TEAM_NODE)
    team = NVSHMEM_TEAM_SHARED;
  return team < 0 ? 0 : u64(team) + bodies::team_first;
}
inline shmem_team_t host_team(nvshmem_team_t team) {
  return reinterpret_cast<shmem_team_t>(team_number(team));
}
// For queries: a node's PEs are known also where their devices do not reach one another.
inline shmem_team_t queried_team(nvshmem_team_t team) {
  return team == NVSHMEMX_TEAM_NODE ? SHMEM_TEAM_SHARED : host_team(team);
}
inline nvshmem_team_t team_of(shmem_team_t team) {
  uintptr_t const number = reinterpret_cast<uintptr_t>(team);
  return number < bodies::team_first ? NVSHMEM_TEAM_INVALID
                                     : nvshmem_team_t(number - bodies::team_first);
}

TND_DEVICE inline int member_number(nvshmem_team_t team) {
  bodies::member_view self;
  return bodies::find_team(team_number(team), self) ? self.team.me : -1;
}
TND_DEVICE inline int member_count(nvshmem_team_t team) {
  bodies::member_view self;
  return bodies::find_team(team_number(team), self) ? self.team.count : -1;
}
TND_DEVICE inline int translate(nvshmem_team_t source, int pe, nvshmem_team_t target) {
  bodies::member_view from, to;
  if (!bodies::find_team(team_number(source), from) || !bodies::find_team(team_number(target), to))
    return -1;
  if (pe < 0 || pe >= from.team.count)
    return -1;
  int const world = from.world(pe);
  for (int i = 0; i < to.team.count; i++)
    if (to.world(i) == world)
      return i;
  return -1;
}

// ---- the start

// NVSHMEM_SYMMETRIC_SIZE, for a heap of devices: a program that sets its need exactly has room for
// the pieces' alignment, too.
inline constexpr unsigned long long heap_size_default = 4ull << 30, heap_size_more = 16ull << 20;

inline unsigned long long size_of_text(const char *text) {
  char *end = nullptr;
  double const number = strtod(text, &end);
  unsigned long long scale = 1;
  switch (*end) {
    case 'k':
    case 'K':
      scale = 1ull << 10;
      break;
    case 'm':
    case 'M':
      scale = 1ull << 20;
      break;
    case 'g':
    case 'G':
      scale = 1ull << 30;
      break;
    case 't':
    case 'T':
      scale = 1ull << 40;
      break;
    default:
      break;
  }
  return number > 0 ? static_cast<unsigned long long>(number * double(scale)) : 0;
}

inline void set_heap_size() {
  const char *const text = getenv("NVSHMEM_SYMMETRIC_SIZE");
  unsigned long long const size = text != nullptr ? size_of_text(text) : heap_size_default;
  if (size == 0) {
    fprintf(stderr,
            "nvshmem: NVSHMEM_SYMMETRIC_SIZE=%s is not a number of bytes, such as 512M or 4G\n",
            text);
    exit(1);
  }
  char number[32];
  snprintf(number, sizeof number, "%llu", size + heap_size_more);
  (void)setenv("SHMEM_DEVICE_SYMMETRIC_SIZE", number, 0);
}

// Settings of Tanada that make calls behave as NVSHMEM's do.
inline void set_behavior() {
  set_heap_size();
  (void)setenv("TND_SHMEM_DEVICE_PRIVATE", "on", 0);
}

inline int start_count = 0;

inline int start(int thread_level, int *provided) {
  set_behavior();
  int const wanted = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;
  int given = 0;
  if (shmem_init_thread(thread_level | wanted, &given) != 0)
    return NVSHMEMX_ERROR_INTERNAL;
  if ((given & wanted) != wanted) {
    fprintf(stderr, "nvshmem: no device whose kernels can call: see the log (TND_LOG)\n");
    return NVSHMEMX_ERROR_GPU_NOT_SELECTED;
  }
  start_count++;
  if (provided != nullptr)
    *provided = given & ~wanted;
  return NVSHMEMX_SUCCESS;
}

inline void start_or_end(int thread_level, int *provided) {
  if (start(thread_level, provided) != NVSHMEMX_SUCCESS)
    exit(1);
}

// The processes' numbers are the launcher's: those that a program got otherwise must agree.
inline int start_as(int rank, int rank_count, const char *source) {
  int const code = start(SHMEM_THREAD_SERIALIZED, nullptr);
  if (code != NVSHMEMX_SUCCESS)
    return code;
  if (shmem_my_pe() == rank && shmem_n_pes() == rank_count)
    return code;
  fprintf(stderr,
          "nvshmemx_init_attr: process %d of %d by %s is PE %d of %d by the launcher: start all "
          "processes with oshrun, mpirun or srun, and pass all of them in their order\n",
          rank,
          rank_count,
          source,
          shmem_my_pe(),
          shmem_n_pes());
  return NVSHMEMX_ERROR_INVALID_VALUE;
}

// The program's MPI is asked, so that these headers need none. A communicator is a word or smaller.
inline bool ask_mpi(const char *name, const void *communicator, int *number) {
  void *const function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr || communicator == nullptr)
    return false;
  void *handle = nullptr;
  memcpy(&handle, communicator, sizeof handle);
  return reinterpret_cast<int (*)(void *, int *)>(function)(handle, number) == 0;
}

inline int start_with(unsigned flags, nvshmemx_init_attr_t *attributes) {
  if (attributes != nullptr && (flags & NVSHMEMX_INIT_WITH_UNIQUEID) != 0) {
    nvshmemx_uniqueid_args_t const &job = attributes->args.uid_args;
    return start_as(job.myrank, job.nranks, "its unique id");
  }
  int rank = 0, rank_count = 0;
  if (attributes != nullptr && (flags & NVSHMEMX_INIT_WITH_MPI_COMM) != 0 &&
      ask_mpi("MPI_Comm_rank", attributes->mpi_comm, &rank) &&
      ask_mpi("MPI_Comm_size", attributes->mpi_comm, &rank_count))
    return start_as(rank, rank_count, "its communicator");
  return start(SHMEM_THREAD_SERIALIZED, nullptr);
}

inline void end() {
  if (start_count == 0)
    return;
  start_count--;
  shmem_finalize();
}

// Waits for the collectives that the host has queued for a call of its own.
inline int wait_for_default_stream(int code) {
  return code != 0 ? code : int(cudaStreamSynchronize(nullptr));
}

}  // namespace tanada::nvshmem

// ---- the start and the end

inline void nvshmem_init() {
  tanada::nvshmem::start_or_end(NVSHMEM_THREAD_SERIALIZED, nullptr);
}
inline int nvshmem_init_thread(int requested, int *provided) {
  return tanada::nvshmem::start(requested, provided);
}
inline void nvshmem_query_thread(int *provided) {
  shmem_query_thread(provided);
}
inline void nvshmem_finalize() {
  tanada::nvshmem::end();
}
[[noreturn]] inline void nvshmem_global_exit(int status) {
  shmem_global_exit(status);
}

NVSHMEM_BOTH_ int nvshmem_my_pe() {
  NVSHMEM_SELECT_(shmemg_my_pe(), shmem_my_pe());
}
NVSHMEM_BOTH_ int nvshmem_n_pes() {
  NVSHMEM_SELECT_(shmemg_n_pes(), shmem_n_pes());
}
NVSHMEM_BOTH_ void nvshmem_info_get_version(int *major, int *minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}
NVSHMEM_BOTH_ void nvshmem_info_get_name(char *name) {
  const char text[] = NVSHMEM_VENDOR_STRING;
  for (size_t i = 0; i < sizeof text; i++)
    name[i] = text[i];
}

// ---- memory, of devices

inline void *nvshmem_malloc(size_t size) {
  return shmemg_malloc(size);
}
inline void *nvshmem_calloc(size_t count, size_t size) {
  return shmemg_calloc(count, size);
}
inline void *nvshmem_align(size_t alignment, size_t size) {
  return shmemg_align(alignment, size);
}
inline void nvshmem_free(void *ptr) {
  shmemg_free(ptr);
}
NVSHMEM_BOTH_ void *nvshmem_ptr(const void *dest, int pe) {
  NVSHMEM_SELECT_(shmemg_ptr(dest, pe), shmem_ptr(dest, pe));
}

// ---- teams

NVSHMEM_BOTH_ int nvshmem_team_my_pe(nvshmem_team_t team) {
  NVSHMEM_SELECT_(tanada::nvshmem::member_number(team),
                  shmem_team_my_pe(tanada::nvshmem::queried_team(team)));
}
NVSHMEM_BOTH_ int nvshmem_team_n_pes(nvshmem_team_t team) {
  NVSHMEM_SELECT_(tanada::nvshmem::member_count(team),
                  shmem_team_n_pes(tanada::nvshmem::queried_team(team)));
}
NVSHMEM_BOTH_ int nvshmem_team_translate_pe(nvshmem_team_t src_team,
                                            int src_pe,
                                            nvshmem_team_t dest_team) {
  NVSHMEM_SELECT_(tanada::nvshmem::translate(src_team, src_pe, dest_team),
                  shmem_team_translate_pe(tanada::nvshmem::queried_team(src_team),
                                          src_pe,
                                          tanada::nvshmem::queried_team(dest_team)));
}
inline void nvshmem_team_get_config(nvshmem_team_t, nvshmem_team_config_t *config) {
  config->num_contexts = 0;
}
inline int nvshmem_team_split_strided(nvshmem_team_t parent_team,
                                      int start,
                                      int stride,
                                      int size,
                                      const nvshmem_team_config_t *,
                                      long,
                                      nvshmem_team_t *new_team) {
  shmem_team_t team = SHMEM_TEAM_INVALID;
  int const code = shmem_team_split_strided(
      tanada::nvshmem::host_team(parent_team), start, stride, size, nullptr, 0, &team);
  *new_team = tanada::nvshmem::team_of(team);
  return code;
}
inline int nvshmem_team_split_2d(nvshmem_team_t parent_team,
                                 int xrange,
                                 const nvshmem_team_config_t *,
                                 long,
                                 nvshmem_team_t *xaxis_team,
                                 const nvshmem_team_config_t *,
                                 long,
                                 nvshmem_team_t *yaxis_team) {
  shmem_team_t row = SHMEM_TEAM_INVALID, column = SHMEM_TEAM_INVALID;
  int const code = shmem_team_split_2d(
      tanada::nvshmem::host_team(parent_team), xrange, nullptr, 0, &row, nullptr, 0, &column);
  *xaxis_team = tanada::nvshmem::team_of(row);
  *yaxis_team = tanada::nvshmem::team_of(column);
  return code;
}
inline void nvshmem_team_destroy(nvshmem_team_t team) {
  shmem_team_destroy(tanada::nvshmem::host_team(team));
}

// ---- ordering and synchronization. In kernels: of one thread.

NVSHMEM_BOTH_ void nvshmem_fence() {
  NVSHMEM_SELECT_(shmemg_fence(), shmem_fence());
}
NVSHMEM_BOTH_ void nvshmem_quiet() {
  NVSHMEM_SELECT_(shmemg_quiet(), shmem_quiet());
}
NVSHMEM_BOTH_ int nvshmem_team_sync(nvshmem_team_t team) {
  NVSHMEM_SELECT_(
      int(tanada::shmemg::sync(tanada::this_thread{}, tanada::nvshmem::team_number(team))),
      shmem_team_sync(tanada::nvshmem::host_team(team)));
}
NVSHMEM_BOTH_ int nvshmem_sync(nvshmem_team_t team) {
  return nvshmem_team_sync(team);
}
NVSHMEM_BOTH_ void nvshmem_sync_all() {
  NVSHMEM_SELECT_((void)shmemg_sync_all(), shmem_sync_all());
}
NVSHMEM_BOTH_ void nvshmem_barrier_all() {
  NVSHMEM_SELECT_((void)shmemgx_barrier_all(), shmem_barrier_all());
}
namespace tanada::nvshmem {

inline int host_barrier(nvshmem_team_t team) {
  shmem_quiet();
  return shmem_team_sync(host_team(team));
}

}  // namespace tanada::nvshmem
NVSHMEM_BOTH_ int nvshmem_barrier(nvshmem_team_t team) {
  NVSHMEM_SELECT_(
      int(tanada::shmemg::barrier(tanada::this_thread{}, tanada::nvshmem::team_number(team))),
      tanada::nvshmem::host_barrier(team));
}

#define NVSHMEMX_SYNC_(GROUP, TYPE)                                                          \
  NVSHMEM_DEVICE_ int nvshmemx_team_sync_##GROUP(nvshmem_team_t team) {                      \
    return int(tanada::shmemg::sync(tanada::TYPE{}, tanada::nvshmem::team_number(team)));    \
  }                                                                                          \
  NVSHMEM_DEVICE_ int nvshmemx_sync_##GROUP(nvshmem_team_t team) {                           \
    return nvshmemx_team_sync_##GROUP(team);                                                 \
  }                                                                                          \
  NVSHMEM_DEVICE_ void nvshmemx_sync_all_##GROUP() {                                         \
    (void)tanada::shmemg::sync(tanada::TYPE{});                                              \
  }                                                                                          \
  NVSHMEM_DEVICE_ int nvshmemx_barrier_##GROUP(nvshmem_team_t team) {                        \
    return int(tanada::shmemg::barrier(tanada::TYPE{}, tanada::nvshmem::team_number(team))); \
  }                                                                                          \
  NVSHMEM_DEVICE_ void nvshmemx_barrier_all_##GROUP() {                                      \
    (void)tanada::shmemg::barrier(tanada::TYPE{});                                           \
  }
NVSHMEMX_SYNC_(warp, this_warp)
NVSHMEMX_SYNC_(block, this_block)
#undef NVSHMEMX_SYNC_
