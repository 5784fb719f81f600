// What ends waits in kernels: "kill": a PE dies while the others wait; "late": time is up; "range", "pe", "team": a wrong argument. The
// call returns what it must, and the host's next call that waits ends the job with a message.
#include "kernel_test.hpp"

#include <signal.h>

#include <string>

using namespace kernel_test;

namespace {

TND_KERNEL void wait_for_ever(uint64_t *word, int *codes) {
  int const code = shmemgx_uint64_wait_until_tg(word, SHMEM_CMP_NE, 0);
  if (simt::thread_rank_in_block() == 0) codes[0] = code;
}
TND_KERNEL void sync_for_ever(uint64_t *, int *codes) {
  int const code = shmemg_sync_all_tg();
  if (simt::thread_rank_in_block() == 0) codes[0] = code;
}
TND_KERNEL void put_wrongly(uint64_t *word, int *codes, int pe, u64 offset) {
  uint64_t const value = 1;
  codes[0] = int(tanada::shmemg::put(tanada::this_thread{}, word + offset, &value, sizeof value, pe));
}
TND_KERNEL void sync_wrongly(uint64_t *, int *codes) { codes[0] = shmemg_team_sync(reinterpret_cast<shmem_team_t>(u64{9})); }

}  // namespace

int main(int argc, char **argv) {
  std::string const what = argc > 1 ? argv[1] : "kill";
  start();
  auto *const word = allocate<uint64_t>(1);
  int *const codes = allocate<int>(1);
  shmem_barrier_all();
  int expected = 0;
  if (what == "kill" || what == "kill sync") {
    expected = -4097;
    if (me == count - 1) raise(SIGKILL);
    simt::launch(simt::dim3(1), simt::dim3(64), what == "kill" ? wait_for_ever : sync_for_ever, word, codes);
  } else if (what == "late") {
    expected = -110;
    simt::launch(simt::dim3(1), simt::dim3(64), wait_for_ever, word, codes);
  } else if (what == "range") {
    expected = -34;
    simt::launch(simt::dim3(1), simt::dim3(1), put_wrongly, word, codes, 0, u64{1} << 40);
  } else if (what == "pe") {
    expected = -22;
    simt::launch(simt::dim3(1), simt::dim3(1), put_wrongly, word, codes, count, u64{0});
  } else if (what == "team") {
    expected = -22;
    simt::launch(simt::dim3(1), simt::dim3(1), sync_wrongly, word, codes);
  }
  synchronize(__LINE__);
  int code = 0;
  copy(&code, codes, sizeof code);
  if (code != expected) {
    std::fprintf(stderr, "PE %d: the call gave %d, should be %d\n", me, code, expected);
    std::_Exit(3);
  }
  std::fprintf(stderr, "PE %d: as expected, %d\n", me, code);
  shmem_barrier_all();  // ends the job
  std::fprintf(stderr, "PE %d: the host went on\n", me);
  std::_Exit(4);
}
