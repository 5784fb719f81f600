// bench/common/check.hpp: ends the benchmark if a call of the C API fails.
#pragma once

#include <tanada/status.h>

#include <stdexcept>
#include <string>

namespace bench {

inline void check(tnd_status code, const char *call) {
  if (code != TND_OK)
    throw std::runtime_error(std::string(call) + ": " + tnd_status_name(code) + ": " +
                             tnd_last_message());
}

}  // namespace bench
