/* comex.h: one-sided communication for Global Arrays: the ComEx interface of Global Arrays 5.8 and
 * 5.9. C11 and C++20; needs an MPI's mpi.h. The names are ComEx's own.
 *
 * Every process of MPI_COMM_WORLD, or of the communicator passed to comex_init_comm, is a rank of
 * the world group. comex_malloc allocates memory that others may read and write; any memory may be
 * the local side of a transfer.
 *
 * Sizes are in bytes and, as in ComEx, of type int: at most 2 GiB - 1 in one piece. Unless stated
 * otherwise, calls return COMEX_SUCCESS. A failure ends the job, with one line on stderr that names
 * call, rank and values, since ComEx programs do not check for it. Examples are memory that was not
 * allocated, a rank that does not exist, and a process that has died. Where COMEX_FAILURE is
 * documented, such a line is printed, and nothing has happened.
 *
 * Thread safety: one thread of a process calls at a time. */
#ifndef TANADA_COMPAT_COMEX_COMEX_H
#define TANADA_COMPAT_COMEX_COMEX_H

#include <stddef.h>
#include <stdlib.h>

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

/** `count` pieces of `bytes` bytes each, from src[i] to dst[i]. In comex_getv the sources are
 * remote, else the targets. */
typedef struct {
  void **src;
  void **dst;
  int count; /* elements of src and of dst */
  int bytes; /* of each piece */
} comex_giov_t;

/** A transfer in flight. Valid from a call with `nb` until the comex_wait, or the comex_test with
 * status 0, that ends it. */
typedef int comex_request_t;

/** A group of ranks, which are numbered from 0 in it. Handles are local to a rank. */
typedef int comex_group_t;

#define COMEX_GROUP_WORLD 0
#define COMEX_GROUP_NULL -1

#define COMEX_SUCCESS 0
#define COMEX_FAILURE 1

/* Operations of comex_rmw, on int and on long. */
#define COMEX_SWAP 10
#define COMEX_SWAP_LONG 11
#define COMEX_FETCH_AND_ADD 12
#define COMEX_FETCH_AND_ADD_LONG 13

/* Operations of comex_acc: target += scale * source, in int, double, float, complex of float,
 * complex of double, long. */
#define COMEX_ACC_OFF 36
#define COMEX_ACC_INT (COMEX_ACC_OFF + 1)
#define COMEX_ACC_DBL (COMEX_ACC_OFF + 2)
#define COMEX_ACC_FLT (COMEX_ACC_OFF + 3)
#define COMEX_ACC_CPL (COMEX_ACC_OFF + 4)
#define COMEX_ACC_DCP (COMEX_ACC_OFF + 5)
#define COMEX_ACC_LNG (COMEX_ACC_OFF + 6)

#define COMEX_MAX_STRIDE_LEVEL 8

/* Start and end. */

/** Collective over all ranks; a no-op while the library is initialized. Initializes MPI if the
 * program has not. comex_init_comm: uses the ranks of `comm`, which the caller still owns. */
int comex_init(void);
int comex_init_args(int *argc, char ***argv);
int comex_init_comm(MPI_Comm comm);

/** 1 between init and finalize, else 0. */
int comex_initialized(void);

/** Collective. Completes all transfers and frees all memory of comex_malloc. MPI is not finalized.
 */
int comex_finalize(void);

/** Ends the job: prints `msg`, the rank and `code` to stderr, and calls MPI_Abort with `code`, or
 * with 1 if the low 8 bits of `code` are 0. Does not return. */
void comex_error(const char *msg, int code);

/* Groups. */

/** Collective over only the ranks of `pid_list`. Creates a group of these `n` ranks, which are
 * numbered in `group`, in the order of the list. Other ranks may call, too, to query and free the
 * group; their rank in it is MPI_UNDEFINED. COMEX_FAILURE: `n` is invalid, or a rank is not in
 * `group` or is listed twice. */
int comex_group_create(int n, int *pid_list, comex_group_t group, comex_group_t *new_group);

/** Collective over the group. COMEX_FAILURE for COMEX_GROUP_WORLD, which cannot be freed. */
int comex_group_free(comex_group_t group);

int comex_group_rank(comex_group_t group, int *rank);
int comex_group_size(comex_group_t group, int *size);

/** The group's communicator for MPI calls. The library owns it; do not free it. */
int comex_group_comm(comex_group_t group, MPI_Comm *comm);

/** Translates `n` ranks of `group_from` to ranks of `group_to`; MPI_UNDEFINED for a rank that is
 * not in it. */
int comex_group_translate_ranks(
    int n, comex_group_t group_from, int *ranks_from, comex_group_t group_to, int *ranks_to);
