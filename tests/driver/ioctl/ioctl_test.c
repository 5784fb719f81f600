/* ioctl_test.c: tests of the driver o2g.ko by its calls, tanada/o2g_driver.h.
 *
 * usage: ioctl_test [TEXT]
 *
 * It runs the tests whose names contain TEXT, each in a process of its own. The module is loaded.
 * Some tests need root: they lower limits and change a parameter of the module. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"

enum { TIME_LIMIT_S = 120 };

static const struct test *current_test;

static void run_current(void) {
  alarm(TIME_LIMIT_S);
  current_test->run();
}

static int run_tests(const struct test *tests, const char *text, int *count) {
  int failed_count = 0;
  for (current_test = tests; current_test->name != NULL; current_test++) {
    if (text != NULL && strstr(current_test->name, text) == NULL)
      continue;
    int const status = run_in_child(run_current);
    printf("%s %s\n", status == 0 ? "ok    " : "FAILED", current_test->name);
    if (WIFSIGNALED(status))
      printf("       signal %d\n", WTERMSIG(status));
    failed_count += status != 0;
    (*count)++;
  }
  return failed_count;
}

int main(int count, char **arguments) {
  const char *const text = count > 1 ? arguments[1] : NULL;
  int failed_count = 0;
  int test_count = 0;
  if (count == 5 && strcmp(arguments[1], "--after-exec") == 0)
    return check_after_exec(atoi(arguments[2]), atoi(arguments[3]), atoi(arguments[4]));
  failed_count += run_tests(message_tests, text, &test_count);
  failed_count += run_tests(socket_tests, text, &test_count);
  failed_count += run_tests(process_tests, text, &test_count);
  failed_count += run_tests(envelope_tests, text, &test_count);
  printf("%d tests, %d failed\n", test_count, failed_count);
  return failed_count != 0 || test_count == 0;
}
