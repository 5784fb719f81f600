// Checks of the pool's frames and names.
#include "core/wire/pool.hpp"

namespace tanada::wire::pool {

status frame_check(const frame &head) {
  bool const good = head.magic == frame_magic && head.reserved == 0 &&
                    head.body_size <= body_size_max && head.data_size <= object_size_max;
  return good ? status::ok : status::protocol;
}

bool is_valid_name(const std::string &name) {
  return !name.empty() && name.size() <= name_size_max && name.find('\0') == std::string::npos;
}

}  // namespace tanada::wire::pool
