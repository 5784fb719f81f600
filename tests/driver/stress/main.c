/* main.c: random operations on the driver o2g.ko, in rounds.
 *
 * usage: stress [-eF] [-t seconds] [-k kills] [-s seed] [-n sockets] [-w threads] [-f per_cent]
 * [-v]
 *
 * In each round the controller, this process, connects `sockets` pairs of TCP sockets and starts a
 * receiver and two senders. The receiver is a process that opens /dev/o2g, and whose threads post,
 * find, cancel and take messages, and misuse the driver. Senders write messages whose contents
 * follow from seed, rank and number, in pieces of any size; some end their connections at any byte.
 * The receiver checks contents, order and, unless the round ends with a kill, that nothing was
 * lost. With -e the messages are frames of libo2g-fi.so, which one thread receives: frames.c. With
 * -k the controller kills receivers until `kills` of them have died. With -f memory allocations
 * fail at random. With -F receivers do not fork. The status is 1 if anything was wrong. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

enum { ROUND_LIMIT_MS = 300000 };

struct options {
  unsigned seconds;
  unsigned kill_count;
  uint64_t seed;
  unsigned socket_count;
  unsigned worker_count;
  unsigned fault_rate;
  bool has_envelopes;
  bool has_forks;
  bool is_verbose;
};

struct round *current;
struct totals *totals;
static struct options options = {10, 0, 0, 8, 4, 0, false, true, false};
static unsigned killed_count;
static unsigned kills_of_state[STATE_COUNT];

static const char *const operation_names[OPERATION_COUNT] = {"receive",
                                                             "put unordered",
                                                             "put hostile",
                                                             "find",
                                                             "cancel",
                                                             "retire",
                                                             "wait",
                                                             "walk",
                                                             "rubbish",
                                                             "map",
                                                             "register",
                                                             "fork",
                                                             "hand over",
                                                             "signal",
                                                             "dumper",
                                                             "grow",
                                                             "query",
                                                             "discard"};
static const char *const state_names[STATE_COUNT] = {"opened",
                                                     "registering",
                                                     "setting the area",
                                                     "putting",
                                                     "found",
                                                     "waiting",
                                                     "dumping",
                                                     "forked",
                                                     "draining",
                                                     "closing"};

void fail(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr,
          "stress: %s (seed %llu, round %u)\n",
          text,
          (unsigned long long)options.seed,
          current == NULL ? 0 : current->number);
  if (current != NULL)
    atomic_store(&current->has_failed, true);
  _exit(1);
}

void enter(enum state state) {
  atomic_fetch_add(&current->entered[state], 1);
}

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void rest_us(uint32_t microseconds) {
  struct timespec const time = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
  nanosleep(&time, NULL);
}

static void *shared_memory(size_t size) {
  void *const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail("mmap: errno %d", errno);
  return memory;
}

static void connect_rank(int listener,
                         struct sockaddr_in const *address,
                         uint64_t *random,
                         struct rank_state *rank) {
  int const segment_size = 1400;
  bool const has_small_segments = one_in(random, 2);
  rank->sender_socket = socket(AF_INET, SOCK_STREAM, 0);
  if (has_small_segments)
    setsockopt(rank->sender_socket, IPPROTO_TCP, TCP_MAXSEG, &segment_size, sizeof segment_size);
  if (rank->sender_socket < 0 ||
      connect(rank->sender_socket, (struct sockaddr const *)address, sizeof *address) != 0)
    fail("connect: errno %d", errno);
  rank->receiver_socket = accept(listener, NULL, NULL);
  if (rank->receiver_socket < 0)
    fail("accept: errno %d", errno);
  /* A window below the segments of the loopback, 64 KiB, would be filled once a second only. */
  int const size = has_small_segments ? 16 << 10 : 512 << 10;
  if (one_in(random, 2))
    setsockopt(rank->receiver_socket, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  int const one = 1;
  if (one_in(random, 2))
    setsockopt(rank->sender_socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void connect_ranks(uint64_t *random) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  int const listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
      listen(listener, RANK_COUNT_MAX) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &size) != 0)
    fail("listen: errno %d", errno);
  for (uint32_t i = 0; i < current->rank_count; i++) {
    struct rank_state *const rank = &current->ranks[i];
    bool const is_normal = i == 0 || one_in(random, 2);
    rank->fate = is_normal ? FATE_NORMAL : (enum fate)(1 + random_below(random, FATE_COUNT - 1));
    rank->end_at = random_below(random, 1u << (4 + random_below(random, 18)));
    connect_rank(listener, &address, random, rank);
  }
  close(listener);
}

