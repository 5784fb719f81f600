/* message.h: the messages of ARMCI: barriers, reductions and broadcasts over groups, sends and
 * receives. C11 and C++20; link with -larmci.
 *
 * A call is collective over the default group, unless it names another group. Before a collective
 * call continues, all earlier puts and accumulates of its ranks are complete at their targets, as
 * with ARMCI_Barrier.
 *
 * Operations are identified by the beginning of their names. "+", "*", "max", "min", "absmax" and
 * "absmin" (of absolute values) apply to all types. These apply to integers: "or", "|", "bor", "&"
 * and "band" bitwise; "&&", "land", "||" and "lor" logically. The result replaces `x` on every
 * rank.
 *
 * An invalid argument (operation, type, scope, size or rank) ends the job, with a line on stderr
 * that names call, rank and value. */
#ifndef TANADA_COMPAT_COMEX_MESSAGE_H
#define TANADA_COMPAT_COMEX_MESSAGE_H

#include "armci.h"

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Element types. */
#define ARMCI_INT -99
#define ARMCI_LONG -101
#define ARMCI_LONG_LONG -102
#define ARMCI_FLOAT -306
#define ARMCI_DOUBLE -307

/* Scopes: the ranks that take part. NODE: the ranks of this rank's node, in world order; only they
 * need to call. All calls but armci_msg_bintree treat MASTERS as ALL. */
#define SCOPE_ALL 333
#define SCOPE_NODE 337
#define SCOPE_MASTERS 339

#define ARMCI_DECLARE_BARRIERS(P)  \
  void P##armci_msg_barrier(void); \
  void P##armci_msg_group_barrier(ARMCI_Group *group);

ARMCI_DECLARE_BARRIERS()

/** Reduce `n` elements of `type` at `x` over all ranks. reduce is the same as gop: every rank gets
 * the result. */
void armci_msg_gop_scope(int scope, void *x, int n, char *op, int type);
void armci_msg_reduce(void *x, int n, char *op, int type);
void armci_msg_reduce_scope(int scope, void *x, int n, char *op, int type);
void armci_msg_igop(int *x, int n, char *op);
void armci_msg_lgop(long *x, int n, char *op);
void armci_msg_llgop(long long *x, int n, char *op);
void armci_msg_fgop(float *x, int n, char *op);
void armci_msg_dgop(double *x, int n, char *op);

void armci_msg_group_gop_scope(int scope, void *x, int n, char *op, int type, ARMCI_Group *group);
void armci_msg_group_igop(int *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_lgop(long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_llgop(long long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_fgop(float *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_dgop(double *x, int n, char *op, ARMCI_Group *group);

/** Over the ranks of this rank's node. */
void armci_msg_clus_igop(int *x, int n, char *op);
void armci_msg_clus_lgop(long *x, int n, char *op);
void armci_msg_clus_llgop(long long *x, int n, char *op);
void armci_msg_clus_fgop(float *x, int n, char *op);
void armci_msg_clus_dgop(double *x, int n, char *op);

/** Selects a rank by the value that its `n` bytes at `x` begin with, and copies its bytes to all
 * ranks. `op` is "min" or "max". Only ranks with `contribute` are considered; of equal values the
 * lowest rank wins. If no rank contributes, rank 0 is selected. A value that is not a number comes
 * last. */
void armci_msg_sel_scope(int scope, void *x, int n, char *op, int type, int contribute);
#define armci_msg_sel(x, n, op, type, contribute) \
  armci_msg_sel_scope(SCOPE_ALL, (x), (n), (op), (type), (contribute))

/** Broadcast `len` bytes of `root`, which is a rank of the default group or, for SCOPE_NODE, of the
 * node. */
void armci_msg_bcast(void *buffer, int len, int root);
void armci_msg_brdcst(void *buffer, int len, int root);
void armci_msg_bcast_scope(int scope, void *buffer, int len, int root);
/** `root` is a world rank in the group. With SCOPE_NODE, the call is over the group's ranks on this
 * node. */
void armci_msg_group_bcast_scope(int scope, void *buf, int len, int root, ARMCI_Group *group);
/** Broadcasts from the node's master to the ranks of this rank's node. */
void armci_msg_clus_brdcst(void *buf, int len);
/** Broadcasts from rank `grp_master` of the group to the grp_clus_nproc - 1 ranks after it. Only
 * these ranks call. */
void armci_grp_clus_brdcst(
    void *buf, int len, int grp_master, int grp_clus_nproc, ARMCI_Group *mastergroup);

/** Messages between two ranks of the world: `len` bytes, matched by tag and sender, in the order of
 * sending. snd returns when the buffer may be reused; a rank may send to itself before it
 * receives. rcv receives at most `buflen` bytes and sets *msglen, unless it is NULL. rcvany
 * receives from any rank, which it returns. Tags are 0 or larger. */
void armci_msg_snd(int tag, void *buffer, int len, int to);
void armci_msg_rcv(int tag, void *buffer, int buflen, int *msglen, int from);
int armci_msg_rcvany(int tag, void *buffer, int buflen, int *msglen);

/** The relatives of this rank in a binary tree over the ranks of the world, of its node, or over
 * the nodes' masters. They are world ranks, or -1 if there is no such rank. */
void armci_msg_bintree(int scope, int *Root, int *Up, int *Left, int *Right);

/** Exchanges `n` pointers: each rank has set its own, and the others are NULL. On return every rank
 * has all of them. */
void armci_exchange_address(void *ptr_ar[], int n);
void armci_exchange_address_grp(void *ptr_arr[], int n, ARMCI_Group *group);

/** This rank in the world, and the number of ranks. */
int armci_msg_me(void);
int armci_msg_nproc(void);

/** Initialize MPI, if nobody has, and finalize it. */
void armci_msg_init(int *argc, char ***argv);
void armci_msg_finalize(void);
void armci_msg_abort(int code);
/** Seconds since some time in the past. */
double armci_timer(void);

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
