// products/o2g/provider/fence.hpp: no exception leaves the provider: libfabric and its callers are
// C.
#pragma once

#include <rdma/fi_errno.h>

#include <new>
#include <type_traits>

namespace tanada::o2g::provider {

// The functions that are given to libfabric, each with its own signature. Memory that is not to be
// had is -FI_ENOMEM, or null where a pointer is returned; anything else that is thrown, -FI_EOTHER.
template <auto call>
struct fence;

template <class Returned, class... Argument, Returned (*call)(Argument...)>
struct fence<call> {
  static Returned run(Argument... argument) noexcept {
    try {
      return call(argument...);
    } catch (const std::bad_alloc &) {
      return failed(-FI_ENOMEM);
    } catch (...) {
      return failed(-FI_EOTHER);
    }
  }

 private:
  static Returned failed(int error) noexcept {
    if constexpr (std::is_pointer_v<Returned>)
      return nullptr;
    else
      return Returned(error);
  }
};

template <auto call>
inline constexpr auto fenced = &fence<call>::run;

}  // namespace tanada::o2g::provider
