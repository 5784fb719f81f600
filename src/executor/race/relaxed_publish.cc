// Planted race: a relaxed store publishes data to a host thread.
#include <tanada/status.h>

#include <thread>

#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/simt/thread.hpp>

int main() {
  using namespace tanada;
  u32 flag = 0, data = 0, observed = 0;
  simt::host::launch(1, 1, [&] {
    data = 42;
    simt::system_atomic<u32>(flag).store_relaxed(1);
  });
  std::thread service([&] {
    while (simt::system_atomic<u32>(flag).load_acquire() == 0)
      simt::pause();
    observed = data;
  });
  service.join();
  return simt::host::synchronize(TND_NO_DEADLINE) && observed == 42 ? 0 : 1;
}
