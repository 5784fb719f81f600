/* armci.h: ARMCI, the aggregate remote memory copy interface, as Global Arrays 5.8 and 5.9 link it.
 * C11 and C++20; needs an MPI's mpi.h. The names are ARMCI's own; link with -larmci.
 *
 * Transfers, fences and mutexes name ranks of the world group; ARMCI_Malloc, ARMCI_Free,
 * ARMCI_Barrier and the messages of message.h are collective over the default group. comex.h
 * states what transfers promise: these are its calls.
 *
 * Calls return 0 unless said otherwise. What cannot be done ends the job with one line on stderr
 * that names call, rank and values; where a call returns something else in place of that (a shape,
 * a size that cannot be), it comes with such a line, and nothing was moved.
 *
 * Calls that are declared by ARMCI_DECLARE_... are there as PARMCI_x (parmci.h), too, of which
 * ARMCI_x is a weak name: a library that profiles defines ARMCI_x and calls PARMCI_x.
 *
 * Thread safety: one thread of a process calls at a time. */
#ifndef TANADA_COMPAT_COMEX_ARMCI_H
#define TANADA_COMPAT_COMEX_ARMCI_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

/** `ptr_array_len` pieces of `bytes` bytes each. */
typedef struct {
  void **src_ptr_array;
  void **dst_ptr_array;
  int ptr_array_len;
  int bytes;
} armci_giov_t;

typedef long armci_size_t; /* bytes */
typedef int armci_hdl_t;   /* a transfer in flight */
typedef int ARMCI_Group;
typedef int armci_domain_t;

/** Memory that one rank has allocated by itself and others may be told of. */
typedef struct armci_meminfo_ds {
  char *armci_addr; /* what transfers name it by */
  char *addr;       /* where its rank has it */
  size_t size;      /* bytes */
  int cpid;         /* its rank in the world */
  long idlist[128];
} armci_meminfo_t;

#define FAIL -1
#define FAIL2 -2
#define FAIL3 -3
#define FAIL4 -4
#define FAIL5 -5
#define FAIL6 -6
#define FAIL7 -7
#define FAIL8 -8

/* Operations of ARMCI_Rmw. */
#define ARMCI_SWAP 10
#define ARMCI_SWAP_LONG 11
#define ARMCI_FETCH_AND_ADD 12
#define ARMCI_FETCH_AND_ADD_LONG 13

/* Operations of ARMCI_Acc. */
#define ARMCI_ACC_OFF 36
#define ARMCI_ACC_INT (ARMCI_ACC_OFF + 1)
#define ARMCI_ACC_DBL (ARMCI_ACC_OFF + 2)
#define ARMCI_ACC_FLT (ARMCI_ACC_OFF + 3)
#define ARMCI_ACC_CPL (ARMCI_ACC_OFF + 4)
#define ARMCI_ACC_DCP (ARMCI_ACC_OFF + 5)
#define ARMCI_ACC_LNG (ARMCI_ACC_OFF + 6)

#define ARMCI_MAX_STRIDE_LEVEL 8

#define ARMCI_DOMAIN_SMP 0 /* nodes */

#define ARMCI_INIT_HANDLE(hdl)
#define ARMCI_Put1(_s, _d, _b, _p) (memcpy((_d), (_s), (size_t)(_b)), 0)

/* Start and end. Init, collective: 0. Init_mpi_comm: the ranks of `comm`; 1, or 0 where it failed.
 * Initialized: 1 or 0. Finalize leaves MPI as it is. */
#define ARMCI_DECLARE_LIFE(P)                      \
  int P##ARMCI_Init(void);                         \
  int P##ARMCI_Init_args(int *argc, char ***argv); \
  int P##ARMCI_Init_mpi_comm(MPI_Comm comm);       \
  int P##ARMCI_Initialized(void);                  \
  void P##ARMCI_Finalize(void);

/* Contiguous transfers; bytes. Put_flag: writes `v` to the int at `f` of that rank once the data
 * are in their place there. Wait and Test end a handle; Test: 0, done; 1, on its way. */
#define ARMCI_DECLARE_TRANSFERS(P)                                                       \
  int P##ARMCI_Put(void *src, void *dst, int bytes, int proc);                           \
  int P##ARMCI_Put_flag(void *src, void *dst, int bytes, int *f, int v, int proc);       \
  int P##ARMCI_Get(void *src, void *dst, int bytes, int proc);                           \
  int P##ARMCI_Acc(int optype, void *scale, void *src, void *dst, int bytes, int proc);  \
  int P##ARMCI_NbPut(void *src, void *dst, int bytes, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_NbGet(void *src, void *dst, int bytes, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_Wait(armci_hdl_t *nb_handle);                                             \
  int P##ARMCI_Test(armci_hdl_t *nb_handle);                                             \
  int P##ARMCI_WaitAll(void);                                                            \
  int P##ARMCI_WaitProc(int proc);                                                       \
  void P##ARMCI_Copy(void *src, void *dst, int n);

