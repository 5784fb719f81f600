/* message.h: the messages of ARMCI: barriers, sums and broadcasts over groups, sends and receives.
 * C11 and C++20; link with -larmci.
 *
 * Unless a call names a group, its group is the default one, and it is collective over it. A
 * collective call comes after all that its ranks have put and accumulated before is in its place,
 * as ARMCI_Barrier does.
 *
 * Operations, by how their names begin: "+", "*", "max", "min", "absmax", "absmin" (of absolute
 * values) on all types; "or", "|" and "bor", "&" and "band" of bits, "&&" and "land", "||" and
 * "lor" of truth values on integers. The result replaces `x` at every rank.
 *
 * What a call does not accept (an operation, a type, a scope, a size, a rank) ends the job with a
 * line on stderr that names call, rank and value. */
#ifndef TANADA_COMPAT_COMEX_MESSAGE_H
#define TANADA_COMPAT_COMEX_MESSAGE_H

#include "armci.h"

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Types of elements. */
#define ARMCI_INT -99
#define ARMCI_LONG -101
#define ARMCI_LONG_LONG -102
#define ARMCI_FLOAT -306
#define ARMCI_DOUBLE -307

/* Scopes: who takes part. NODE: the ranks of this rank's node, by their order in the world; they
 * alone need call. MASTERS is taken as ALL by all calls but armci_msg_bintree. */
#define SCOPE_ALL 333
#define SCOPE_NODE 337
#define SCOPE_MASTERS 339

#define ARMCI_DECLARE_BARRIERS(P)  \
  void P##armci_msg_barrier(void); \
  void P##armci_msg_group_barrier(ARMCI_Group *group);

ARMCI_DECLARE_BARRIERS()

/** `n` elements at `x`, of `type`, from all ranks. reduce: as gop, at every rank. */
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

/** `op` "min" or "max": the `n` bytes at `x` of the rank whose value, which they begin with, is the
 * least or greatest, of those with `contribute`; of the lowest of equals, and of rank 0 where none
 * contributes. What is not a number comes last. */
void armci_msg_sel_scope(int scope, void *x, int n, char *op, int type, int contribute);
#define armci_msg_sel(x, n, op, type, contribute) \
  armci_msg_sel_scope(SCOPE_ALL, (x), (n), (op), (type), (contribute))

/** `len` bytes of `root`: a rank of the default group, or for SCOPE_NODE of the node. */
void armci_msg_bcast(void *buffer, int len, int root);
void armci_msg_brdcst(void *buffer, int len, int root);
void armci_msg_bcast_scope(int scope, void *buffer, int len, int root);
/** `root` is a rank of the world that is in the group; for SCOPE_NODE, over those of the group on
 * this node. */
void armci_msg_group_bcast_scope(int scope, void *buf, int len, int root, ARMCI_Group *group);
/** Of the node's master, over the ranks of this rank's node. */
void armci_msg_clus_brdcst(void *buf, int len);
/** Of rank `grp_master` of the group, over it and the grp_clus_nproc - 1 ranks after it, who alone
 * call. */
void armci_grp_clus_brdcst(void *buf, int len, int grp_master, int grp_clus_nproc,
                           ARMCI_Group *mastergroup);

/** Messages between two ranks of the world: `len` bytes, matched by tag and sender in the order in
 * which they were sent. snd returns when the buffer may be used again; to itself a rank may send
 * before it receives. rcv: at most `buflen` bytes, *msglen came (NULL: it is not told). rcvany:
 * from any rank, which it returns. Tags are 0 and up. */
void armci_msg_snd(int tag, void *buffer, int len, int to);
void armci_msg_rcv(int tag, void *buffer, int buflen, int *msglen, int from);
int armci_msg_rcvany(int tag, void *buffer, int buflen, int *msglen);

/** The places of this rank in a binary tree over the ranks of the world, of its node, or over the
 * nodes' masters: ranks of the world, -1 where there is none. */
void armci_msg_bintree(int scope, int *Root, int *Up, int *Left, int *Right);

/** `n` pointers, of which each rank has set its own and all others are NULL: everyone then has all.
 */
void armci_exchange_address(void *ptr_ar[], int n);
void armci_exchange_address_grp(void *ptr_arr[], int n, ARMCI_Group *group);

/** The rank in the world, and how many there are. */
int armci_msg_me(void);
int armci_msg_nproc(void);

/** MPI's own start, where nobody has started it, and end. */
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
