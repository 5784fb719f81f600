// core/base/result.hpp: a value or a status. C++20 has no std::expected; this is the part of it we
// need.
#pragma once

#include <utility>
#include <variant>

#include "core/base/assert.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada {

template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : state_{std::in_place_index<0>, std::move(value)} {}
  result(status error) : state_{std::in_place_index<1>, error} {
    TND_ASSERT(error != status::ok);
  }

  bool ok() const noexcept {
    return state_.index() == 0;
  }
  status error() const noexcept {
    return ok() ? status::ok : *std::get_if<1>(&state_);
  }
  T &value() & noexcept {
    TND_ASSERT(ok());
    return *std::get_if<0>(&state_);
  }
  T &&value() && noexcept {
    TND_ASSERT(ok());
    return std::move(*std::get_if<0>(&state_));
  }

 private:
  std::variant<T, status> state_;
};

}  // namespace tanada
