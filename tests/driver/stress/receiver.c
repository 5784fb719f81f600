/* receiver.c: the process that has the context: it opens, registers, starts workers, drains, and
 * ends in one of several ways. */
#include "receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct receiver receiver;

bool is_refusal(int result) {
  return result == -ENOMEM || (result == -EFAULT && current->has_lossy_faults);
}

int call(unsigned long request, uintptr_t argument) {
  int result = ioctl(receiver.context, request, argument);
  if (result < 0)
    result = -errno;
  if (is_refusal(result))
    atomic_fetch_add(&totals->refused, 1);
  return result;
}

int call_surely(unsigned long request, uintptr_t argument) {
  for (int i = 0; i < 100000; i++) {
    int const result = call(request, argument);
    if (!is_refusal(result) || !current->has_faults)
      return result;
  }
  fail("call %#lx was refused 100,000 times", request);
}

bool is_complete(uint32_t rank) {
  enum fate const fate = current->ranks[rank].fate;
  return !current->has_lossy_faults &&
         (fate == FATE_NORMAL || fate == FATE_FIN || fate == FATE_RUBBISH);
}

bool register_rank(uint32_t rank) {
  if (atomic_exchange(&receiver.is_registering[rank], true))
    return false;
  enter(STATE_REGISTERING);
  int const socket = current->ranks[rank].receiver_socket;
  struct o2g_register request = {
      .socket = socket, .rank = (int32_t)rank, .peer = current->has_envelopes ? peer_of(rank) : 0};
  int const result = call_surely(O2G_IOC_REGISTER, (uintptr_t)&request);
  bool const may_have_ended = current->ranks[rank].fate != FATE_NORMAL;
  if (result != 0 && !(may_have_ended && (result == -EINVAL || result == -EPIPE)))
    fail("registration of rank %u: error %d", rank, result);
  atomic_store(&receiver.is_registered[rank], result == 0);
  return true;
}

void set_area(void) {
  pthread_mutex_lock(&receiver.mutex);
  if (!atomic_load(&receiver.has_area)) {
    struct o2g_dump_area area = {(uintptr_t)receiver.area, current->area_size, 0};
    enter(STATE_AREA);
    int const result = call_surely(O2G_IOC_SET_DUMP_AREA, (uintptr_t)&area);
    bool const is_repeated = result == -EBUSY && current->has_lossy_faults;
    if (result != 0 && !is_repeated)
      fail("the dump area: error %d", result);
    if (area.pinned_size > area.size)
      fail("of a dump area of %llu bytes %llu are pinned",
           (unsigned long long)area.size,
           (unsigned long long)area.pinned_size);
    atomic_store(&receiver.has_area, true);
  }
  pthread_mutex_unlock(&receiver.mutex);
}

bool grow(void) {
  struct o2g_grow grow = {O2G_CHUNK_EXPECTED, 0};
  bool has_grown = false;
  pthread_mutex_lock(&receiver.mutex);
  uint32_t const count = atomic_load(&receiver.expected_chunk_count);
  if (count < EXPECTED_CHUNK_COUNT_MAX) {
    int const result = call_surely(O2G_IOC_GROW, (uintptr_t)&grow);
    if (result != 0 || grow.chunk >= O2G_CHUNK_COUNT_MAX)
      fail("grow: error %d, chunk %u", result, grow.chunk);
    receiver.expected_chunks[count] = grow.chunk;
    atomic_store(&receiver.expected_chunk_count, count + 1);
    has_grown = true;
  }
  pthread_mutex_unlock(&receiver.mutex);
  return has_grown;
}

static void *dumper_run(void *unused) {
  int result;
  do {
    enter(STATE_DUMPING);
    result = call(O2G_IOC_DUMP, 0);
  } while (result == -EINTR || is_refusal(result));
  if (result != 0)
    fail("a dumper thread: error %d", result);
  if (!atomic_load(&receiver.has_stopped_dumpers))
    fail("a dumper thread returned, and nobody has stopped it");
  return unused;
}

bool start_dumper(void) {
  bool has_started = false;
  pthread_mutex_lock(&receiver.mutex);
  uint32_t const count = atomic_load(&receiver.dumper_count);
  if (count < DUMPER_COUNT_MAX &&
      pthread_create(&receiver.dumpers[count], NULL, dumper_run, NULL) == 0) {
    atomic_store(&receiver.dumper_count, count + 1);
    has_started = true;
  }
  pthread_mutex_unlock(&receiver.mutex);
  return has_started;
}

