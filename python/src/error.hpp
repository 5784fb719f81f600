// error.hpp: statuses of the C ABI as tanada.Error.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/status.h>

#include <string>

namespace tanada::python {

// What a C call said; made on the thread that called, where tnd_last_message() is.
struct outcome {
  tnd_status status = TND_OK;
  std::string message;
};

inline outcome outcome_of(tnd_status status) {
  return {status, status == TND_OK ? std::string{} : std::string{tnd_last_message()}};
}

// Throws tanada.Error unless `result` is TND_OK. The GIL is held.
void check(const outcome &result);

// Throws what `call()`, which returns an outcome, says. Other Python threads run meanwhile.
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
