#include <tanada/device/detail/tier/table.hpp>

namespace tanada::tier {
// Both views in full, so that every build compiles them.
template struct table_ref<simt::scope::device>;
template struct table_ref<simt::scope::system>;
}  // namespace tanada::tier