static void *sender_thread(void *unused) {
  sender_run(SENDER_PROCESS_COUNT, SENDER_PROCESS_COUNT + 1, -1);
  return unused;
}

void start_sender(void) {
  pthread_t sender;
  if (pthread_create(&sender, NULL, sender_thread, NULL) != 0)
    fail("pthread_create: errno %d", errno);
  pthread_detach(sender);
}

_Noreturn void replace_program(const char *program) {
  char number[16];
  snprintf(number, sizeof number, "%d", receiver.context);
  execl(program, program, "--after-exec", number, (char *)NULL);
  fail("exec: errno %d", errno);
}

void limit_locked_memory(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  struct rlimit const limit = {256 << 10, 256 << 10};
  if (syscall(SYS_capget, &head, data) != 0)
    return;
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  data[0].permitted &= ~(1u << CAP_IPC_LOCK);
  if (syscall(SYS_capset, &head, data) != 0 || setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    fail("cannot limit locked memory: errno %d", errno);
}

void open_context(uint32_t flags) {
  do {
    receiver.context = open(O2G_DRIVER_PATH, O_RDWR);
  } while (receiver.context < 0 && errno == ENOMEM && current->has_faults);
  if (receiver.context < 0)
    fail("cannot open %s: errno %d", O2G_DRIVER_PATH, errno);
  struct o2g_binding binding = {O2G_DRIVER_ABI, flags, current->rank_count, 0};
  int const result = call_surely(O2G_IOC_INIT, (uintptr_t)&binding);
  if (result != 0 && !(result == -EBUSY && current->has_lossy_faults))
    fail("init: error %d", result);
  enter(STATE_OPENED);
  do {
    receiver.page = mmap(NULL,
                         (size_t)sysconf(_SC_PAGESIZE),
                         PROT_READ | PROT_WRITE,
                         MAP_SHARED,
                         receiver.context,
                         0);
  } while (receiver.page == MAP_FAILED && errno == ENOMEM && current->has_faults);
  if (receiver.page == MAP_FAILED || receiver.page->abi != O2G_DRIVER_ABI)
    fail("the shared page: errno %d", errno);
}

static void prepare_memory(uint64_t *random) {
  for (uint32_t i = 0; i < current->worker_count; i++)
    worker_prepare(&receiver.workers[i], i);
  char *const pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE) != 0)
    fail("mmap: errno %d", errno);
  receiver.edge = pages + 4092;
  int const sharing = one_in(random, 4) ? MAP_SHARED : MAP_PRIVATE;
  receiver.area =
      mmap(NULL, current->area_size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (receiver.area == MAP_FAILED)
    fail("mmap of the dump area: errno %d", errno);
  if (one_in(random, 2))
    madvise(receiver.area, current->area_size, MADV_HUGEPAGE);
  memset(receiver.area, 0, current->area_size);
}

static void prepare(void) {
  uint64_t random = mix(current->seed, 55, 0) | 1;
  pthread_mutex_init(&receiver.mutex, NULL);
  prepare_memory(&random);
  if (current->is_memory_locked_limited)
    limit_locked_memory();
  if (current->has_faults)
    faults_thread(true);
  open_context(0);
  bool const has_area = !one_in(&random, 4);
  if (has_area && one_in(&random, 2))
    set_area();
  for (uint32_t rank = 0; rank < current->rank_count; rank++) {
    if (!one_in(&random, 3))
      register_rank(rank);
  }
  if (has_area)
    set_area();
  grow();
  if (current->has_faults)
    faults_thread(false);
}

static void start_threads(void) {
  for (uint32_t i = 0; i < current->dumper_count; i++)
    start_dumper();
  start_sender();
  for (uint32_t i = 0; i < current->worker_count; i++) {
    struct worker *const worker = &receiver.workers[i];
    if (pthread_create(&worker->thread, NULL, worker_run, worker) != 0)
      fail("pthread_create: errno %d", errno);
  }
}

static bool take_unexpected(struct worker *worker, uint32_t context) {
  uint64_t sequence;
  struct receive receive = {.kind = RECEIVE_CLAIMED,
                            .source = O2G_ANY_SOURCE,
                            .tag = O2G_ANY_TAG,
                            .context = context,
                            .is_ordered = true};
  if (find(&receive, &sequence) != 0)
    return false;
  await_completion(receive.slot);
  check_claimed(worker, &receive);
  return true;
}

