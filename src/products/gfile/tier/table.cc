// products/gfile/tier/table.cc: compiles the page table for both scopes.
#include <tanada/device/detail/tier/table.hpp>

namespace tanada::tier {
// Explicit instantiations, so that every build compiles both in full.
template struct table_ref<simt::scope::device>;
template struct table_ref<simt::scope::system>;
}  // namespace tanada::tier
