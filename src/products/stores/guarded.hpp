// products/stores/guarded.hpp: the border of the C ABI: no exception crosses it.
#pragma once

#include <new>

#include "core/base/log.hpp"
#include "tanada/status.h"

namespace tanada::stores {

template <class Function>
tnd_status guarded(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(fail(status::no_memory, "out of host memory"));
  } catch (...) {
    return tnd_status(fail(status::io, "an unexpected exception of a store"));
  }
}

}  // namespace tanada::stores
