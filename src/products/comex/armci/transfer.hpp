// products/comex/armci/transfer.hpp: what the calls with a flag share.
#pragma once

namespace tanada::comex::armci {

// The int at `flag` of a rank of the world, after all that was put there.
int set_flag(int *flag, int value, int rank);

}  // namespace tanada::comex::armci
