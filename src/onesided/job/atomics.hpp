// onesided/job/atomics.hpp: updates of mapped memory by this processor. They are atomic with the
// updates that other processes make in the same way.
#pragma once

#include <cstdint>

#include "seams/fabric/fabric.hpp"
#include "seams/fabric/update_word.hpp"

namespace tanada::onesided {

using seams::atomic_word;
using seams::update_word;

// Performs target[i] += source[i]. Each element is updated atomically; of a complex number each
// component is, as networks do. `size` is in bytes, of whole elements. The target is aligned to the
// component.
void accumulate_local(seams::fabric_element element,
                      std::byte *target,
                      const std::byte *source,
                      size_t size) noexcept;

size_t element_size(seams::fabric_element element) noexcept;       // bytes
size_t element_alignment(seams::fabric_element element) noexcept;  // bytes: that of a component

}  // namespace tanada::onesided
