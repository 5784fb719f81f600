/* fixture.h: a context of the driver, and sockets connected to it, for ioctl_test.c. */
#ifndef TANADA_TESTS_DRIVER_IOCTL_FIXTURE_H
#define TANADA_TESTS_DRIVER_IOCTL_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <tanada/o2g.h>
#include <tanada/o2g_driver.h>

enum { CHUNK_COUNT = 16, PEER_COUNT = 4, MESSAGE_CONTEXT = 7 };

struct context {
  int file;
  struct o2g_shared *shared;
  struct o2g_slot *chunks[CHUNK_COUNT];
  int sockets[PEER_COUNT]; /* registered with ranks 0, 1, ... */
  int peers[PEER_COUNT];   /* their other ends */
  char *area;              /* the dump area */
};

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)
#define CHECK_EQUAL(value, expected) check_equal(value, expected, #value, __FILE__, __LINE__)

void check_equal(long long value, long long expected, const char *text, const char *file, int line);

/* A call of the driver: 0 or -errno. */
int call(const struct context *context, unsigned long request, void *argument);
int call_value(const struct context *context, unsigned long request, unsigned long value);

/* AF_INET6, or AF_INET if the kernel has no IPv6. */
int newer_domain(void);
/* Two connected TCP sockets, without Nagle's algorithm. */
void connect_pair(int domain, int *first, int *second);
/* Opens the device and binds it. */
void open_context(struct context *context);
/* The same with flags of struct o2g_binding. */
void open_context_with(struct context *context, uint32_t flags);
/* The same, with `peer_count` registered sockets, one chunk of slots and a dump area. */
void setup(struct context *context, int peer_count, size_t area_size);

struct o2g_slot *slot_of(struct context *context, uint32_t slot);
uint32_t flags_of(struct context *context, uint32_t slot);
/* Calls O2G_IOC_WAIT until the slot has one of the flags. */
void wait_flags(struct context *context, uint32_t slot, uint32_t flags);
/* Sleeps until `*word` has the value, and fails after a while. Makes no call. */
void expect_soon(volatile const uint32_t *word, uint32_t value);
void expect_flags_soon(struct context *context, uint32_t slot, uint32_t flags);

int put(struct context *context, uint32_t slot, int source, int tag, void *data, size_t size);
int put_after(struct context *context,
              uint32_t slot,
              int source,
              int tag,
              void *data,
              size_t size,
              uint64_t sequence);
/* The slot of the message that was found. The test fails if no message matches. */
uint32_t find(struct context *context, int source, int tag);
struct o2g_counters counters_of(struct context *context);

/* Bytes that depend on the tag. */
void fill(void *data, size_t size, int tag);
bool is_filled(const void *data, size_t size, int tag);
struct o2g_header header_of(int source, int tag, uint64_t size);
void send_all(int socket, const void *data, size_t size);
void send_message(struct context *context, int source, int tag, size_t size);

/* Sets a parameter of the module. */
void set_parameter(const char *name, const char *text);

/* Runs the function in a child process; returns its status as waitpid() does. */
int run_in_child(void (*function)(void));

#endif
