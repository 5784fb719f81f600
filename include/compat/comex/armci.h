/* armci.h: ARMCI, the aggregate remote memory copy interface, as Global Arrays 5.8 and 5.9 link it.
 * C11 and C++20; needs an MPI's mpi.h. The names are ARMCI's own; link with -larmci.
 *
 * Transfers, fences and mutexes name ranks of the world group. ARMCI_Malloc, ARMCI_Free,
 * ARMCI_Barrier and the messages of message.h are collective over the default group. Transfers have
 * the guarantees of comex.h, whose calls they use.
 *
 * Calls return 0 unless stated otherwise. An invalid call or a failure ends the job, with one line
 * on stderr that names call, rank and values. Some calls return another status instead (an invalid
 * shape or size); they print such a line, too, and nothing was moved.
 *
 * Calls declared by ARMCI_DECLARE_... also exist as PARMCI_x (parmci.h), of which ARMCI_x is a weak
 * alias. A profiling library defines ARMCI_x and calls PARMCI_x.
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

/** Memory that one rank has allocated and may describe to others. */
typedef struct armci_meminfo_ds {
  char *armci_addr; /* its address in transfers */
  char *addr;       /* its address in the owner */
  size_t size;      /* bytes */
  int cpid;         /* the owner's rank in the world */
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

/* Start and end. Init is collective and returns 0. Init_mpi_comm uses the ranks of `comm`, and
 * returns 1, or 0 on failure. Initialized returns 1 or 0. Finalize does not finalize MPI. */
#define ARMCI_DECLARE_LIFE(P)                      \
  int P##ARMCI_Init(void);                         \
  int P##ARMCI_Init_args(int *argc, char ***argv); \
  int P##ARMCI_Init_mpi_comm(MPI_Comm comm);       \
  int P##ARMCI_Initialized(void);                  \
  void P##ARMCI_Finalize(void);

/* Contiguous transfers; sizes in bytes. Put_flag writes `v` to the int at `f` of that rank once the
 * data are in place there. Wait completes a handle. Test returns 0 if the transfer is complete,
 * which ends the handle, and 1 if it is in flight. */
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

/* Strided transfers: count[0] bytes, repeated count[i] times at distances of src_stride_arr[i - 1]
 * and dst_stride_arr[i - 1] bytes; there are `stride_levels` strides. */
#define ARMCI_DECLARE_STRIDED(P)                   \
  int P##ARMCI_PutS(void *src_ptr,                 \
                    int src_stride_arr[],          \
                    void *dst_ptr,                 \
                    int dst_stride_arr[],          \
                    int count[],                   \
                    int stride_levels,             \
                    int proc);                     \
  int P##ARMCI_GetS(void *src_ptr,                 \
                    int src_stride_arr[],          \
                    void *dst_ptr,                 \
                    int dst_stride_arr[],          \
                    int count[],                   \
                    int stride_levels,             \
                    int proc);                     \
  int P##ARMCI_AccS(int optype,                    \
                    void *scale,                   \
                    void *src_ptr,                 \
                    int src_stride_arr[],          \
                    void *dst_ptr,                 \
                    int dst_stride_arr[],          \
                    int count[],                   \
                    int stride_levels,             \
                    int proc);                     \
  int P##ARMCI_NbPutS(void *src_ptr,               \
                      int src_stride_arr[],        \
                      void *dst_ptr,               \
                      int dst_stride_arr[],        \
                      int count[],                 \
                      int stride_levels,           \
                      int proc,                    \
                      armci_hdl_t *nb_handle);     \
  int P##ARMCI_NbGetS(void *src_ptr,               \
                      int src_stride_arr[],        \
                      void *dst_ptr,               \
                      int dst_stride_arr[],        \
                      int count[],                 \
                      int stride_levels,           \
                      int proc,                    \
                      armci_hdl_t *nb_handle);     \
  int P##ARMCI_NbAccS(int optype,                  \
                      void *scale,                 \
                      void *src_ptr,               \
                      int src_stride_arr[],        \
                      void *dst_ptr,               \
                      int dst_stride_arr[],        \
                      int count[],                 \
                      int stride_levels,           \
                      int proc,                    \
                      armci_hdl_t *nb_handle);     \
  int P##ARMCI_PutS_flag(void *src_ptr,            \
                         int src_stride_arr[],     \
                         void *dst_ptr,            \
                         int dst_stride_arr[],     \
                         int count[],              \
                         int stride_levels,        \
                         int *flag,                \
                         int val,                  \
                         int proc);                \
  int P##ARMCI_PutS_flag_dir(void *src_ptr,        \
                             int src_stride_arr[], \
                             void *dst_ptr,        \
                             int dst_stride_arr[], \
                             int count[],          \
                             int stride_levels,    \
                             int *flag,            \
                             int val,              \
                             int proc);