/* Takes a message that does not fit into the dump area. */
static bool take_blocked(struct worker *worker, uint32_t context) {
  static char *buffer;
  if (buffer == NULL)
    buffer = malloc(MESSAGE_SIZE_MAX);
  struct receive receive = {.kind = RECEIVE_POSTED,
                            .source = O2G_ANY_SOURCE,
                            .tag = O2G_ANY_TAG,
                            .context = context,
                            .slot = receiver.expected_chunks[0] * O2G_CHUNK_SLOT_COUNT + 1023,
                            .buffer = buffer,
                            .size = MESSAGE_SIZE_MAX};
  if (put(worker, &receive, ~UINT64_C(0)) != 0)
    return false;
  int const result = call_surely(O2G_IOC_CANCEL, receive.slot);
  if (result == 0)
    return false;
  await_completion(receive.slot);
  struct o2g_slot const slot = *slot_of(receive.slot);
  if ((slot.flags & O2G_RECEIVED) != 0)
    take((uint32_t)slot.source, message_check((uint32_t)slot.source, buffer, slot.received_size));
  return true;
}

static bool is_drained(void) {
  for (uint32_t i = 0; i < current->rank_count; i++) {
    struct rank_state *const rank = &current->ranks[i];
    if (is_complete(i) && (!atomic_load(&rank->is_finished) ||
                           atomic_load(&rank->sent_count) != receiver.taken_count[i]))
      return false;
  }
  return true;
}

static void report_lost(void) {
  for (uint32_t i = 0; i < current->rank_count; i++) {
    struct rank_state *const rank = &current->ranks[i];
    if (!is_complete(i) || atomic_load(&rank->sent_count) == receiver.taken_count[i])
      continue;
    fprintf(
        stderr,
        "stress: rank %u of fate %d: %u messages sent by a sender that %s, %u received, %d bytes"
        " unread, status %d\n",
        i,
        (int)rank->fate,
        atomic_load(&rank->sent_count),
        atomic_load(&rank->is_finished) ? "has finished" : "continues",
        receiver.taken_count[i],
        unread_size((int32_t)i),
        call(O2G_IOC_RANK_STATUS, i));
  }
  fail("messages are missing; %u sockets are pending, %u blocked, %u open, %u messages unclaimed",
       receiver.page->pending_count,
       receiver.page->blocked_count,
       receiver.page->open_count,
       receiver.page->unclaimed_count);
}

static void drain(void) {
  struct worker *const worker = &receiver.workers[0];
  uint64_t progress_ms = now_ms();
  enter(STATE_DRAINING);
  while (!is_drained()) {
    bool has_taken = false;
    for (uint32_t context = 0; context < CONTEXT_COUNT; context++)
      has_taken = take_unexpected(worker, context) || has_taken;
    bool const is_blocked = receiver.page->blocked_count != 0;
    for (uint32_t context = 0; context < CONTEXT_COUNT && is_blocked && !has_taken; context++)
      has_taken = take_blocked(worker, context);
    if (has_taken)
      progress_ms = now_ms();
    else
      rest_us(1000);
    if (now_ms() > progress_ms + COMPLETION_LIMIT_MS)
      report_lost();
  }
}

/* Messages of connections that ended are left over. */
static void drain_rest(void) {
  struct worker *const worker = &receiver.workers[0];
  uint64_t const limit_ms = now_ms() + COMPLETION_LIMIT_MS;
  struct o2g_counters counters;
  do {
    for (uint32_t context = 0; context < CONTEXT_COUNT; context++) {
      while (take_unexpected(worker, context)) {}
    }
    call_surely(O2G_IOC_COUNTERS, (uintptr_t)&counters);
    if (now_ms() > limit_ms)
      fail("%llu unexpected and %llu expected entries remain",
           (unsigned long long)counters.unexpected_count,
           (unsigned long long)counters.expected_count);
  } while (counters.unexpected_count != 0 && !current->has_lossy_faults);
  if (counters.expected_count != 0 && !current->has_lossy_faults)
    fail("%llu expected entries remain", (unsigned long long)counters.expected_count);
  uint64_t open = 0;
  for (uint32_t rank = 0; rank < current->rank_count; rank++)
    open += current->ranks[rank].fate == FATE_NORMAL;
  if (counters.socket_count < open && !current->has_lossy_faults)
    fail("%u sockets are open of %llu", counters.socket_count, (unsigned long long)open);
}