static void begin_round(uint32_t number) {
  memset(current, 0, sizeof *current);
  current->number = number;
  current->seed = mix(options.seed, 11, number);
  current->has_envelopes = options.has_envelopes;
  current->has_forks = options.has_forks;
  uint64_t random = current->seed | 1;
  current->rank_count =
      one_in(&random, 4) ? 1 + random_below(&random, options.socket_count) : options.socket_count;
  current->worker_count = one_in(&random, 4) ? 1 : options.worker_count;
  current->dumper_count = random_below(&random, 3);
  current->duration_ms = 100 + random_below(&random, 2000);
  current->area_size = (uint64_t)(16 << 10) << random_below(&random, 9);
  current->area_size += random_below(&random, 5000);
  current->ending =
      one_in(&random, 3) ? (enum ending)random_below(&random, ENDING_COUNT) : ENDING_ORDERLY;
  current->is_memory_locked_limited = one_in(&random, 4);
  faults_choose(&random);
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, current->hand_over) != 0)
    fail("socketpair: errno %d", errno);
  connect_ranks(&random);
}

static void close_sockets(bool is_of_receiver, bool is_of_sender) {
  for (uint32_t i = 0; i < current->rank_count; i++) {
    if (is_of_receiver)
      close(current->ranks[i].receiver_socket);
    if (is_of_sender)
      close(current->ranks[i].sender_socket);
  }
}

static pid_t start_sender(uint32_t index) {
  pid_t const process = fork();
  if (process < 0)
    fail("fork: errno %d", errno);
  if (process != 0)
    return process;
  close_sockets(true, false);
  for (uint32_t i = 0; i < current->rank_count; i++) {
    if (i % (SENDER_PROCESS_COUNT + 1) != index)
      close(current->ranks[i].sender_socket);
  }
  close(current->hand_over[0]);
  sender_run(index, SENDER_PROCESS_COUNT + 1, index == 0 ? current->hand_over[1] : -1);
  while (!atomic_load(&current->is_over))
    rest_us(2000);
  _exit(0);
}

static pid_t start_receiver(const char *program) {
  pid_t const process = fork();
  if (process < 0)
    fail("fork: errno %d", errno);
  if (process != 0)
    return process;
  for (uint32_t i = 0; i < current->rank_count; i++) {
    if (i % (SENDER_PROCESS_COUNT + 1) != SENDER_PROCESS_COUNT)
      close(current->ranks[i].sender_socket);
  }
  close(current->hand_over[1]);
  receiver_run(program);
}

/* Where threads of a process that hangs are in the kernel. */
static void show_threads(pid_t process) {
  char command[200];
  snprintf(command,
           sizeof command,
           "for t in /proc/%d/task/*; do echo \"$t $(cat $t/wchan)\"; cat $t/stack; done 1>&2",
           process);
  if (system(command) != 0)
    fprintf(stderr, "stress: no threads of %d\n", process);
}

static int await_process(pid_t process, uint64_t limit_ms, const char *name) {
  int status = 0;
  for (;;) {
    pid_t const ended = waitpid(process, &status, WNOHANG);
    if (ended == process)
      return status;
    if (ended < 0)
      fail("waitpid: errno %d", errno);
    if (now_ms() > limit_ms) {
      show_threads(process);
      fail("the %s did not end", name);
    }
    rest_us(1000);
  }
}

