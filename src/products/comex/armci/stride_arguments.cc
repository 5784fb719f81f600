// products/comex/armci/stride_arguments.cc: checks the strided shapes that programs pass.
#include "products/comex/armci/stride_arguments.hpp"

#include "products/comex/armci/fatal.hpp"

namespace tanada::comex::armci {

bool check_shape(const char *call, const stride_arguments &arguments) noexcept {
  if (arguments.level_count < 0 || arguments.level_count > ARMCI_MAX_STRIDE_LEVEL) {
    report_error(
        call, "{} stride levels: valid are 0 to {}", arguments.level_count, ARMCI_MAX_STRIDE_LEVEL);
    return false;
  }
  if (arguments.counts == nullptr ||
      (arguments.level_count > 0 &&
       (arguments.source_strides == nullptr || arguments.target_strides == nullptr))) {
    report_error(call, "the counts or the strides are a null pointer");
    return false;
  }
  for (int i = 0; i <= arguments.level_count; i++) {
    if (arguments.counts[i] < 0) {
      report_error(call, "count[{}] is negative: {}", i, arguments.counts[i]);
      return false;
    }
  }
  return true;
}

}  // namespace tanada::comex::armci
