/* workload.c: what workers do: receives of all kinds, and calls that no sane program makes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "receiver.h"

enum { HOSTILE_SIZE = BUFFER_SIZE + 8192 };

static void choose_pattern(struct worker *worker, struct receive *receive) {
  uint32_t const rank = random_below(&worker->random, current->rank_count);
  receive->source = one_in(&worker->random, 3) ? O2G_ANY_SOURCE : (int32_t)rank;
  receive->tag =
      one_in(&worker->random, 3) ? O2G_ANY_TAG : (int32_t)random_below(&worker->random, TAG_COUNT);
  receive->context = random_below(&worker->random, CONTEXT_COUNT);
}

/* The paper's loop: find, put with the sequence of the search, and again after a race. */
static void receive_one(struct worker *worker) {
  struct receive *const receive = ring_add(worker);
  choose_pattern(worker, receive);
  uint32_t const expected_slot = receive->slot;
  for (;;) {
    uint64_t sequence;
    int result = find(receive, &sequence);
    if (result == 0) {
      receive->kind = RECEIVE_CLAIMED;
      receive->is_ordered = true;
      return;
    }
    if (result != -ENOENT)
      break;
    receive->slot = expected_slot;
    result = put(worker, receive, sequence);
    if (result == 0) {
      receive->kind = RECEIVE_POSTED;
      receive->is_ordered = true;
      return;
    }
    if (result != -EAGAIN)
      break;
  }
  ring_drop_newest(worker);
}

static void put_unordered(struct worker *worker) {
  struct receive *const receive = ring_add(worker);
  choose_pattern(worker, receive);
  receive->kind = RECEIVE_POSTED;
  uint64_t const sequences[] = {0, 1, ~UINT64_C(0), receiver.page->sequence};
  if (put(worker, receive, sequences[random_below(&worker->random, 4)]) != 0)
    ring_drop_newest(worker);
}

static void find_one(struct worker *worker) {
  struct receive *const receive = ring_add(worker);
  uint64_t sequence;
  choose_pattern(worker, receive);
  receive->kind = RECEIVE_CLAIMED;
  receive->is_ordered = true;
  if (find(receive, &sequence) != 0)
    ring_drop_newest(worker);
}

