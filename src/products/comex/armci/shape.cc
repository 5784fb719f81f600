#include "products/comex/armci/shape.hpp"

#include "products/comex/armci/fatal.hpp"

namespace tanada::comex::armci {

bool check_shape(const char *call, const given_shape &given) noexcept {
  if (given.level_count < 0 || given.level_count > ARMCI_MAX_STRIDE_LEVEL) {
    refuse(call, "%d stride levels: there can be 0 to %d", given.level_count,
           ARMCI_MAX_STRIDE_LEVEL);
    return false;
  }
  if (given.counts == nullptr || (given.level_count > 0 && (given.source_strides == nullptr ||
                                                            given.target_strides == nullptr))) {
    refuse(call, "the counts or the strides are a null pointer");
    return false;
  }
  for (int i = 0; i <= given.level_count; i++) {
    if (given.counts[i] < 0) {
      refuse(call, "count[%d] is %d", i, given.counts[i]);
      return false;
    }
  }
  return true;
}

}  // namespace tanada::comex::armci
