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

}  // namespace tanada::python
