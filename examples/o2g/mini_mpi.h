/*
 * mini_mpi.h: a small part of MPI over tanada/o2g.h, for processes of one machine. As MPI's calls
 * do by default, all calls end the process with a message when something fails.
 */
#ifndef MINI_MPI_H
#define MINI_MPI_H

#include <stddef.h>
#include <tanada/o2g.h>

enum { MINI_ANY_SOURCE = O2G_ANY_SOURCE, MINI_ANY_TAG = O2G_ANY_TAG };

typedef struct mini_status {
  int source, tag;
  size_t size; /* bytes received */
} mini_status;

/*
 * A receive in flight. Sends are complete when they return: o2g is about receiving (the paper,
 * 6.3).
 */
typedef struct mini_request {
  struct queue_entry entry;    /* expected */
  struct queue_entry *arrived; /* or the message had already arrived, or is arriving, unexpected */
  int is_send;
} mini_request;

/* Forks: `size` processes return from it, as ranks 0 to size - 1. */
void mini_init(int size);
int mini_rank(void);
int mini_size(void);
/*
 * Collective. Rank 0 returns the number of other ranks that failed; the others exit with their
 * argument.
 */
int mini_finalize(int result);

void mini_send(const void *data, size_t size, int to, int tag);
void mini_isend(const void *data, size_t size, int to, int tag, mini_request *request);
void mini_irecv(void *data, size_t size, int source, int tag, mini_request *request);
void mini_wait(mini_request *request, mini_status *status);
void mini_recv(void *data, size_t size, int source, int tag, mini_status *status);
void mini_barrier(void);

#endif
