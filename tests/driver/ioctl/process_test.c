/* process_test.c: binding, other processes, and the ends of processes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"

enum { SLOT = 3, TAG = 5 };

static struct context context;
static char buffer[1 << 20];

static void calls_before_binding_and_invalid_calls_are_refused(void) {
  struct o2g_binding binding = {O2G_DRIVER_ABI + 1, 0, 10, 0};
  struct o2g_counters counters;
  context.file = open(O2G_DRIVER_PATH, O_RDWR);
  CHECK_EQUAL(call(&context, O2G_IOC_COUNTERS, &counters), -ENXIO);
  CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, context.file, 0) == MAP_FAILED && errno == ENXIO);
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), -EPROTONOSUPPORT);
  CHECK_EQUAL(binding.abi, O2G_DRIVER_ABI);
  binding.flags = 2;
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), -EINVAL);
  binding.flags = 0;
  binding.socket_count = O2G_SOCKET_COUNT_MAX + 1;
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), -EINVAL);
  binding.socket_count = 10;
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), 0);
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), -EBUSY);
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, NULL), -EFAULT);
  for (unsigned number = 1; number < 20; number++) {
    int const error = call_value(&context, _IOWR(O2G_IOC_MAGIC, number, struct o2g_find), 8);
    CHECK(error == -ENOTTY || error == -EFAULT);
  }
  CHECK_EQUAL(call(&context, O2G_IOC_PUT, NULL), -EFAULT);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, NULL), -EFAULT);
  CHECK_EQUAL(call(&context, O2G_IOC_COUNTERS, NULL), -EFAULT);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 10), -EINVAL); /* no chunk */
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, SLOT), -EINVAL);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, O2G_SLOT_NONE), -EINVAL);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, 1ul << 32), -EINVAL);
}

static int map_error(size_t size, int protection, int flags, off_t offset) {
  void *const memory = mmap(NULL, size, protection, flags, context.file, offset);
  if (memory == MAP_FAILED)
    return -errno;
  munmap(memory, size);
  return 0;
}

static void only_whole_chunks_are_mapped(void) {
  int const both = PROT_READ | PROT_WRITE;
  setup(&context, 0, 0);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, both, MAP_SHARED, O2G_CHUNK_SIZE), 0);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, both, MAP_PRIVATE, O2G_CHUNK_SIZE), -EINVAL);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, PROT_EXEC, MAP_SHARED, O2G_CHUNK_SIZE), -EINVAL);
  CHECK_EQUAL(map_error(4096, both, MAP_SHARED, O2G_CHUNK_SIZE), -EINVAL);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, both, MAP_SHARED, 4096), -EINVAL);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, both, MAP_SHARED, 2 * O2G_CHUNK_SIZE), -EINVAL);
  CHECK_EQUAL(map_error(O2G_CHUNK_SIZE, both, MAP_SHARED, (off_t)1 << 50), -EINVAL);
  CHECK_EQUAL(map_error(8192, both, MAP_SHARED, 0), -EINVAL);
}

static void check_in_child(void) {
  struct pollfd poll_file = {context.file, POLLIN, 0};
  struct o2g_counters counters;
  struct o2g_binding binding = {O2G_DRIVER_ABI, 0, 10, 0};
  CHECK_EQUAL(call(&context, O2G_IOC_COUNTERS, &counters), -EPERM);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 10), -EPERM);
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), -EPERM);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FINI, 0), -EPERM);
  CHECK_EQUAL(map_error(4096, PROT_READ, MAP_SHARED, 0), -EPERM);
  CHECK_EQUAL(poll(&poll_file, 1, 0), 1);
  CHECK((poll_file.revents & POLLERR) != 0);
}

static void child_is_refused_and_does_not_disturb(void) {
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 50000), 0);
  CHECK_EQUAL(run_in_child(check_in_child), 0);
  send_message(&context, 0, TAG, 50000);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, 50000, TAG));
}

static int count_mappings(void) {
  FILE *const maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL)
    count += strstr(line, O2G_DRIVER_PATH) != NULL;
  fclose(maps);
  return count;
}

static void check_no_mappings(void) {
  CHECK_EQUAL(count_mappings(), 0);
}

static void child_has_no_slots(void) {
  setup(&context, 0, 0);
  slot_of(&context, SLOT);
  CHECK_EQUAL(count_mappings(), 2);
  CHECK_EQUAL(run_in_child(check_no_mappings), 0);
}

/* The socket is no longer the driver's: its bytes are left to read. */
static void check_detached(int socket, int peer) {
  char bytes[4] = {0};
  send_all(peer, "free", 4);
  CHECK_EQUAL(recv(socket, bytes, sizeof bytes, MSG_WAITALL), 4);
  CHECK_EQUAL(memcmp(bytes, "free", 4), 0);
}

int check_after_exec(int file, int socket, int peer) {
  struct o2g_counters counters;
  CHECK_EQUAL(ioctl(file, O2G_IOC_COUNTERS, &counters), -1);
  CHECK_EQUAL(errno, EPERM);
  check_detached(socket, peer);
  return 0;
}