void add_counters(void) {
  struct o2g_counters counters;
  call_surely(O2G_IOC_COUNTERS, (uintptr_t)&counters);
  atomic_fetch_add(&totals->handler_size, counters.handler_size);
  atomic_fetch_add(&totals->worker_size, counters.worker_size);
  atomic_fetch_add(&totals->dumper_size, counters.dumper_size);
}

static void stop_dumpers(void) {
  atomic_store(&receiver.has_stopped_dumpers, true);
  call_surely(O2G_IOC_STOP, 0);
  for (uint32_t i = 0; i < atomic_load(&receiver.dumper_count); i++)
    pthread_join(receiver.dumpers[i], NULL);
}

static _Noreturn void end_orderly(void) {
  uint64_t random = mix(current->seed, 66, 0) | 1;
  for (uint32_t i = 0; i < current->worker_count; i++)
    pthread_join(receiver.workers[i].thread, NULL);
  for (uint32_t rank = 0; rank < current->rank_count; rank++)
    register_rank(rank);
  set_area();
  if (one_in(&random, 3))
    stop_dumpers();
  drain();
  drain_rest();
  add_counters();
  enter(STATE_CLOSING);
  for (uint32_t rank = 0; rank < current->rank_count; rank += 2)
    close(current->ranks[rank].receiver_socket);
  if (!atomic_load(&receiver.has_stopped_dumpers))
    stop_dumpers();
  if (one_in(&random, 2))
    call_surely(O2G_IOC_FINI, 0);
  if (one_in(&random, 2))
    munmap(receiver.page, (size_t)sysconf(_SC_PAGESIZE));
  close(receiver.context);
  _exit(0);
}

static uint64_t checksum(void) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i + 8 <= current->area_size; i += 8)
    sum = sum * 3 + *(uint64_t const *)(receiver.area + i);
  for (uint32_t i = 0; i < current->worker_count * RING_SIZE; i++) {
    char const *const region = receiver.workers[i / RING_SIZE].regions[i % RING_SIZE];
    for (uint64_t k = 0; k < BUFFER_SIZE; k += 8)
      sum = sum * 3 + *(uint64_t const *)(region + k);
  }
  return sum;
}

/* O2G_IOC_FINI while messages are being received: nothing is written after it. */
static _Noreturn void end_by_fini(void) {
  atomic_store(&receiver.is_leaving, true);
  for (uint32_t i = 0; i < current->worker_count; i++)
    pthread_join(receiver.workers[i].thread, NULL);
  add_counters();
  enter(STATE_CLOSING);
  atomic_store(&receiver.has_stopped_dumpers, true);
  int const result = call_surely(O2G_IOC_FINI, 0);
  uint64_t const sum = checksum();
  struct o2g_wait wait = {0, 0};
  int const later_result = call(O2G_IOC_WAIT, (uintptr_t)&wait);
  if (result != 0 || (later_result != -ENXIO && !current->has_lossy_faults))
    fail("fini: error %d, and later calls return %d", result, later_result);
  for (uint32_t i = 0; i < atomic_load(&receiver.dumper_count); i++)
    pthread_join(receiver.dumpers[i], NULL);
  rest_us(20000);
  if (checksum() != sum)
    fail("memory was written after fini");
  _exit(0);
}

static void ignore_signal(int number) {
  (void)number;
}

_Noreturn void receiver_run(const char *program) {
  struct sigaction const action = {.sa_handler = ignore_signal}; /* without SA_RESTART */
  sigaction(SIGUSR1, &action, NULL);
  signal(SIGCHLD, SIG_IGN);
  if (current->has_envelopes)
    frames_run(program);
  prepare();
  start_threads();
  for (uint64_t end_ms = now_ms() + current->duration_ms; now_ms() < end_ms;)
    rest_us(5000);
  if (current->ending == ENDING_ORDERLY) {
    atomic_store(&current->is_stopping, true);
    end_orderly();
  }
  if (current->ending == ENDING_FINI)
    end_by_fini();
  add_counters();
  enter(STATE_CLOSING);
  if (current->ending == ENDING_UNMAP) {
    munmap(receiver.area, current->area_size);
    rest_us(20000);
  }
  if (current->ending == ENDING_EXEC)
    replace_program(program);
  _exit(0);
}

int after_exec(int context) {
  struct o2g_counters counters;
  if (ioctl(context, O2G_IOC_COUNTERS, &counters) == 0 || errno != EPERM) {
    fprintf(stderr, "stress: after exec the context answers (errno %d)\n", errno);
    return 1;
  }
  return 0;
}
