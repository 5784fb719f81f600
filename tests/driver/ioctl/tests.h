/* tests.h: the tests of ioctl_test.c, each of which runs in a process of its own. */
#ifndef TANADA_TESTS_DRIVER_IOCTL_TESTS_H
#define TANADA_TESTS_DRIVER_IOCTL_TESTS_H

#include "fixture.h"

struct test {
  const char *name;
  void (*run)(void);
};

#define TEST(name) {#name, name}

/* The last one has no name. */
extern const struct test message_tests[];
extern const struct test socket_tests[];
extern const struct test process_tests[];
extern const struct test envelope_tests[];

/* What the program does instead of the tests after a test has executed it again. */
int check_after_exec(int file, int socket, int peer);

#endif