/* A buffer that goes away before or while it is written. The entry and its connection may end. */
static void put_hostile(struct worker *worker) {
  uint32_t const rank = random_below(&worker->random, current->rank_count);
  if (current->ranks[rank].fate != FATE_VICTIM)
    return;
  void *const mapping =
      mmap(NULL, HOSTILE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return;
  struct receive *const receive = ring_add(worker);
  choose_pattern(worker, receive);
  receive->source = (int32_t)rank;
  receive->kind = RECEIVE_POSTED;
  receive->is_hostile = true;
  receive->mapping = mapping;
  receive->buffer = (char *)mapping + random_below(&worker->random, 4096);
  uint32_t const kind = random_below(&worker->random, 5);
  if (kind == 0)
    mprotect(mapping, HOSTILE_SIZE, PROT_READ);
  if (kind == 1)
    mprotect((char *)mapping + 8192, HOSTILE_SIZE - 8192, PROT_NONE);
  if (put(worker, receive, ~UINT64_C(0)) != 0) {
    munmap(mapping, HOSTILE_SIZE);
    ring_drop_newest(worker);
    return;
  }
  /* A hole would be filled by other mappings, so memory without access takes its place. */
  if (kind == 2)
    mmap(mapping, HOSTILE_SIZE, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kind == 3)
    mprotect(mapping, HOSTILE_SIZE, PROT_NONE);
}

/* Pages of a posted buffer are dropped: what arrives may land in pages that nobody sees. */
static void discard_pages(struct worker *worker) {
  if (worker->count == 0)
    return;
  uint32_t const place = (worker->head + random_below(&worker->random, worker->count)) % RING_SIZE;
  struct receive *const receive = &worker->ring[place];
  if (receive->kind != RECEIVE_POSTED || receive->mapping != NULL)
    return;
  receive->is_hostile = true;
  uintptr_t const page = ((uintptr_t)receive->buffer + 4095) & ~(uintptr_t)4095;
  madvise((void *)page, 8192, MADV_DONTNEED);
}

static void cancel_one(struct worker *worker) {
  if (worker->count == 0)
    return;
  uint32_t const place = (worker->head + random_below(&worker->random, worker->count)) % RING_SIZE;
  struct receive *const receive = &worker->ring[place];
  if (receive->kind != RECEIVE_POSTED || is_done(receive->slot))
    return;
  int const result = call(O2G_IOC_CANCEL, receive->slot);
  if (result == 0) {
    receive->kind = RECEIVE_CANCELLED;
    if (flags_of(receive->slot) != 0)
      fail("a cancelled slot has flags %#x", flags_of(receive->slot));
  } else if (result == -EAGAIN) {
    atomic_fetch_add(&totals->raced, 1);
  } else if (result != -ENOMEM) {
    fail("cancel: error %d", result);
  }
}

static void wait_one(struct worker *worker) {
  uint64_t const counts[] = {0, ~UINT64_C(0), receiver.page->event_count};
  uint64_t const timeouts_ns[] = {0, 100000, 3000000};
  struct o2g_wait wait = {counts[random_below(&worker->random, 3)],
                          timeouts_ns[random_below(&worker->random, 3)]};
  enter(STATE_WAITING);
  int const result = call(O2G_IOC_WAIT, (uintptr_t)&wait);
  bool const is_fault = result == -EFAULT && current->has_lossy_faults;
  if (result != 0 && result != -ETIMEDOUT && result != -EINTR && result != -EPIPE &&
      result != -ENOMEM && !is_fault)
    fail("wait: error %d", result);
}

static void walk(struct worker *worker) {
  struct o2g_next next = {O2G_SLOT_NONE, 0};
  if (one_in(&worker->random, 4))
    next.after = random_below(&worker->random, 8 * O2G_CHUNK_SLOT_COUNT);
  for (int i = 0; i < 20; i++) {
    if (call(O2G_IOC_NEXT, (uintptr_t)&next) != 0 || next.slot == O2G_SLOT_NONE)
      return;
    (void)flags_of(next.slot);
    next.after = next.slot;
  }
}

static uintptr_t rubbish_address(struct worker *worker, void *valid) {
  uintptr_t const addresses[] = {0,
                                 8,
                                 (uintptr_t)-4096,
                                 UINT64_C(0xFFFF888000000000),
                                 (uintptr_t)receiver.edge,
                                 (uintptr_t)valid};
  return addresses[random_below(&worker->random, 6)];
}

/* A put whose slot, tag, source or memory is invalid. */
static int put_rubbish(struct worker *worker) {
  uint64_t *const random = &worker->random;
  uint32_t const last_slots = receiver.expected_chunks[0] * O2G_CHUNK_SLOT_COUNT + 1000;
  uint64_t word = random_next(random);
  struct o2g_put put = {last_slots, 0, 0, 0, (uintptr_t)&word, sizeof word, 0};
  switch (random_below(random, 5)) {
    case 0:
      put.slot = UINT32_MAX - random_below(random, 9);
      break;
    case 1:
      put.tag = -2 - (int32_t)random_below(random, 100);
      break;
    case 2:
      put.source = INT32_MIN + (int32_t)random_below(random, 100);
      break;
    case 3:
      put.address = UINT64_C(0xFFFF888000000000) | word >> 20;
      put.size = 4096 + (word >> (word & 63));
      break;
    default:
      put.slot = UINT32_MAX;
      return call(O2G_IOC_PUT, rubbish_address(worker, &put));
  }
  return call(O2G_IOC_PUT, (uintptr_t)&put);
}

/* Calls that must fail. */
static void call_rubbish(struct worker *worker) {
  uint64_t *const random = &worker->random;
  uint64_t words[16] = {random_next(random), random_next(random)};
  struct o2g_find find = {-2, 0, 0, 0, 0};
  struct o2g_register request = {.socket = -1, .rank = 1};
  struct o2g_grow grow = {(uint32_t)words[0] | 2, 0};
  struct o2g_binding binding = {O2G_DRIVER_ABI, 0, 1, 0};
  unsigned long const unknown = _IOWR(O2G_IOC_MAGIC, 16 + random_below(random, 200), words);
  uint32_t const kind = random_below(random, 10);
  int result = 0;
  switch (kind) {
    case 0:
      result = call(O2G_IOC_FIND, (uintptr_t)&find);
      break;
    case 1:
      result = call(O2G_IOC_FREE, UINT32_MAX - random_below(random, 9));
      break;
    case 2:
      result = call(O2G_IOC_CANCEL, UINT64_C(1) << (22 + random_below(random, 42)));
      break;
    case 3:
      result = call(O2G_IOC_GROW, (uintptr_t)&grow);
      break;
    case 4:
      result = call(O2G_IOC_INIT, (uintptr_t)&binding);
      break;
    case 5:
      result = call(unknown, (uintptr_t)words);
      break;
    case 6:
      result = call(O2G_IOC_REGISTER, rubbish_address(worker, &request));
      break;
    case 7:
      result = call(O2G_IOC_EVENTFD, (uintptr_t)receiver.context);
      break;
    default:
      result = put_rubbish(worker);
      break;
  }
  if (result >= 0)
    fail("call %u with invalid arguments returned %d", kind, result);
}

static void map_rubbish(struct worker *worker) {
  uint64_t *const random = &worker->random;
  size_t const sizes[] = {4096, O2G_CHUNK_SIZE, 2 * O2G_CHUNK_SIZE, (size_t)1 << 33};
  size_t const size = sizes[random_below(random, 4)];
  off_t const offset = (off_t)(random_next(random) >> (20 + random_below(random, 40))) & ~4095ll;
  int const flags = one_in(random, 2) ? MAP_SHARED : MAP_PRIVATE;
  void *const mapping = mmap(NULL, size, PROT_READ, flags, receiver.context, offset);
  if (mapping == MAP_FAILED)
    return;
  (void)*(volatile char *)mapping;
  munmap(mapping, size);
}

/* Sockets that the driver must refuse, and one that it has. */
static void register_rubbish(struct worker *worker) {
  uint64_t *const random = &worker->random;
  uint32_t const taken = random_below(random, current->rank_count);
  int pair[2] = {-1, -1};
  int socket_number = -1;
  if (!atomic_load(&receiver.is_registered[taken]))
    return;
  switch (random_below(random, 5)) {
    case 0:
      socket_number = receiver.context;
      break;
    case 1:
      pair[0] = socket(AF_INET, SOCK_STREAM, 0);
      socket_number = pair[0];
      break;
    case 2:
      pair[0] = socket(AF_INET, SOCK_DGRAM, 0);
      socket_number = pair[0];
      break;
    case 3:
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        socket_number = pair[0];
      break;
    default:
      socket_number = current->ranks[random_below(random, current->rank_count)].receiver_socket;
      break;
  }
  struct o2g_register request = {.socket = socket_number, .rank = (int32_t)taken};
  if (call(O2G_IOC_REGISTER, (uintptr_t)&request) == 0)
    fail("rank %u was registered twice", taken);
  for (int i = 0; i < 2; i++) {
    if (pair[i] >= 0)
      close(pair[i]);
  }
}

static void register_one(struct worker *worker) {
  register_rubbish(worker);
  register_rank(random_below(&worker->random, current->rank_count));
  if (one_in(&worker->random, 8))
    set_area();
}

/* The child has the descriptors, but another address space. It lives on for a while, and may live
 * longer than this process. */
static void fork_child(struct worker *worker) {
  uint32_t const lifetime_us = random_below(&worker->random, 20000);
  if (!current->has_forks)
    return;
  pid_t const child = fork();
  if (child != 0) {
    enter(STATE_FORKED);
    return;
  }
  struct o2g_counters counters;
  if (ioctl(receiver.context, O2G_IOC_COUNTERS, &counters) == 0 || errno != EPERM)
    fail("a child can call the context of its parent (errno %d)", errno);
  if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, receiver.context, 0) != MAP_FAILED)
    fail("a child can map the context of its parent");
  memset(worker->regions[0], 1, 8192);
  rest_us(lifetime_us);
  _exit(0);
}