/* Strided transfers: count[0] bytes, count[i] times at src_stride_arr[i - 1] bytes; `stride_levels`
 * strides. */
#define ARMCI_DECLARE_STRIDED(P)                                                                   \
  int P##ARMCI_PutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],      \
                    int count[], int stride_levels, int proc);                                     \
  int P##ARMCI_GetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],      \
                    int count[], int stride_levels, int proc);                                     \
  int P##ARMCI_AccS(int optype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr,   \
                    int dst_stride_arr[], int count[], int stride_levels, int proc);               \
  int P##ARMCI_NbPutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],    \
                      int count[], int stride_levels, int proc, armci_hdl_t *nb_handle);           \
  int P##ARMCI_NbGetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],    \
                      int count[], int stride_levels, int proc, armci_hdl_t *nb_handle);           \
  int P##ARMCI_NbAccS(int optype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr, \
                      int dst_stride_arr[], int count[], int stride_levels, int proc,              \
                      armci_hdl_t *nb_handle);                                                     \
  int P##ARMCI_PutS_flag(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], \
                         int count[], int stride_levels, int *flag, int val, int proc);            \
  int P##ARMCI_PutS_flag_dir(void *src_ptr, int src_stride_arr[], void *dst_ptr,                   \
                             int dst_stride_arr[], int count[], int stride_levels, int *flag,      \
                             int val, int proc);

/* Vectors of pieces; `len` elements of darr. */
#define ARMCI_DECLARE_VECTORS(P)                                                       \
  int P##ARMCI_PutV(armci_giov_t darr[], int len, int proc);                           \
  int P##ARMCI_GetV(armci_giov_t darr[], int len, int proc);                           \
  int P##ARMCI_AccV(int op, void *scale, armci_giov_t darr[], int len, int proc);      \
  int P##ARMCI_NbPutV(armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_NbGetV(armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_NbAccV(int op, void *scale, armci_giov_t darr[], int len, int proc,     \
                      armci_hdl_t *nb_handle);

/* One value. GetValue returns it. */
#define ARMCI_DECLARE_VALUES(P)                                                           \
  int P##ARMCI_PutValueInt(int src, void *dst, int proc);                                 \
  int P##ARMCI_PutValueLong(long src, void *dst, int proc);                               \
  int P##ARMCI_PutValueFloat(float src, void *dst, int proc);                             \
  int P##ARMCI_PutValueDouble(double src, void *dst, int proc);                           \
  int P##ARMCI_NbPutValueInt(int src, void *dst, int proc, armci_hdl_t *nb_handle);       \
  int P##ARMCI_NbPutValueLong(long src, void *dst, int proc, armci_hdl_t *nb_handle);     \
  int P##ARMCI_NbPutValueFloat(float src, void *dst, int proc, armci_hdl_t *nb_handle);   \
  int P##ARMCI_NbPutValueDouble(double src, void *dst, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_GetValueInt(void *src, int proc);                                          \
  long P##ARMCI_GetValueLong(void *src, int proc);                                        \
  float P##ARMCI_GetValueFloat(void *src, int proc);                                      \
  double P##ARMCI_GetValueDouble(void *src, int proc);

/* Fence, AllFence: what this rank has put and accumulated, there or everywhere, is in its place.
 * Rmw: comex_rmw. Mutexes: num of this rank, made and destroyed by all ranks at once; they may be
 * fewer or none elsewhere. */
#define ARMCI_DECLARE_ORDER(P)                                           \
  void P##ARMCI_Barrier(void);                                           \
  void P##ARMCI_Fence(int proc);                                         \
  void P##ARMCI_AllFence(void);                                          \
  void P##ARMCI_GroupFence(ARMCI_Group *group);                          \
  int P##ARMCI_Rmw(int op, void *ploc, void *prem, int extra, int proc); \
  int P##ARMCI_Create_mutexes(int num);                                  \
  int P##ARMCI_Destroy_mutexes(void);                                    \
  void P##ARMCI_Lock(int mutex, int proc);                               \
  void P##ARMCI_Unlock(int mutex, int proc);

/* Malloc: ptr_arr[i] names the memory of rank i of the default group. Memget: memory of this rank
 * alone, freed by Memctl there; Memat: where `offset` bytes into it are. */
#define ARMCI_DECLARE_MEMORY(P)                                                        \
  int P##ARMCI_Malloc(void *ptr_arr[], armci_size_t bytes);                            \
  int P##ARMCI_Malloc_memdev(void *ptr_arr[], armci_size_t bytes, const char *device); \
  int P##ARMCI_Free(void *ptr);                                                        \
  int P##ARMCI_Free_memdev(void *ptr);                                                 \
  void *P##ARMCI_Malloc_local(armci_size_t bytes);                                     \
  int P##ARMCI_Free_local(void *ptr);                                                  \
  void P##ARMCI_Memget(size_t bytes, armci_meminfo_t *meminfo, int memflg);            \
  void *P##ARMCI_Memat(armci_meminfo_t *meminfo, long offset);                         \
  void P##ARMCI_Memdt(armci_meminfo_t *meminfo, long offset);                          \
  void P##ARMCI_Memctl(armci_meminfo_t *meminfo);

