#include "rival.hpp"

namespace bench {

std::unique_ptr<rival> nfs_rival(const rival_options &) {
  throw not_here("built without libnfs");
}

}  // namespace bench
