// products/comex/armci/armci_transfer.hpp: what all transfers with a flag share.
#pragma once

namespace tanada::comex::armci {

// Sets the int at `flag` of a world rank, ordered after all earlier puts to that rank.
int set_flag(int *flag, int value, int rank);

}  // namespace tanada::comex::armci