/* It stays a zombie. */
static bool has_ended(pid_t process) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

static enum state choose_state(uint64_t *random) {
  static const enum state of_frames[] = {
      STATE_OPENED, STATE_REGISTERING, STATE_PUT, STATE_WAITING, STATE_DRAINING, STATE_CLOSING};
  if (current->has_envelopes)
    return of_frames[random_below(random, sizeof of_frames / sizeof of_frames[0])];
  return (enum state)random_below(random, STATE_COUNT);
}

/* Kills the receiver at one of its steps, if it gets there. */
static bool kill_receiver(pid_t receiver, uint64_t *random) {
  enum state const state = choose_state(random);
  uint32_t const turn = 1 + random_below(random, one_in(random, 2) ? 2 : 100);
  uint64_t const limit_ms = now_ms() + 4 * current->duration_ms + 5000; /* it may not get there */
  while (atomic_load(&current->entered[state]) < turn) {
    if (now_ms() > limit_ms || has_ended(receiver))
      break;
    rest_us(random_below(random, 100));
  }
  if (has_ended(receiver))
    return false;
  kill(receiver, SIGKILL);
  killed_count++;
  kills_of_state[state]++;
  return true;
}

static void end_round(pid_t receiver, pid_t const *senders, bool is_killed) {
  uint64_t const limit_ms = now_ms() + ROUND_LIMIT_MS;
  int const status = await_process(receiver, limit_ms, "receiver");
  atomic_store(&current->is_stopping, true);
  atomic_store(&current->is_over, true);
  bool const may_crash = current->ending == ENDING_UNMAP;
  if (WIFSIGNALED(status)) {
    int const number = WTERMSIG(status);
    if (!(number == SIGKILL && is_killed) &&
        !(may_crash && (number == SIGSEGV || number == SIGBUS)))
      fail("the receiver ended by signal %d", number);
  } else if (WEXITSTATUS(status) != 0) {
    fail("the receiver ended with status %d", WEXITSTATUS(status));
  }
  for (int i = 0; i < SENDER_PROCESS_COUNT; i++) {
    if (await_process(senders[i], limit_ms, "sender") != 0)
      fail("a sender failed");
  }
  if (atomic_load(&current->has_failed))
    fail("a child failed");
}

/* Nothing may hold the module once all processes have ended; the kernel closes some files later. */
static void check_references(void) {
  uint64_t const limit_ms = now_ms() + 30000;
  int count = -1;
  do {
    FILE *const file = fopen("/sys/module/o2g/refcnt", "r");
    if (file == NULL)
      return;
    if (fscanf(file, "%d", &count) != 1)
      count = -1;
    fclose(file);
    if (count == 0)
      return;
    rest_us(10000);
  } while (now_ms() < limit_ms);
  fail("%d references to the module remain", count);
}

static void run_round(const char *program, uint32_t number) {
  pid_t senders[SENDER_PROCESS_COUNT];
  uint64_t const start_ms = now_ms();
  begin_round(number);
  uint64_t random = mix(current->seed, 22, 0) | 1;
  for (uint32_t i = 0; i < SENDER_PROCESS_COUNT; i++)
    senders[i] = start_sender(i);
  pid_t const receiver = start_receiver(program);
  close_sockets(true, true);
  close(current->hand_over[0]);
  close(current->hand_over[1]);
  bool is_killed = false;
  if (options.kill_count != 0)
    is_killed = kill_receiver(receiver, &random);
  end_round(receiver, senders, is_killed);
  check_references();
  if (options.is_verbose)
    printf("round %u: %u sockets, %u threads, ending %d, %llu of %u ms%s%s%s\n",
           number,
           current->rank_count,
           current->worker_count,
           (int)current->ending,
           (unsigned long long)(now_ms() - start_ms),
           current->duration_ms,
           is_killed ? ", killed" : "",
           current->has_faults ? ", faults" : "",
           current->has_lossy_faults ? ", lossy" : "");
}