/* Vectors of pieces; `darr` has `len` elements. */
#define ARMCI_DECLARE_VECTORS(P)                                                       \
  int P##ARMCI_PutV(armci_giov_t darr[], int len, int proc);                           \
  int P##ARMCI_GetV(armci_giov_t darr[], int len, int proc);                           \
  int P##ARMCI_AccV(int op, void *scale, armci_giov_t darr[], int len, int proc);      \
  int P##ARMCI_NbPutV(armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_NbGetV(armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle); \
  int P##ARMCI_NbAccV(                                                                 \
      int op, void *scale, armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle);

/* Single values. GetValue returns the value. */
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

/* Fence and AllFence complete all puts and accumulates of this rank, at one rank or at all. Rmw:
 * see comex_rmw. All ranks create and destroy mutexes together: `num` of them on this rank, while
 * other ranks may have fewer or no mutexes. */
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

/* Malloc: ptr_arr[i] names the memory of rank i of the default group. Memget allocates memory of
 * only this rank, which Memctl frees there. Memat returns the address `offset` bytes into it. */
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

/* notify sends rank `proc` a notification after everything that this rank has put there; returns
 * the number of notifications sent to `proc` so far. notify_wait waits for the next notification of
 * `proc`; *pval and the result are its number. */
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

/** Ends the job: prints message, rank and code to stderr, and calls MPI_Abort with `code`, or with
 * 1 if the low 8 bits of `code` are 0. Does not return. */
void ARMCI_Error(const char *msg, int code);

/** Called before the job ends on an error. A no-op and not collective, since nothing of a job
 * outlives it. */
void ARMCI_Cleanup(void);

/** A no-op; not needed. */
void ARMCI_Set_shm_limit(unsigned long shmemlimit);
void ARMCI_SET_AGGREGATE_HANDLE(armci_hdl_t *nb_handle);
void ARMCI_UNSET_AGGREGATE_HANDLE(armci_hdl_t *nb_handle);

/** Return 0, as in ComEx: programs must allocate through these calls whether memory is shared or
 * not. */
int ARMCI_Uses_shm(void);
int ARMCI_Uses_shm_grp(ARMCI_Group *group);

/* Groups. */

/** Collective over the ranks of the list, which are numbered in the default group (or in
 * `group_parent`). */
void ARMCI_Group_create(int n, int *pid_list, ARMCI_Group *group_out);
void ARMCI_Group_create_child(int n,
                              int *pid_list,
                              ARMCI_Group *group_out,
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
int ARMCI_Malloc_group_memdev(void *ptr_arr[],
                              armci_size_t bytes,
                              ARMCI_Group *group,
                              const char *device);
int ARMCI_Free_group(void *ptr, ARMCI_Group *group);
/** The group's communicator. The library owns it; do not free it. */
MPI_Comm armci_group_comm(ARMCI_Group *group);
/** The communicator of the world group, between init and finalize. */
extern MPI_Comm ARMCI_COMM_WORLD;

/* Nodes are sets of consecutive ranks that share memory; their sizes may differ. They are numbered
 * by their lowest ranks, which are their masters. Ranks within a node are in world order. */

/** 1 if the rank is on this rank's node, else 0. */
int ARMCI_Same_node(int proc);
int armci_sameclusnode(int proc);
int armci_domain_same_id(armci_domain_t domain, int proc);
/** The number of nodes, this rank's node, and the node of a world rank. */
int armci_domain_count(armci_domain_t domain);
int armci_domain_my_id(armci_domain_t domain);
int armci_domain_id(armci_domain_t domain, int glob_proc_id);
/** The number of ranks of node `id`, and the world rank of its rank `loc_proc_id`. */
int armci_domain_nprocs(armci_domain_t domain, int id);
int armci_domain_glob_proc_id(armci_domain_t domain, int id, int loc_proc_id);

/* Pack strided memory into `buf`, and unpack it. The shape is that of ARMCI_PutS; pieces are
 * adjacent in `buf`. */
void armci_write_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);
void armci_read_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);

/* Ends a job from within a macro: a message and a code. */
#define armci_die(_msg, _code) ARMCI_Error((_msg), (_code))
#define armci_die2(_msg, _code1, _code2) ARMCI_Error((_msg), ((void)(_code2), (_code1)))

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
