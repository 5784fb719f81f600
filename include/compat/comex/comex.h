/* comex.h: one-sided communication under Global Arrays: the ComEx interface of Global Arrays 5.8
 * and 5.9. C11 and C++20; needs an MPI's mpi.h. The names are ComEx's own.
 *
 * Every process of MPI_COMM_WORLD, or of the communicator that comex_init_comm is given, is a rank
 * of the world group. Memory that others may read and write comes of comex_malloc; any memory may
 * be the local side of a transfer.
 *
 * Sizes are bytes, in int as ComEx has them: at most 2 GiB - 1 in one piece. Unless said otherwise,
 * calls return COMEX_SUCCESS. What cannot be done (memory that was not given, a rank that is not
 * there, a process that has died) ends the job, with one line on stderr that names call, rank and
 * values: programs of ComEx do not look for it. Where COMEX_FAILURE is said, it comes with such a
 * line, and nothing has happened.
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

/** `count` pieces of `bytes` bytes each: src[i] to dst[i]. In comex_get the sources are remote,
 * else the targets. */
typedef struct {
  void **src;
  void **dst;
  int count; /* elements of src and of dst */
  int bytes; /* of each piece */
} comex_giov_t;

/** A transfer in flight: valid from a call with `_nb` to the comex_wait, or the comex_test with
 * status 0, that ends it. */
typedef int comex_request_t;

/** A group of ranks, numbered from 0 in it. Handles mean nothing to other ranks. */
typedef int comex_group_t;

#define COMEX_GROUP_WORLD 0
#define COMEX_GROUP_NULL -1

#define COMEX_SUCCESS 0
#define COMEX_FAILURE 1

/* Operations of comex_rmw: on int, and on long. */
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

/** Collective over all ranks, once; a call after the first does nothing. MPI is initialised before;
 * comex_init_args does it, too, where nobody has. comex_init_comm: the ranks of `comm`, which stays
 * the caller's. */
int comex_init(void);
int comex_init_args(int *argc, char ***argv);
int comex_init_comm(MPI_Comm comm);

/** 1 between init and finalize, else 0. */
int comex_initialized(void);

/** Collective. Waits for all transfers, frees what comex_malloc gave. MPI stays as it is. */
int comex_finalize(void);

/** Ends the job: `msg`, the rank and `code` on stderr, then MPI_Abort with `code`. Does not return.
 */
void comex_error(const char *msg, int code);

/* Groups. */

/** Collective over the ranks of `pid_list` alone: a group of `n` ranks, which are numbered in
 * `group` and in the order of the list. Others may call, too: to ask about the group, in which
 * their rank is MPI_UNDEFINED, and to free it. COMEX_FAILURE: a rank is not in `group`, or is there
 * twice. */
int comex_group_create(int n, int *pid_list, comex_group_t group, comex_group_t *new_group);

/** Collective over the group. COMEX_GROUP_WORLD cannot be freed. */
int comex_group_free(comex_group_t group);

int comex_group_rank(comex_group_t group, int *rank);
int comex_group_size(comex_group_t group, int *size);

/** The group's communicator, for MPI's calls: the library's own, not to be freed. */
int comex_group_comm(comex_group_t group, MPI_Comm *comm);

/** The numbers in `group_to` of `n` ranks of `group_from`. */
int comex_group_translate_ranks(int n, comex_group_t group_from, int *ranks_from,
                                comex_group_t group_to, int *ranks_to);
int comex_group_translate_world(comex_group_t group, int group_rank, int *world_rank);

/** Collective over the group. All that its ranks have put and accumulated before is in its place
 * when it returns. */
int comex_barrier(comex_group_t group);

/* Transfers.
 *
 * `proc` is a rank of `group`. put and acc return when the source may be used again, get when the
 * target is there; with `nb` that is so after the wait. put and acc are seen by others after a
 * fence or a barrier. acc is atomic for each element against other acc, to `int` as to all types.
 * acc adds whole elements: bytes beyond the last whole one of a piece stay as they are.
 *
 * puts, gets, accs: `stride_levels` + 1 dimensions, at most COMEX_MAX_STRIDE_LEVEL strides.
 * count[0] is the bytes of a piece, count[i] the pieces at distances of stride[i - 1] bytes. putv,
 * getv, accv: `len` vectors of pieces. */