static void read_options(int count, char **words) {
  for (;;) {
    int const option = getopt(count, words, "eFt:k:s:n:w:f:v");
    if (option == -1)
      break;
    switch (option) {
      case 'e':
        options.has_envelopes = true;
        break;
      case 'F':
        options.has_forks = false;
        break;
      case 't':
        options.seconds = (unsigned)atoi(optarg);
        break;
      case 'k':
        options.kill_count = (unsigned)atoi(optarg);
        break;
      case 's':
        options.seed = strtoull(optarg, NULL, 0);
        break;
      case 'n':
        options.socket_count = (unsigned)atoi(optarg);
        break;
      case 'w':
        options.worker_count = (unsigned)atoi(optarg);
        break;
      case 'f':
        options.fault_rate = (unsigned)atoi(optarg);
        break;
      case 'v':
        options.is_verbose = true;
        break;
      default:
        exit(2);
    }
  }
  if (options.socket_count == 0 || options.socket_count > RANK_COUNT_MAX ||
      options.worker_count == 0 || options.worker_count > WORKER_COUNT_MAX) {
    fprintf(stderr, "stress: 1 to %d sockets, 1 to %d threads\n", RANK_COUNT_MAX, WORKER_COUNT_MAX);
    exit(2);
  }
  if (options.seed == 0)
    options.seed = (uint64_t)time(NULL) << 16 | (uint64_t)(getpid() & 0xFFFF);
}

static void print_totals(uint32_t round_count, uint64_t elapsed_ms) {
  uint64_t sum = 0;
  for (int i = 0; i < OPERATION_COUNT; i++)
    sum += totals->operations[i];
  printf("stress: seed %llu: %u rounds, %llu operations, %llu messages in %llu s\n",
         (unsigned long long)options.seed,
         round_count,
         (unsigned long long)sum,
         (unsigned long long)totals->messages,
         (unsigned long long)elapsed_ms / 1000);
  for (int i = 0; i < OPERATION_COUNT; i++)
    printf("%s%s %llu",
           i == 0 ? "  " : ", ",
           operation_names[i],
           (unsigned long long)totals->operations[i]);
  printf("\n  refused by faults %llu, raced %llu, failed entries %llu\n",
         (unsigned long long)totals->refused,
         (unsigned long long)totals->raced,
         (unsigned long long)totals->failed_entries);
  printf("  bytes copied: %llu in the handler, %llu by the work queue, %llu by threads\n",
         (unsigned long long)totals->handler_size,
         (unsigned long long)totals->worker_size,
         (unsigned long long)totals->dumper_size);
  if (killed_count == 0)
    return;
  printf("  killed %u:", killed_count);
  for (int i = 0; i < STATE_COUNT; i++)
    printf(" %s %u%s", state_names[i], kills_of_state[i], i + 1 == STATE_COUNT ? "\n" : ",");
}

int main(int count, char **words) {
  if (count == 3 && strcmp(words[1], "--after-exec") == 0)
    return after_exec(atoi(words[2]));
  read_options(count, words);
  setvbuf(stdout, NULL, _IOLBF, 0);
  current = shared_memory(sizeof *current);
  totals = shared_memory(sizeof *totals);
  printf("stress: seed %llu\n", (unsigned long long)options.seed);
  faults_prepare(options.fault_rate);
  uint64_t const start_ms = now_ms();
  uint32_t number = 0;
  bool is_over = false;
  while (!is_over) {
    run_round("/proc/self/exe", number);
    number++;
    is_over = options.kill_count != 0 ? killed_count >= options.kill_count
                                      : now_ms() >= start_ms + options.seconds * 1000ull;
  }
  print_totals(number, now_ms() - start_ms);
  faults_end();
  return 0;
}
