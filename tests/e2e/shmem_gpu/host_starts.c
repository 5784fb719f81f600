// Starts and ends of one program: repeated, nested, and without a device.
#include "host_check.h"

static void use(int value) {
  long *const word = shmemg_calloc(1, sizeof(long));
  shmem_long_atomic_add(word, value, (shmem_my_pe() + 1) % shmem_n_pes());
  shmem_barrier_all();
  REQUIRE(shmem_long_g(word, shmem_my_pe()) == value);
  shmemg_free(word);
}

int main(void) {
  int provided = -1, is_started = 1;
  if (shmem_init_thread(SHMEM_DEVICE_HOST_INIT | 4, &provided) == 0 ||
      shmem_init_thread(-1, &provided) == 0 || provided != -1)
    return 2;
  shmem_query_initialized(&is_started);
  if (is_started)
    return 3;
  for (int round = 0; round < 3; round++) {
    start_device("host_starts");
    use(5);
    // A nested start has the first one's properties.
    REQUIRE(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) == 0 &&
            provided == SHMEM_THREAD_MULTIPLE);
    use(6);
    shmem_finalize();
    use(7);
    shmem_finalize();
  }
  REQUIRE(shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided) == 0 &&
          provided == SHMEM_THREAD_FUNNELED);
  REQUIRE(shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_HOST_INIT, &provided) == 0 &&
          provided == SHMEM_THREAD_FUNNELED);
  shmem_finalize();
  REQUIRE(shmem_team_my_pe(SHMEM_DEVICE_TEAM_WORLD) == -1);
  return finish();
}