int comex_put(void *src, void *dst, int bytes, int proc, comex_group_t group);
int comex_get(void *src, void *dst, int bytes, int proc, comex_group_t group);
int comex_acc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group);

int comex_puts(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
               int stride_levels, int proc, comex_group_t group);
int comex_gets(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
               int stride_levels, int proc, comex_group_t group);
int comex_accs(int op, void *scale, void *src, int *src_stride, void *dst, int *dst_stride,
               int *count, int stride_levels, int proc, comex_group_t group);

int comex_putv(comex_giov_t *darr, int len, int proc, comex_group_t group);
int comex_getv(comex_giov_t *darr, int len, int proc, comex_group_t group);
int comex_accv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group);

/** `nb_handle` is written; what the call describes (strides, vectors, scale) may be gone when it
 * returns, memory may not. */
int comex_nbput(void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle);
int comex_nbget(void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle);
int comex_nbacc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle);

int comex_nbputs(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
                 int stride_levels, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbgets(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
                 int stride_levels, int proc, comex_group_t group, comex_request_t *nb_handle);
int comex_nbaccs(int op, void *scale, void *src, int *src_stride, void *dst, int *dst_stride,
                 int *count, int stride_levels, int proc, comex_group_t group,
                 comex_request_t *nb_handle);

int comex_nbputv(comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle);
int comex_nbgetv(comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle);
int comex_nbaccv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle);

/** The transfer is done at this end, as it is when a call without `nb` returns. A handle that was
 * waited for is done. */
int comex_wait(comex_request_t *nb_handle);

/** *status: 0, done, and the handle with it; 1, on its way. */
int comex_test(comex_request_t *nb_handle, int *status);

/** All transfers of this rank, or those to one, have been waited for. */
int comex_wait_all(comex_group_t group);
int comex_wait_proc(int proc, comex_group_t group);

/** What this rank has put and accumulated, at one rank or at all of the group, is in its place
 * there. */
int comex_fence_proc(int proc, comex_group_t group);
int comex_fence_all(comex_group_t group);

/** Atomic, on int or long at `prem` of that rank. SWAP exchanges it with *ploc, FETCH_AND_ADD adds
 * `extra` and writes the value of before to *ploc. */
int comex_rmw(int op, void *ploc, void *prem, int extra, int proc, comex_group_t group);

/* Memory. */

/** Collective over the group: `bytes` of this rank, which may differ from rank to rank and be 0
 * (then the pointer is NULL). ptr_arr[i]: where that of rank i is, to name it in transfers. The
 * device forms: memory of a device that `device` names: "gpu", which no processor reaches by loads
 * and stores; "dram", NULL or "" for the host's. COMEX_FAILURE, for all of the group, with a line:
 * a rank has no such piece free (TND_COMEX_HEAP, TND_COMEX_DEVICE_HEAP), or there is no such
 * device. */
int comex_malloc(void **ptr_arr, size_t bytes, comex_group_t group);
int comex_malloc_mem_dev(void **ptr_arr, size_t bytes, comex_group_t group, const char *device);

/** Collective over the group that allocated, each rank with its own pointer. */
int comex_free(void *ptr, comex_group_t group);
int comex_free_dev(void *ptr, comex_group_t group);

/** Memory of this rank alone that transfers reach well. NULL: there is none. */
void *comex_malloc_local(size_t bytes);
int comex_free_local(void *ptr);

/* Mutexes. */

/** Collective over all ranks: `num` of them at this rank, once until they are destroyed. */
int comex_create_mutexes(int num);
int comex_destroy_mutexes(void);

/** Mutex number `mutex` of rank `proc` of the world. COMEX_FAILURE: there is none. */
int comex_lock(int mutex, int proc);
int comex_unlock(int mutex, int proc);

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