int comex_group_translate_world(comex_group_t group, int group_rank, int *world_rank);

/** Collective over the group. On return all earlier puts and accumulates of its ranks are complete
 * at their targets. */
int comex_barrier(comex_group_t group);

/* Transfers.
 *
 * `proc` is a rank of `group`. put and acc return when the source may be reused, get when the
 * target has the data; with `nb` that holds after the wait. Others see puts and accs after a fence
 * or a barrier. acc is atomic for each element with respect to other accs, for all types. acc adds
 * whole elements: bytes after the last whole element of a piece stay unchanged.
 *
 * puts, gets and accs have `stride_levels` + 1 dimensions, and at most COMEX_MAX_STRIDE_LEVEL
 * strides. count[0] is the size of a piece in bytes, count[i] the number of pieces at distances of
 * stride[i - 1] bytes. putv, getv and accv move `len` vectors of pieces. */

int comex_put(void *src, void *dst, int bytes, int proc, comex_group_t group);
int comex_get(void *src, void *dst, int bytes, int proc, comex_group_t group);
int comex_acc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group);

int comex_puts(void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group);
int comex_gets(void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group);
int comex_accs(int op,
               void *scale,
               void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group);

int comex_putv(comex_giov_t *darr, int len, int proc, comex_group_t group);
int comex_getv(comex_giov_t *darr, int len, int proc, comex_group_t group);
int comex_accv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group);

/** Set `nb_handle`. Strides, vectors and scale may be reused on return; the memory that is moved
 * may not. */
int comex_nbput(
    void *src, void *dst, int bytes, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbget(
    void *src, void *dst, int bytes, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbacc(int op,
                void *scale,
                void *src,
                void *dst,
                int bytes,
                int proc,
                comex_group_t group,
                comex_request_t *nb_handle);

int comex_nbputs(void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle);
int comex_nbgets(void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle);
int comex_nbaccs(int op,
                 void *scale,
                 void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle);

int comex_nbputv(
    comex_giov_t *darr, int len, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbgetv(
    comex_giov_t *darr, int len, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbaccv(int op,
                 void *scale,
                 comex_giov_t *darr,
                 int len,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle);

/** Waits until the transfer is complete locally, as it is when a call without `nb` returns. A
 * handle that was waited for before is complete. */
int comex_wait(comex_request_t *nb_handle);

/** Sets *status to 0 if the transfer is complete, which ends the handle, and to 1 if it is in
 * flight. */
int comex_test(comex_request_t *nb_handle, int *status);

/** Wait for all transfers of this rank, or for those to one rank. */
int comex_wait_all(comex_group_t group);
int comex_wait_proc(int proc, comex_group_t group);

/** Wait until all puts and accumulates of this rank are complete at one rank, or at all ranks of
 * the group. */
int comex_fence_proc(int proc, comex_group_t group);
int comex_fence_all(comex_group_t group);

/** Atomic update of the int or long at `prem` of that rank. SWAP exchanges it with *ploc.
 * FETCH_AND_ADD adds `extra`, and stores the old value to *ploc. */
int comex_rmw(int op, void *ploc, void *prem, int extra, int proc, comex_group_t group);

/* Memory. */

/** Collective over the group. Allocates `bytes` on this rank, which may differ between ranks and be
 * 0 (then the pointer is NULL). ptr_arr[i] is the address of rank i's memory, for use in
 * transfers. The device forms allocate in the memory that `device` names. "gpu" is GPU memory,
 * which loads and stores cannot access; "dram", NULL or "" is host memory. COMEX_FAILURE on all
 * ranks of the group: a rank has no free piece of that size (TND_COMEX_HEAP,
 * TND_COMEX_DEVICE_HEAP), or there is no such device. */
int comex_malloc(void **ptr_arr, size_t bytes, comex_group_t group);
int comex_malloc_mem_dev(void **ptr_arr, size_t bytes, comex_group_t group, const char *device);

/** Collective over the group that has allocated the memory; each rank passes its own pointer. */
int comex_free(void *ptr, comex_group_t group);
int comex_free_dev(void *ptr, comex_group_t group);

/** Memory of only this rank that is efficient in transfers. NULL: there is not enough memory, or
 * `bytes` is 0. */
void *comex_malloc_local(size_t bytes);
int comex_free_local(void *ptr);

/* Mutexes. */

/** Collective over all ranks. Creates `num` mutexes on this rank, until they are destroyed; they
 * exist at most once. */
int comex_create_mutexes(int num);
int comex_destroy_mutexes(void);

/** Mutex number `mutex` of world rank `proc`. COMEX_FAILURE: it does not exist. */
int comex_lock(int mutex, int proc);
int comex_unlock(int mutex, int proc);

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