/* notify: notifies rank `proc` once everything that this rank has put there is in place; returns
 * how often it has notified `proc`. notify_wait: waits for one more notification of `proc` than
 * earlier calls have waited for; *pval and the result are their number. */
#define ARMCI_DECLARE_NOTIFY(P)  \
  int P##armci_notify(int proc); \
  int P##armci_notify_wait(int proc, int *pval);

ARMCI_DECLARE_LIFE()
ARMCI_DECLARE_TRANSFERS()
ARMCI_DECLARE_STRIDED()
ARMCI_DECLARE_VECTORS()
ARMCI_DECLARE_VALUES()
ARMCI_DECLARE_ORDER()
ARMCI_DECLARE_MEMORY()
ARMCI_DECLARE_NOTIFY()

/** Ends the job: message, rank and code on stderr, then MPI_Abort with `code`. Does not return. */
void ARMCI_Error(const char *msg, int code);

/** What is called before the job is ended on an error. Nothing is left to do: not collective, and
 * nothing of a job outlives it. */
void ARMCI_Cleanup(void);

/** Not needed, and does nothing. */
void ARMCI_Set_shm_limit(unsigned long shmemlimit);
void ARMCI_SET_AGGREGATE_HANDLE(armci_hdl_t *nb_handle);
void ARMCI_UNSET_AGGREGATE_HANDLE(armci_hdl_t *nb_handle);

/** 0, as ComEx has it: programs are to allocate by these calls whether memory is shared or not. */
int ARMCI_Uses_shm(void);
int ARMCI_Uses_shm_grp(ARMCI_Group *group);

/* Groups. */

/** Collective over the ranks of the list, which are numbered in the default group (or in
 * `group_parent`). */
void ARMCI_Group_create(int n, int *pid_list, ARMCI_Group *group_out);
void ARMCI_Group_create_child(int n, int *pid_list, ARMCI_Group *group_out,
                              ARMCI_Group *group_parent);
/** Collective over the group. */
void ARMCI_Group_free(ARMCI_Group *group);
int ARMCI_Group_rank(ARMCI_Group *group, int *rank);
void ARMCI_Group_size(ARMCI_Group *group, int *size);
void ARMCI_Group_set_default(ARMCI_Group *group);
void ARMCI_Group_get_default(ARMCI_Group *group_out);
void ARMCI_Group_get_world(ARMCI_Group *group_out);
/** The number in the world of a rank of the group. */
int ARMCI_Absolute_id(ARMCI_Group *group, int group_rank);
int ARMCI_Malloc_group(void *ptr_arr[], armci_size_t bytes, ARMCI_Group *group);
int ARMCI_Malloc_group_memdev(void *ptr_arr[], armci_size_t bytes, ARMCI_Group *group,
                              const char *device);
int ARMCI_Free_group(void *ptr, ARMCI_Group *group);
/** The group's communicator: the library's own, not to be freed. */
MPI_Comm armci_group_comm(ARMCI_Group *group);
/** That of the world group, between init and finalize. */
extern MPI_Comm ARMCI_COMM_WORLD;

/* Nodes: ranks that share memory and follow one another. They are numbered by their lowest ranks,
 * which are their masters, and ranks within them in the world's order; nodes may be of any sizes.
 */

/** 1: that rank is on this rank's node; 0: it is not. */
int ARMCI_Same_node(int proc);
int armci_sameclusnode(int proc);
int armci_domain_same_id(armci_domain_t domain, int proc);
/** How many nodes there are; which is this rank's, and which a rank of the world's. */
int armci_domain_count(armci_domain_t domain);
int armci_domain_my_id(armci_domain_t domain);
int armci_domain_id(armci_domain_t domain, int glob_proc_id);
/** How many ranks node `id` has, and the number in the world of its rank `loc_proc_id`. */
int armci_domain_nprocs(armci_domain_t domain, int id);
int armci_domain_glob_proc_id(armci_domain_t domain, int id, int loc_proc_id);

/* Strided memory gathered into `buf`, and scattered from it: count[0] bytes, as ARMCI_PutS has
 * them, one after the other. */
void armci_write_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);
void armci_read_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);

/* What ends a job from within a macro: a message and a code. */
#define armci_die(_msg, _code) ARMCI_Error((_msg), (_code))
#define armci_die2(_msg, _code1, _code2) ARMCI_Error((_msg), ((void)(_code2), (_code1)))

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
