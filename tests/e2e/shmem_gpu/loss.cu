// Events that end waits in kernels: "kill", "kill sync", "kill stream": a PE dies while the others
// wait; "late": timeout; "range", "pe", "team": a wrong argument. The call returns the expected
// status, and the host's next call that waits ends the job with a message. "stream ...": in a
// collective on a stream.
#include "kernel_test.hpp"

#include <shmemx_on_stream.cuh>

#include <signal.h>

#include <string>

using namespace kernel_test;

namespace {

TND_KERNEL void wait_for_ever(uint64_t *word, int *codes) {
  int const code = shmemgx_uint64_wait_until_tg(word, SHMEM_CMP_NE, 0);
  if (simt::thread_rank_in_block() == 0)
    codes[0] = code;
}
TND_KERNEL void sync_for_ever(uint64_t *, int *codes) {
  int const code = shmemg_sync_all_tg();
  if (simt::thread_rank_in_block() == 0)
    codes[0] = code;
}
TND_KERNEL void put_wrongly(uint64_t *word, int *codes, int pe, u64 offset) {
  uint64_t const value = 1;
  codes[0] =
      int(tanada::shmemg::put(tanada::this_thread{}, word + offset, &value, sizeof value, pe));
}
TND_KERNEL void sync_wrongly(uint64_t *, int *codes) {
  codes[0] = shmemg_team_sync(reinterpret_cast<shmem_team_t>(u64{9}));
}

// The host's immediate status, or none; the stream continues in any case. Large enough for several
// blocks.
int collective_on_stream(const std::string &what, uint64_t *word) {
  shmem_team_t const world = SHMEM_DEVICE_TEAM_WORLD;
  u64 constexpr elements = 20000;
  uint64_t *const to = allocate<uint64_t>(elements * size_t(count)), *const from =
                                                                         allocate<uint64_t>(
                                                                             elements *
                                                                             size_t(count));
  if (what == "kill stream") {
    if (me == count - 1)
      raise(SIGKILL);
    REQUIRE(shmemx_uint64_sum_reduce_on_stream(world, to, from, elements, {}) == 0);
    return shmemx_uint64_broadcast_on_stream(world, to, from, elements, count - 1, {});
  }
  if (what == "stream team")
    return shmemx_uint64_fcollect_on_stream(
        reinterpret_cast<shmem_team_t>(u64{9}), to, from, 1, {});
  if (what == "stream host team")
    return shmemx_team_sync_on_stream(SHMEM_TEAM_WORLD, {});
  if (what == "stream root")
    return shmemx_uint64_broadcast_on_stream(world, to, from, 1, count, {});
  if (what == "stream late")
    return me == 0 ? shmemx_uint64_broadcast_on_stream(world, to, from, elements, count - 1, {})
                   : 0;
  if (what == "stream range")
    return shmemx_uint64_alltoall_on_stream(world, word + (u64{1} << 40), from, elements, {});
  if (what == "stream sizes")
    return shmemx_uint64_fcollect_on_stream(world, to, from, ~size_t{0} / 4, {});
  if (what == "stream source")
    return shmemx_int_max_reduce_on_stream(
        world, reinterpret_cast<int *>(to), nullptr, elements, {});
  fail(__LINE__, "what?");
}

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
    if (me == count - 1)
      raise(SIGKILL);
    simt::launch(
        simt::dim3(1), simt::dim3(64), what == "kill" ? wait_for_ever : sync_for_ever, word, codes);
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
  int code = 0;
  if (what.find("stream") != what.npos) {
    bool const is_told =
        what == "stream team" || what == "stream host team" || what == "stream root";
    expected = is_told ? -22 : 0;
    code = collective_on_stream(what, word);
    synchronize(__LINE__);
  } else {
    synchronize(__LINE__);
    copy(&code, codes, sizeof code);
  }
  if (code != expected) {
    std::fprintf(stderr, "PE %d: the call gave %d, should be %d\n", me, code, expected);
    std::_Exit(3);
  }
  std::fprintf(stderr, "PE %d: as expected, %d\n", me, code);
  shmem_barrier_all();  // ends the job
  std::fprintf(stderr, "PE %d: the host went on\n", me);
  std::_Exit(4);
}
