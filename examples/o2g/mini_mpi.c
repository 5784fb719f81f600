/*
 * mini_mpi.c: how an MPI uses the calls of the paper: check for an unexpected message, and
 * otherwise post an entry; on EAGAIN check again.
 */
#include "mini_mpi.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE_MAX_RANKS = 64, DUMP_AREA_SIZE = 64 << 20, CONTEXT_PROGRAM = 0, CONTEXT_BARRIER = 1 };
#define TIMEOUT_NS 60000000000ull /* for each wait */

static int own_rank, rank_count;
static int sockets[SIZE_MAX_RANKS];
static pid_t children[SIZE_MAX_RANKS];
static void *dump_area;

static void fail(const char *what, tnd_status status) {
  fprintf(stderr,
          "mini_mpi: rank %d: %s: %s: %s\n",
          own_rank,
          what,
          tnd_status_name(status),
          tnd_last_message());
  exit(1);
}

static void check(const char *what, tnd_status status) {
  if (status != TND_OK)
    fail(what, status);
}

/* A socket that listens on a free port of the loopback. */
static int make_listener(struct sockaddr_in *address) {
  socklen_t size = sizeof *address;
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int const listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)address, size) != 0 ||
      listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)address, &size) != 0)
    fail("a listening socket", -errno);
  return listener;
}

