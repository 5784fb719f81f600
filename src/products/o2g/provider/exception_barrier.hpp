// products/o2g/provider/exception_barrier.hpp: keeps C++ exceptions inside the provider, because
// libfabric and its callers are C.
#pragma once

#include <rdma/fi_errno.h>

#include <new>
#include <type_traits>

namespace tanada::o2g::provider {

// Wraps a function for a libfabric table and keeps its signature. std::bad_alloc becomes
// -FI_ENOMEM, any other exception -FI_EOTHER. Functions that return a pointer return null for both.
template <auto call>
struct exception_barrier;

template <class Returned, class... Argument, Returned (*call)(Argument...)>
struct exception_barrier<call> {
  static Returned run(Argument... argument) noexcept {
    try {
      return call(argument...);
    } catch (const std::bad_alloc &) {
      return error_value(-FI_ENOMEM);
    } catch (...) {
      return error_value(-FI_EOTHER);
    }
  }

 private:
  static Returned error_value(int error) noexcept {
    if constexpr (std::is_pointer_v<Returned>)
      return nullptr;
    else
      return Returned(error);
  }
};

template <auto call>
inline constexpr auto no_throw = &exception_barrier<call>::run;

}  // namespace tanada::o2g::provider
