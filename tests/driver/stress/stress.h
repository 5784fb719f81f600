/* stress.h: what the parts of the driver's stress share. See main.c for how its processes relate.
 */
#ifndef TANADA_TESTS_DRIVER_STRESS_H
#define TANADA_TESTS_DRIVER_STRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tanada/o2g.h>
#include <tanada/o2g_driver.h>

#include "kernel/o2g/envelope.h"

enum {
  RANK_COUNT_MAX = 64,
  WORKER_COUNT_MAX = 16,
  DUMPER_COUNT_MAX = 4,
  SENDER_PROCESS_COUNT = 2,
  TAG_COUNT = 4,
  CONTEXT_COUNT = 2,
  RING_SIZE = 16,              /* receives of a worker that are in progress */
  BUFFER_SIZE = 128 << 10,     /* of one receive */
  GUARD_SIZE = 64,             /* bytes around a buffer, which must stay as they are */
  MESSAGE_COUNT_MAX = 1 << 14, /* of a rank, in one round */
  MESSAGE_SIZE_MAX = 3 << 20,
};

/* What becomes of a rank's connection. */
enum fate {
  FATE_NORMAL,  /* it stays, and nothing may be lost */
  FATE_FIN,     /* the sender closes it after any byte */
  FATE_RST,     /* the same, by a reset */
  FATE_RUBBISH, /* the sender writes an invalid header */
  FATE_URGENT,  /* the sender writes urgent data, which the driver refuses */
  FATE_VICTIM,  /* the receiver takes memory away while it is written */
  FATE_COUNT
};

/* Steps of a receiver at which the controller may kill it. */
enum state {
  STATE_OPENED,
  STATE_REGISTERING,
  STATE_AREA,
  STATE_PUT,
  STATE_FOUND,
  STATE_WAITING,
  STATE_DUMPING,
  STATE_FORKED,
  STATE_DRAINING,
  STATE_CLOSING,
  STATE_COUNT
};

enum operation {
  OPERATION_RECEIVE,
  OPERATION_PUT_UNORDERED,
  OPERATION_HOSTILE,
  OPERATION_FIND,
  OPERATION_CANCEL,
  OPERATION_RETIRE,
  OPERATION_WAIT,
  OPERATION_NEXT,
  OPERATION_RUBBISH,
  OPERATION_MAP,
  OPERATION_REGISTER,
  OPERATION_FORK,
  OPERATION_HAND_OVER,
  OPERATION_SIGNAL,
  OPERATION_DUMPER,
  OPERATION_GROW,
  OPERATION_QUERY,
  OPERATION_DISCARD,
  OPERATION_COUNT
};

/* How the receiver ends. */
enum ending {
  ENDING_ORDERLY, /* after all messages */
  ENDING_FINI,    /* O2G_IOC_FINI in the middle of messages */
  ENDING_EXIT,
  ENDING_EXEC,
  ENDING_UNMAP, /* the dump area is unmapped before */
  ENDING_COUNT
};

struct rank_state {
  enum fate fate;
  int receiver_socket; /* numbers of descriptors, which other processes may still have to close */
  int sender_socket;
  uint64_t end_at; /* bytes after which the sender ends the connection */
  _Atomic uint32_t sent_count;
  atomic_bool is_finished; /* the sender stands between two messages, and writes no more */
};

/* Of one round; in memory that all of its processes share. */
struct round {
  uint64_t seed;
  uint32_t number;
  uint32_t rank_count;
  uint32_t worker_count;
  uint32_t dumper_count;
  uint32_t duration_ms;
  uint64_t area_size;
  enum ending ending;
  bool has_forks;
  bool has_envelopes;            /* O2G_BIND_ENVELOPES: frames.c receives */
  bool is_memory_locked_limited; /* most buffers cannot be pinned */
  bool has_faults;
  bool has_lossy_faults; /* memory of a process cannot be written at times: its connection ends */
  int hand_over[2];      /* sockets by which the receiver passes descriptors to a sender process */
  atomic_bool is_stopping; /* senders stop between two messages, workers leave */
  atomic_bool is_over;     /* the receiver is no more */
  atomic_bool has_failed;
  _Atomic uint32_t entered[STATE_COUNT];
  struct rank_state ranks[RANK_COUNT_MAX];
};

/* Of all rounds. */
struct totals {
  _Atomic uint64_t operations[OPERATION_COUNT];
  _Atomic uint64_t refused; /* calls that returned ENOMEM or EFAULT, by injected faults */
  _Atomic uint64_t raced;   /* EAGAIN of put and cancel */
  _Atomic uint64_t messages;
  _Atomic uint64_t failed_entries;
  _Atomic uint64_t handler_size;
  _Atomic uint64_t worker_size;
  _Atomic uint64_t dumper_size;
};

struct message {
  int32_t tag;
  uint32_t context;
  uint64_t size;
  int kind; /* of an envelope */
};

extern struct round *current;
extern struct totals *totals;

/* Prints what went wrong with the seed and the round, and ends the process with status 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void enter(enum state state);
uint64_t now_ms(void);
void rest_us(uint32_t microseconds);

/* random.c: xorshift, and hashes that do not depend on the order of calls. */
uint64_t mix(uint64_t a, uint64_t b, uint64_t c);
uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);
bool one_in(uint64_t *state, uint32_t count);

/* Kinds of frames without a meaning for the driver. */
enum { KIND_BODY = 7, KIND_ACK = 13 };

/* messages.c: the contents of messages follow from the seed, the rank and their number. */
struct message message_of(uint32_t rank, uint32_t number);
size_t message_head_size(void);
/* With has_envelopes: the number that a connection has for the source of messages. */
uint32_t peer_of(uint32_t rank);
void message_bytes(uint32_t rank, uint32_t number, uint64_t offset, void *bytes, size_t size);
/* The number of the message; -1: too few bytes. Fails if a byte is wrong. */
int64_t message_check(uint32_t rank, const void *bytes, uint64_t size);

/* sender.c: writes the messages of the ranks whose number modulo `count` is `index`. */
void sender_run(uint32_t index, uint32_t count, int hand_over);

/* receiver.c */
_Noreturn void receiver_run(const char *program);
int after_exec(int context);

/* frames.c: the receiver of a round with has_envelopes. */
_Noreturn void frames_run(const char *program);

/* faults.c: fault injection by debugfs. */
void faults_prepare(unsigned per_cent);
void faults_choose(uint64_t *state);
void faults_end(void);          /* prints their numbers */
void faults_thread(bool is_on); /* of the calling thread */

#endif
