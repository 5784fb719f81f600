// error.hpp: statuses of the C ABI as tanada.Error.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/status.h>

#include <string>

namespace tanada::python {

// The outcome of a C call, created on the calling thread, whose tnd_last_message() it contains.
struct outcome {
  tnd_status status = TND_OK;
  std::string message;
};

inline outcome outcome_of(tnd_status status) {
  return {status, status == TND_OK ? std::string{} : std::string{tnd_last_message()}};
}

// Throws tanada.Error unless `result` is TND_OK. The GIL is held.
void check(const outcome &result);

// Throws the error of `call()`, which returns an outcome. Releases the GIL during the call.
template <class Call>
void call_without_gil(Call &&call) {
  outcome result;
  {
    nanobind::gil_scoped_release const released;
    result = call();
  }
  check(result);
}

}  // namespace tanada::python
