// Each PE's kernel puts its number to its right neighbour's GPU with a signal, and waits for its
// left one's. oshc++ --host-executor device_ring.cu -o device_ring && oshrun -n 4 ./device_ring
#include "../common/halo.hpp"
#include "../common/pes.hpp"

static TND_KERNEL void send_right(uint64_t *received, uint64_t *signal) {
  uint64_t const me = uint64_t(shmemg_my_pe());
  shmemg_putmem_signal(
      received, &me, sizeof me, signal, 1, SHMEM_SIGNAL_SET, int(me + 1) % shmemg_n_pes());
  shmemg_signal_wait_until(signal, SHMEM_CMP_EQ, 1);
}

int main() {
  return examples::run_pe("device_ring", [](int me, int count) {
    auto *const words = examples::device_symmetric<uint64_t>(2);
    tanada::simt::launch({1}, {1}, send_right, words, words + 1);
    examples::device_wait();
    uint64_t received = 0;
    examples::copy_to_host(&received, words, sizeof received);
    std::printf("PE %d: %d\n", me, int(received));
    return int(received) == (me + count - 1) % count ? 0 : 1;
  });
}
