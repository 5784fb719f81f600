// One mistake in each run, named by the argument: the job ends with a message.
#include "host_check.h"

static long words[SHMEM_SYNC_SIZE];
static int is(const char *way, const char *name) {
  return strcmp(way, name) == 0;
}

static void start_wrongly(const char *way) {
  int provided = 0, code = 1, rank = 0;
  const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2; i++)
    rank |= getenv(names[i]) != NULL && atoi(getenv(names[i])) == 1;
  if (is(way, "before"))
    (void)shmemg_malloc(8);
  if (is(way, "no_device")) {
    shmem_init();
    (void)shmemg_malloc(8);
  }
  if (is(way, "flags")) {
    code = shmem_init_thread(SHMEM_DEVICE_HOST_INIT | (rank != 0 ? SHMEM_DEVICE_KERNEL_INIT : 0),
                             &provided);
  } else if (is(way, "one_alone")) {
    code = shmem_init_thread(rank != 0 ? SHMEM_DEVICE_HOST_INIT : 0, &provided);
  } else {
    return;
  }
  if (code == 0)
    puts("nothing happened");
  exit(3);
}

int main(int count, char **arguments) {
  const char *const way = count > 1 ? arguments[1] : "";
  start_wrongly(way);
  start_device("host_misuse");
  char *const device = symmetric_device(4096), *const host = symmetric(4096);
  if (is(way, "load"))
    printf("%d\n", *(volatile char *)device);
  if (is(way, "free_device"))
    shmem_free(device);
  if (is(way, "free_host"))
    shmemg_free(host);
  if (is(way, "free_inside"))
    shmemg_free(device + 64);
  if (is(way, "realloc"))
    (void)shmem_realloc(device, 8192);
  if (is(way, "lock"))
    shmem_set_lock((long *)device);
  if (is(way, "psync"))
    shmem_sync(me, 0, 1, (long *)device);
  if (is(way, "past_the_end"))
    shmem_putmem(device, host, (size_t)1 << 40, 0);
  if (is(way, "pe"))
    shmem_long_p((long *)device, 1, 7);
  if (is(way, "word"))
    shmem_uint64_atomic_add((uint64_t *)(device + 4), 1, 0);
  if (is(way, "device_context"))
    shmem_ctx_long_p(SHMEM_DEVICE_CTX_DEFAULT, words, 1, 0);
  if (is(way, "world"))
    shmem_team_destroy(SHMEM_DEVICE_TEAM_WORLD);
  if (is(way, "shared"))
    shmem_team_destroy(SHMEM_DEVICE_TEAM_SHARED);
  puts("nothing happened");
  return finish();
}
