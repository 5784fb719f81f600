/* fixture.c: see fixture.h. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SOON_STEP_COUNT = 10000 }; /* of 1 ms at least */

void check_equal(
    long long value, long long expected, const char *text, const char *file, int line) {
  if (value == expected)
    return;
  fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", file, line, text, value, expected);
  exit(1);
}

int call(const struct context *context, unsigned long request, void *argument) {
  return ioctl(context->file, request, argument) < 0 ? -errno : 0;
}

int call_value(const struct context *context, unsigned long request, unsigned long value) {
  return ioctl(context->file, request, value) < 0 ? -errno : 0;
}

int newer_domain(void) {
  int const file = socket(AF_INET6, SOCK_STREAM, 0);
  if (file < 0)
    return AF_INET;
  close(file);
  return AF_INET6;
}

static void set_address(struct sockaddr_storage *address, int domain) {
  memset(address, 0, sizeof *address);
  address->ss_family = (sa_family_t)domain;
  if (domain == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_addr = in6addr_loopback;
  else
    ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

void connect_pair(int domain, int *first, int *second) {
  int const one = 1;
  int const listener = socket(domain, SOCK_STREAM, 0);
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  set_address(&address, domain);
  CHECK(listener >= 0);
  CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, size), 0);
  CHECK_EQUAL(listen(listener, 1), 0);
  CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  *first = socket(domain, SOCK_STREAM, 0);
  CHECK_EQUAL(connect(*first, (struct sockaddr *)&address, size), 0);
  *second = accept(listener, NULL, NULL);
  CHECK(*second >= 0);
  close(listener);
  CHECK_EQUAL(setsockopt(*first, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
  CHECK_EQUAL(setsockopt(*second, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
}

void open_context(struct context *context) {
  open_context_with(context, 0);
}

void open_context_with(struct context *context, uint32_t flags) {
  struct o2g_binding binding = {O2G_DRIVER_ABI, flags, 64, 0};
  memset(context, 0, sizeof *context);
  context->file = open(O2G_DRIVER_PATH, O_RDWR);
  CHECK(context->file >= 0);
  CHECK_EQUAL(call(context, O2G_IOC_INIT, &binding), 0);
  context->shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, context->file, 0);
  CHECK(context->shared != MAP_FAILED);
  CHECK_EQUAL(context->shared->abi, O2G_DRIVER_ABI);
}

void setup(struct context *context, int peer_count, size_t area_size) {
  struct o2g_grow grow = {O2G_CHUNK_EXPECTED, 0};
  struct o2g_dump_area area = {0};
  open_context(context);
  CHECK_EQUAL(call(context, O2G_IOC_GROW, &grow), 0);
  CHECK_EQUAL(grow.chunk, 0);
  for (int rank = 0; rank < peer_count; rank++) {
    struct o2g_register request;
    connect_pair(AF_INET, &context->sockets[rank], &context->peers[rank]);
    request = (struct o2g_register){.socket = context->sockets[rank], .rank = rank};
    CHECK_EQUAL(call(context, O2G_IOC_REGISTER, &request), 0);
  }
  if (area_size == 0)
    return;
  context->area = mmap(NULL, area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(context->area != MAP_FAILED);
  area.address = (uintptr_t)context->area;
  area.size = area_size;
  CHECK_EQUAL(call(context, O2G_IOC_SET_DUMP_AREA, &area), 0);
}

struct o2g_slot *slot_of(struct context *context, uint32_t slot) {
  uint32_t const index = slot / O2G_CHUNK_SLOT_COUNT;
  CHECK(index < CHUNK_COUNT);
  if (context->chunks[index] == NULL)
    context->chunks[index] = mmap(NULL,
                                  O2G_CHUNK_SIZE,
                                  PROT_READ | PROT_WRITE,
                                  MAP_SHARED,
                                  context->file,
                                  (off_t)(index + 1) * O2G_CHUNK_SIZE);
  CHECK(context->chunks[index] != MAP_FAILED);
  return &context->chunks[index][slot % O2G_CHUNK_SLOT_COUNT];
}

uint32_t flags_of(struct context *context, uint32_t slot) {
  return __atomic_load_n(&slot_of(context, slot)->flags, __ATOMIC_ACQUIRE);
}

void wait_flags(struct context *context, uint32_t slot, uint32_t flags) {
  struct o2g_wait request = {0, 10000000000};
  while ((flags_of(context, slot) & flags) == 0) {
    int const error = call(context, O2G_IOC_WAIT, &request);
    if (error == -EINTR)
      continue;
    CHECK_EQUAL(error, 0);
  }
}

static void rest(void) {
  struct timespec const time = {0, 1000000};
  nanosleep(&time, NULL);
}

void expect_soon(volatile const uint32_t *word, uint32_t value) {
  for (int i = 0; i < SOON_STEP_COUNT && *word != value; i++)
    rest();
  CHECK_EQUAL(*word, value);
}

void expect_flags_soon(struct context *context, uint32_t slot, uint32_t flags) {
  for (int i = 0; i < SOON_STEP_COUNT && (flags_of(context, slot) & flags) == 0; i++)
    rest();
  CHECK((flags_of(context, slot) & flags) != 0);
}

int put_after(struct context *context,
              uint32_t slot,
              int source,
              int tag,
              void *data,
              size_t size,
              uint64_t sequence) {
  struct o2g_put request = {slot, source, tag, MESSAGE_CONTEXT, (uintptr_t)data, size, sequence};
  return call(context, O2G_IOC_PUT, &request);
}

int put(struct context *context, uint32_t slot, int source, int tag, void *data, size_t size) {
  return put_after(context, slot, source, tag, data, size, 0);
}

uint32_t find(struct context *context, int source, int tag) {
  struct o2g_find request = {source, tag, MESSAGE_CONTEXT, 0, 0};
  CHECK_EQUAL(call(context, O2G_IOC_FIND, &request), 0);
  return request.slot;
}

struct o2g_counters counters_of(struct context *context) {
  struct o2g_counters counters;
  CHECK_EQUAL(call(context, O2G_IOC_COUNTERS, &counters), 0);
  return counters;
}

static unsigned char byte_of(size_t index, int tag) {
  return (unsigned char)(index * 7 + index / 251 + (size_t)tag * 31 + 1);
}

void fill(void *data, size_t size, int tag) {
  unsigned char *const bytes = data;
  for (size_t i = 0; i < size; i++)
    bytes[i] = byte_of(i, tag);
}

bool is_filled(const void *data, size_t size, int tag) {
  const unsigned char *const bytes = data;
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != byte_of(i, tag))
      return false;
  return true;
}

struct o2g_header header_of(int source, int tag, uint64_t size) {
  return (struct o2g_header){O2G_MAGIC, source, tag, MESSAGE_CONTEXT, size, 0};
}

void send_all(int socket, const void *data, size_t size) {
  const char *bytes = data;
  while (size != 0) {
    ssize_t const part = send(socket, bytes, size, MSG_NOSIGNAL);
    CHECK(part > 0);
    bytes += part;
    size -= (size_t)part;
  }
}

void send_message(struct context *context, int source, int tag, size_t size) {
  struct o2g_header const header = header_of(source, tag, size);
  char *const data = malloc(size + 1);
  CHECK(data != NULL);
  fill(data, size, tag);
  send_all(context->peers[source], &header, sizeof header);
  send_all(context->peers[source], data, size);
  free(data);
}

void set_parameter(const char *name, const char *text) {
  char path[100];
  int file;
  snprintf(path, sizeof path, "/sys/module/o2g/parameters/%s", name);
  file = open(path, O_WRONLY);
  CHECK(file >= 0);
  CHECK(write(file, text, strlen(text)) > 0);
  close(file);
}

int run_in_child(void (*function)(void)) {
  int status = 0;
  pid_t child;
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    function();
    exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  return status;
}
