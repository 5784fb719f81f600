/* faults.c: fault injection by debugfs (Documentation/fault-injection of the kernel). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

static const char *const kinds[] = {"failslab", "fail_page_alloc", "fail_usercopy"};
enum { TIMES = 1000000000 }; /* of which the kernel subtracts the faults that it injected */
static unsigned rate;

/* Faults may refuse it, so it is repeated. */
static bool write_file(const char *path, const char *text) {
  for (int i = 0; i < 1000; i++) {
    int const file = open(path, O_WRONLY);
    if (file < 0 && errno == ENOENT)
      return false;
    bool const is_written = file >= 0 && write(file, text, strlen(text)) >= 0;
    if (file >= 0)
      close(file);
    if (is_written)
      return true;
  }
  return false;
}

static bool set(const char *kind, const char *name, uint64_t value) {
  char path[128];
  char text[32];
  snprintf(path, sizeof path, "/sys/kernel/debug/%s/%s", kind, name);
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return write_file(path, text);
}

static void set_switch(const char *kind, const char *name, bool is_on) {
  char path[128];
  snprintf(path, sizeof path, "/sys/kernel/debug/%s/%s", kind, name);
  write_file(path, is_on ? "Y" : "N");
}

/* Where the module's code is; false: the kernel does not say. */
static bool module_range(uint64_t *start, uint64_t *end) {
  FILE *const modules = fopen("/proc/modules", "r");
  char line[512];
  bool is_found = false;
  unsigned long long size;
  unsigned long long address;
  while (modules != NULL && fgets(line, sizeof line, modules) != NULL) {
    if (sscanf(line, "o2g %llu %*s %*s %*s %llx", &size, &address) == 2 && address != 0) {
      *start = address;
      *end = address + size;
      is_found = true;
    }
  }
  if (modules != NULL)
    fclose(modules);
  return is_found;
}

static void start_kind(const char *kind) {
  set(kind, "interval", 1);
  set(kind, "times", TIMES);
  set(kind, "space", 0);
  set(kind, "verbose", 0);
  set_switch(kind, "ignore-gfp-wait", false);
  set(kind, "min-order", 0);
}

void faults_prepare(unsigned per_cent) {
  rate = per_cent;
  if (rate == 0)
    return;
  if (!set("failslab", "probability", 0))
    fail("this kernel has no fault injection: /sys/kernel/debug/failslab");
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    start_kind(kinds[i]);
}

/* Changes of the filters are safe only while there is no fault. */
static void stop(void) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    set(kinds[i], "probability", 0);
}

/* For a round: faults in the allocations of workers, or in those of the module in any context. */
void faults_choose(uint64_t *state) {
  uint64_t start = 0;
  uint64_t end = ~UINT64_C(0);
  bool const is_of_module = one_in(state, 2) && module_range(&start, &end);
  current->has_faults = rate != 0;
  bool const has_page_faults = one_in(state, 2);
  bool const has_copy_faults = is_of_module && one_in(state, 4);
  /* A page fault in the driver's copy fails, too. */
  current->has_lossy_faults = rate != 0 && (has_page_faults || has_copy_faults);
  if (rate == 0)
    return;
  stop();
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    bool const has_range = set(kinds[i], "require-start", start) &&
                           set(kinds[i], "require-end", end) &&
                           set(kinds[i], "stacktrace-depth", 32);
    set_switch(kinds[i], "task-filter", !(is_of_module && has_range));
    bool const is_on = i == 0 || (i == 1 && has_page_faults) || (i == 2 && has_copy_faults);
    set(kinds[i], "probability", is_on ? rate : 0);
  }
}

static long long injected_count(const char *kind) {
  char path[128];
  long long left = TIMES;
  snprintf(path, sizeof path, "/sys/kernel/debug/%s/times", kind);
  FILE *const file = fopen(path, "r");
  if (file != NULL) {
    if (fscanf(file, "%lld", &left) != 1)
      left = TIMES;
    fclose(file);
  }
  return TIMES - left;
}

void faults_end(void) {
  if (rate == 0)
    return;
  printf("  injected faults: slab %lld, pages %lld, copies %lld\n",
         injected_count(kinds[0]),
         injected_count(kinds[1]),
         injected_count(kinds[2]));
  stop();
}

void faults_thread(bool is_on) {
  static _Thread_local int file = -1;
  if (file < 0)
    file = open("/proc/thread-self/make-it-fail", O_WRONLY);
  if (file >= 0 && pwrite(file, is_on ? "1" : "0", 1, 0) != 1)
    fail("make-it-fail: errno %d", errno);
}