static void send_descriptor(int target, char kind, int descriptor) {
  struct iovec part = {&kind, 1};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr alignment;
  } control = {{0}};
  struct msghdr message = {0};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  struct cmsghdr *const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  sendmsg(target, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Passes the context or a socket to a sender process, or to a socket that nobody reads: the
 * kernel's garbage collection then closes it. */
static void hand_over(struct worker *worker) {
  int pair[2];
  uint32_t const rank = random_below(&worker->random, current->rank_count);
  switch (random_below(&worker->random, 3)) {
    case 0:
      send_descriptor(current->hand_over[0], 'c', receiver.context);
      break;
    case 1:
      send_descriptor(current->hand_over[0], 's', current->ranks[rank].receiver_socket);
      break;
    default:
      if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return;
      send_descriptor(pair[0], 'c', receiver.context);
      send_descriptor(pair[0], 'p', pair[1]);
      send_descriptor(pair[1], 'p', pair[0]);
      close(pair[0]);
      close(pair[1]);
      break;
  }
}

static void interrupt_thread(struct worker *worker) {
  uint32_t const dumper_count = atomic_load(&receiver.dumper_count);
  uint32_t const index = random_below(&worker->random, current->worker_count + dumper_count);
  if (index < dumper_count)
    pthread_kill(receiver.dumpers[index], SIGUSR1);
}

static void change_dumpers(struct worker *worker) {
  if (!one_in(&worker->random, 40)) {
    start_dumper();
    return;
  }
  atomic_store(&receiver.has_stopped_dumpers, true);
  call_surely(O2G_IOC_STOP, 0);
}

static void change_event(struct worker *worker) {
  if (one_in(&worker->random, 3)) {
    call(O2G_IOC_EVENTFD, (uintptr_t)-1);
    return;
  }
  int const event = eventfd(0, EFD_NONBLOCK);
  if (event < 0)
    return;
  int const result = call(O2G_IOC_EVENTFD, (uintptr_t)event);
  if (result != 0 && result != -ENOMEM)
    fail("eventfd: error %d", result);
  close(event); /* the driver keeps it */
}

static void query(struct worker *worker) {
  struct o2g_counters counters;
  struct pollfd waiting = {receiver.context, POLLIN, 0};
  uint32_t const rank = random_below(&worker->random, current->rank_count);
  if (one_in(&worker->random, 2)) {
    change_event(worker);
    return;
  }
  call(O2G_IOC_COUNTERS, (uintptr_t)&counters);
  poll(&waiting, 1, (int)random_below(&worker->random, 3));
  int const result = call(O2G_IOC_RANK_STATUS, rank);
  if (result != 0 && result != -ENOENT)
    check_ended((int32_t)rank, "status", result);
  call(O2G_IOC_RANK_STATUS, (uintptr_t)random_next(&worker->random));
}

struct work {
  enum operation operation;
  uint32_t weight;
  void (*run)(struct worker *worker);
};

static void grow_one(struct worker *worker) {
  (void)worker;
  grow();
}

static const struct work works[] = {
    {OPERATION_RECEIVE, 300, receive_one},
    {OPERATION_PUT_UNORDERED, 60, put_unordered},
    {OPERATION_HOSTILE, 20, put_hostile},
    {OPERATION_FIND, 150, find_one},
    {OPERATION_CANCEL, 40, cancel_one},
    {OPERATION_RETIRE, 300, ring_retire},
    {OPERATION_WAIT, 40, wait_one},
    {OPERATION_NEXT, 10, walk},
    {OPERATION_RUBBISH, 20, call_rubbish},
    {OPERATION_MAP, 4, map_rubbish},
    {OPERATION_REGISTER, 8, register_one},
    {OPERATION_FORK, 1, fork_child},
    {OPERATION_HAND_OVER, 4, hand_over},
    {OPERATION_SIGNAL, 4, interrupt_thread},
    {OPERATION_DUMPER, 2, change_dumpers},
    {OPERATION_GROW, 2, grow_one},
    {OPERATION_QUERY, 20, query},
    {OPERATION_DISCARD, 5, discard_pages},
};

void work_step(struct worker *worker) {
  uint32_t total = 0;
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
    total += works[i].weight;
  uint32_t chosen = random_below(&worker->random, total);
  struct work const *work = works;
  while (chosen >= work->weight) {
    chosen -= work->weight;
    work++;
  }
  work->run(worker);
  atomic_fetch_add(&totals->operations[work->operation], 1);
}
