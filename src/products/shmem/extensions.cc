// The calls of shmemx.h that are not variants of standard ones.
#include <compat/shmemx.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "products/shmem/define.hpp"
#include "seams/clock/clock.hpp"

using namespace tanada;

SHMEM_DEFINE(double, shmemx_wtime, (void), {
  return double(seams::monotonic_clock().now_ns()) / 1e9;
})

SHMEM_DEFINE(char *, shmemx_nodename, (void), {
  static auto name = [] {
    std::array<char, HOST_NAME_MAX + 1> text{};
    static_cast<void>(gethostname(text.data(), text.size() - 1));
    return text;
  }();
  return name.data();
})
