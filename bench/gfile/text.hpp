// bench/gfile/text.hpp: a URL that is passed to kernels by value.
#pragma once

#include <string>

namespace bench {

struct text {
  char bytes[256] = {};
  text(const std::string &from) {
    from.copy(bytes, sizeof bytes - 1);
  }
};

}  // namespace bench
