#include "simt/thread.hpp"

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <vector>

#include "simt/launch.hpp"

namespace {

using namespace tanada;

TEST(ids, every_thread_of_every_block_runs_once_with_its_own_ids) {
  std::vector<u32> seen(3 * 2 * 4 * 5 * 7 * 2);
  u32 *const counts = seen.data();
  simt::host::launch({3, 2, 4}, {5, 7, 2}, [=] {
    u64 const rank = simt::global_thread_rank();
    u32 const x = simt::thread_index_x(), y = simt::thread_index_y(), z = simt::thread_index_z();
    bool const right = x + 5 * (y + 7 * z) == simt::thread_rank_in_block() && simt::block_thread_count() == 70 &&
                       simt::block_index_x() + 3 * (simt::block_index_y() + 2 * simt::block_index_z()) ==
                           simt::block_rank() && simt::grid_size_y() == 2;
    counts[rank] += right ? 1 : 100;
  });
  ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
  for (u32 count : seen) ASSERT_EQ(count, 1u);
}

}  // namespace
