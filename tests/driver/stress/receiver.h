/* receiver.h: the process that has the context, and its threads. */
#ifndef TANADA_TESTS_DRIVER_STRESS_RECEIVER_H
#define TANADA_TESTS_DRIVER_STRESS_RECEIVER_H

#include <pthread.h>

#include "stress.h"

enum { EXPECTED_CHUNK_COUNT_MAX = 6, COMPLETION_LIMIT_MS = 120000 };

enum receive_kind {
  RECEIVE_POSTED,
  RECEIVE_CLAIMED,  /* an unexpected message */
  RECEIVE_CANCELLED /* before a message matched */
};

struct receive {
  enum receive_kind kind;
  int32_t source;
  int32_t tag;
  uint32_t context;
  uint32_t slot;
  char *buffer;
  uint64_t size;
  bool is_ordered; /* when it was posted, no message that matches had arrived */
  bool is_hostile; /* its memory was taken away, so its contents mean nothing */
  void *mapping;   /* of a hostile one */
};

struct worker {
  uint32_t index;
  uint64_t random;
  pthread_t thread;
  struct receive ring[RING_SIZE]; /* in the order in which they were posted or claimed */
  uint32_t head;
  uint32_t count;
  char *regions[RING_SIZE];
  /* Newest message of a rank that an earlier receive of this worker has taken; -1: none. */
  int64_t newest_of_tag[RANK_COUNT_MAX][CONTEXT_COUNT][TAG_COUNT];
  int64_t newest_of_any[RANK_COUNT_MAX][CONTEXT_COUNT];
};

struct receiver {
  int context;
  struct o2g_shared *page;
  _Atomic(struct o2g_slot *) chunks[O2G_CHUNK_COUNT_MAX];
  uint32_t expected_chunks[EXPECTED_CHUNK_COUNT_MAX];
  _Atomic uint32_t expected_chunk_count;
  char *area;
  atomic_bool has_area;
  uint64_t area_free_size;
  pthread_mutex_t mutex; /* chunks, the area, dumper threads */
  atomic_bool is_registering[RANK_COUNT_MAX];
  atomic_bool is_registered[RANK_COUNT_MAX];
  pthread_t dumpers[DUMPER_COUNT_MAX];
  _Atomic uint32_t dumper_count;
  atomic_bool has_stopped_dumpers;
  atomic_bool is_leaving; /* workers leave their receives as they are */
  char *edge;             /* the last bytes of mapped memory */
  struct worker workers[WORKER_COUNT_MAX];
  _Atomic uint32_t taken_count[RANK_COUNT_MAX];
  _Atomic uint64_t taken[RANK_COUNT_MAX][MESSAGE_COUNT_MAX / 64];
};

extern struct receiver receiver;

/* Result of a call of the driver: 0 or more, or -errno. */
int call(unsigned long request, uintptr_t argument);
/* The same for calls that an injected fault may refuse: they are repeated. */
int call_surely(unsigned long request, uintptr_t argument);
bool is_refusal(int result);
/* Opens and binds the context. */
void open_context(uint32_t flags);
/* Root may lock any amount of memory; this takes the right away. */
void limit_locked_memory(void);
void add_counters(void);
void start_sender(void); /* a sender that is a thread of this process */
_Noreturn void replace_program(const char *program);
bool register_rank(uint32_t rank);
void set_area(void);
bool grow(void);
bool start_dumper(void);
/* Whether nothing of this rank's messages may be lost. */
bool is_complete(uint32_t rank);

/* worker.c: receives and their checks. */
void *worker_run(void *worker);
void worker_prepare(struct worker *worker, uint32_t index);
struct o2g_slot *slot_of(uint32_t number);
uint32_t flags_of(uint32_t slot);
bool is_done(uint32_t slot);
int unread_size(int32_t rank);
void await_completion(uint32_t slot);
void take(uint32_t rank, int64_t number);
void check_claimed(struct worker *worker, struct receive const *receive);
int put(struct worker *worker, struct receive const *receive, uint64_t sequence);
int find(struct receive *receive, uint64_t *sequence);
struct receive *ring_add(struct worker *worker);
void ring_drop_newest(struct worker *worker);
void ring_retire(struct worker *worker);
void ring_finish_oldest(struct worker *worker);
void check_ended(int32_t source, const char *call_name, int result);

/* workload.c: everything that workers do beside receiving. */
void work_step(struct worker *worker);

#endif