/* Every pair of ranks has a connection; pairs[a][b] is rank a's end of the one to b. */
static int (*make_pairs(int size))[SIZE_MAX_RANKS] {
  static int pairs[SIZE_MAX_RANKS][SIZE_MAX_RANKS];
  struct sockaddr_in address = {0};
  int const listener = make_listener(&address);
  for (int a = 0; a < size; a++) {
    for (int b = a + 1; b < size; b++) {
      pairs[a][b] = socket(AF_INET, SOCK_STREAM, 0);
      if (pairs[a][b] < 0 || connect(pairs[a][b], (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect", -errno);
      pairs[b][a] = accept(listener, NULL, NULL);
      if (pairs[b][a] < 0)
        fail("accept", -errno);
    }
  }
  close(listener);
  return pairs;
}

static void keep_own(int (*pairs)[SIZE_MAX_RANKS]) {
  for (int a = 0; a < rank_count; a++) {
    for (int b = 0; b < rank_count; b++) {
      if (a == b)
        continue;
      if (a == own_rank)
        sockets[b] = pairs[a][b];
      else
        close(pairs[a][b]);
    }
  }
}

void mini_init(int size) {
  if (size < 1 || size > SIZE_MAX_RANKS)
    fail("mini_init", -EINVAL);
  rank_count = size;
  int(*const pairs)[SIZE_MAX_RANKS] = make_pairs(size);
  fflush(NULL);
  for (int rank = 1; rank < size; rank++) {
    children[rank] = fork();
    if (children[rank] < 0)
      fail("fork", -errno);
    if (children[rank] == 0) {
      own_rank = rank;
      break;
    }
  }
  keep_own(pairs);
  dump_area = malloc(DUMP_AREA_SIZE);
  if (dump_area == NULL)
    fail("the dump area", -ENOMEM);
  check("o2g_init", o2g_init(size));
  check("o2g_set_dump_area", o2g_set_dump_area(dump_area, DUMP_AREA_SIZE));
  for (int rank = 0; rank < size; rank++) {
    if (rank != own_rank)
      check("o2g_register_socket", o2g_register_socket(sockets[rank], rank));
  }
  /*
   * A process receives while it computes and while it waits in a send, so two that send to each
   * other do not deadlock.
   */
  check("o2g_start_dumper_thread", o2g_start_dumper_thread(1));
}

int mini_rank(void) {
  return own_rank;
}
int mini_size(void) {
  return rank_count;
}

int mini_finalize(int result) {
  mini_barrier();
  check("o2g_fini", o2g_fini());
  free(dump_area);
  if (own_rank != 0)
    exit(result);
  int failed_count = 0;
  for (int rank = 1; rank < rank_count; rank++) {
    int how = 0;
    if (waitpid(children[rank], &how, 0) < 0 || !WIFEXITED(how) || WEXITSTATUS(how) != 0)
      failed_count++;
  }
  return failed_count;
}

static void write_all(int socket, const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t const written = send(socket, (const char *)data + done, size - done, MSG_NOSIGNAL);
    if (written < 0 && errno != EINTR)
      fail("send", -errno);
    if (written > 0)
      done += (size_t)written;
  }
}

static void send_in(const void *data, size_t size, int to, int tag, uint32_t context) {
  if (to < 0 || to >= rank_count || to == own_rank)
    fail("a send to no other rank", -EINVAL);
  struct o2g_header const header = {O2G_MAGIC, own_rank, tag, context, size, 0};
  write_all(sockets[to], &header, sizeof header);
  write_all(sockets[to], data, size);
}

static void receive_in(
    void *data, size_t size, int source, int tag, uint32_t context, mini_request *request) {
  struct queue_entry const empty = O2G_ENTRY_INIT;
  request->entry = empty;
  request->entry.source = source;
  request->entry.tag = tag;
  request->entry.context = context;
  request->entry.data = data;
  request->entry.size = size;
  request->is_send = 0;
  for (;;) {
    request->arrived = NULL;
    tnd_status status = o2g_find_entry(&request->entry, &request->arrived);
    if (status == TND_OK)
      return;
    if (status != -ENOENT)
      fail("o2g_find_entry", status);
    status = o2g_put_entry(&request->entry);
    if (status == TND_OK)
      return;
    if (status != -EAGAIN)
      fail("o2g_put_entry", status);
  }
}

void mini_send(const void *data, size_t size, int to, int tag) {
  send_in(data, size, to, tag, CONTEXT_PROGRAM);
}

void mini_isend(const void *data, size_t size, int to, int tag, mini_request *request) {
  mini_send(data, size, to, tag);
  request->is_send = 1;
}

void mini_irecv(void *data, size_t size, int source, int tag, mini_request *request) {
  receive_in(data, size, source, tag, CONTEXT_PROGRAM, request);
}

void mini_wait(mini_request *request, mini_status *status) {
  if (request->is_send)
    return;
  struct queue_entry *const entry = request->arrived != NULL ? request->arrived : &request->entry;
  uint64_t seen = 0;
  while ((o2g_entry_flags(entry) & (O2G_RECEIVED | O2G_FAILED)) == 0) {
    tnd_status const polled = o2g_poll_for(&seen, TIMEOUT_NS);
    if (polled != TND_OK)
      fail("o2g_poll_for", polled);
  }
  if ((o2g_entry_flags(entry) & O2G_FAILED) != 0)
    fail("a receive", entry->status);
  if (entry->message_size > request->entry.size)
    fail("a message is larger than its buffer", -EOVERFLOW);
  mini_status const done = {entry->source, entry->tag, (size_t)entry->message_size};
  if (request->arrived != NULL) {
    memcpy(request->entry.data, entry->data, done.size);
    check("o2g_free_entry", o2g_free_entry(entry));
  }
  if (status != NULL)
    *status = done;
}

void mini_recv(void *data, size_t size, int source, int tag, mini_status *status) {
  mini_request request;
  mini_irecv(data, size, source, tag, &request);
  mini_wait(&request, status);
}

/* Rank 0 receives a message from every rank, and then sends one to each. */
void mini_barrier(void) {
  mini_request request;
  char nothing = 0;
  if (own_rank != 0) {
    send_in(&nothing, 1, 0, 0, CONTEXT_BARRIER);
    receive_in(&nothing, 1, 0, 0, CONTEXT_BARRIER, &request);
    mini_wait(&request, NULL);
    return;
  }
  for (int rank = 1; rank < rank_count; rank++) {
    receive_in(&nothing, 1, MINI_ANY_SOURCE, 0, CONTEXT_BARRIER, &request);
    mini_wait(&request, NULL);
  }
  for (int rank = 1; rank < rank_count; rank++)
    send_in(&nothing, 1, rank, 0, CONTEXT_BARRIER);
}