static void executed_program_has_the_sockets_back(void) {
  char arguments[3][16];
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  snprintf(arguments[0], sizeof arguments[0], "%d", context.file);
  snprintf(arguments[1], sizeof arguments[1], "%d", context.sockets[0]);
  snprintf(arguments[2], sizeof arguments[2], "%d", context.peers[0]);
  execl("/proc/self/exe",
        "ioctl_test",
        "--after-exec",
        arguments[0],
        arguments[1],
        arguments[2],
        NULL);
  CHECK(false);
}

static int test_end[2]; /* a pipe, which the end of the test closes */

static void be_killed(void) {
  struct o2g_wait wait = {0, ~0ull};
  struct o2g_register request = {.socket = context.sockets[0], .rank = 0};
  struct context own = context;
  open_context(&context);
  own.file = context.file;
  CHECK_EQUAL(call(&context, O2G_IOC_REGISTER, &request), 0);
  CHECK_EQUAL(call(&context, O2G_IOC_GROW, &(struct o2g_grow){O2G_CHUNK_EXPECTED, 0}), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&own, 0, TAG, 30000);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  if (fork() == 0) {
    char byte;
    close(test_end[1]);
    _exit(read(test_end[0], &byte, 1) != 0); /* holds the file until the test ends */
  }
  wait.event_count = 1;
  if (fork() == 0) {
    usleep(100000);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  call(&context, O2G_IOC_WAIT, &wait);
  CHECK(false);
}

static void killed_process_has_its_sockets_released_although_a_child_holds_the_file(void) {
  connect_pair(AF_INET, &context.sockets[0], &context.peers[0]);
  CHECK_EQUAL(pipe(test_end), 0);
  CHECK_EQUAL(run_in_child(be_killed), SIGKILL);
  check_detached(context.sockets[0], context.peers[0]);
}

static void module_in_use_is_not_removed(void) {
  setup(&context, 1, 1 << 20);
  if (geteuid() != 0)
    return;
  CHECK_EQUAL(syscall(SYS_delete_module, "o2g", O_NONBLOCK), -1);
  CHECK_EQUAL(errno, EWOULDBLOCK);
}

static void *wait_for_end(void *argument) {
  struct o2g_wait wait = {0, ~0ull};
  (void)argument;
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), -ENXIO);
  return NULL;
}

static void *dump_until_end(void *argument) {
  (void)argument;
  CHECK_EQUAL(call_value(&context, O2G_IOC_DUMP, 0), 0);
  return NULL;
}

static void detached_context_leaves_memory_and_sockets(void) {
  pthread_t waiter;
  pthread_t dumper;
  struct o2g_counters counters;
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  CHECK_EQUAL(pthread_create(&waiter, NULL, wait_for_end, NULL), 0);
  CHECK_EQUAL(pthread_create(&dumper, NULL, dump_until_end, NULL), 0);
  usleep(50000);
  CHECK(counters_of(&context).pinned_size != 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FINI, 0), 0);
  CHECK_EQUAL(pthread_join(waiter, NULL), 0);
  CHECK_EQUAL(pthread_join(dumper, NULL), 0);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  CHECK_EQUAL(call(&context, O2G_IOC_COUNTERS, &counters), -ENXIO);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DUMP, 0), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FINI, 0), -ENXIO);
  check_detached(context.sockets[0], context.peers[0]);
}

static void on_signal(int number) {
  (void)number;
}

static void signals_interrupt_waiting_calls(void) {
  struct o2g_wait wait = {0, ~0ull};
  struct sigaction const action = {.sa_handler = on_signal};
  setup(&context, 1, 0);
  sigaction(SIGALRM, &action, NULL);
  ualarm(50000, 50000);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), -EINTR);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DUMP, 0), -EINTR);
  ualarm(0, 0);
}

static void closed_context_leaves_the_socket_to_another(void) {
  struct context first;
  struct o2g_register request;
  setup(&first, 1, 1 << 20);
  munmap(first.shared, 4096);
  close(first.file);
  setup(&context, 0, 0);
  request = (struct o2g_register){.socket = first.sockets[0], .rank = 0};
  CHECK_EQUAL(call(&context, O2G_IOC_REGISTER, &request), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 1000), 0);
  send_message(&first, 0, TAG, 1000);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, 1000, TAG));
}

const struct test process_tests[] = {
    TEST(calls_before_binding_and_invalid_calls_are_refused),
    TEST(only_whole_chunks_are_mapped),
    TEST(child_is_refused_and_does_not_disturb),
    TEST(child_has_no_slots),
    TEST(executed_program_has_the_sockets_back),
    TEST(killed_process_has_its_sockets_released_although_a_child_holds_the_file),
    TEST(module_in_use_is_not_removed),
    TEST(detached_context_leaves_memory_and_sockets),
    TEST(signals_interrupt_waiting_calls),
    TEST(closed_context_leaves_the_socket_to_another),
    {NULL, NULL},
};
