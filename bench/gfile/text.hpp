// bench/gfile/text.hpp: a URL by value, as kernels take it.
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
