// core/base/result.hpp: a value or a status. C++20 has no std::expected; this is the subset that
// Tanada needs.
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
  const T &value() const & noexcept {
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

// TND_ASSIGN(auto size, measure(file)): stores the value of a result in a new or existing variable.
// An error is returned to the caller.
#define TND_ASSIGN(variable, expression) \
  TND_ASSIGN_NAMED_(TND_ASSIGN_JOIN_(tnd_result_, __LINE__), variable, expression)
#define TND_ASSIGN_NAMED_(name, variable, expression) \
  auto name = (expression);                           \
  if (!name.ok())                                     \
    return name.error();                              \
  variable = std::move(name).value()
#define TND_ASSIGN_JOIN_(left, right) TND_ASSIGN_JOIN2_(left, right)
#define TND_ASSIGN_JOIN2_(left, right) left##right
