// onesided/job/atomics.hpp: updates of mapped memory by this processor, at once for all who update
// it so, here or elsewhere.
#pragma once

#include <cstdint>

#include "seams/fabric/fabric.hpp"
#include "seams/fabric/update_here.hpp"

namespace tanada::pgas {

using port::atomic_word;
using port::update_here;

// target[i] += source[i], each element at once; complex numbers a component at once, as networks
// do. `size`: bytes, whole elements. The target is aligned to the component.
void accumulate_here(port::fabric_element element, std::byte *target, const std::byte *source,
                     size_t size) noexcept;

size_t element_size(port::fabric_element element) noexcept;       // bytes
size_t element_alignment(port::fabric_element element) noexcept;  // bytes: of a component

}  // namespace tanada::pgas
