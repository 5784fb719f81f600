// The file with the identity of a durable pool's cluster.
#include "products/poold/cluster/identity.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/log.hpp"
#include "products/pool/auth.hpp"
#include "seams/os/durable_file.hpp"

namespace tanada::poold {

namespace {

constexpr size_t identity_size = 32;  // hexadecimal digits
constexpr std::string_view digits = "0123456789abcdef";

std::string path_in(const std::string &folder) {
  return folder + "/cluster";
}

status fail_file(const std::string &path) {
  int const error = errno;
  return fail(status(-error), "{}: {}", path, std::strerror(error));
}

}  // namespace

std::string identity_create() {
  std::string identity;
  for (uint8_t const byte : pool::random_bytes()) {
    identity += digits[byte >> 4];
    identity += digits[byte & 15];
  }
  return identity.substr(0, identity_size);
}

result<std::string> identity_read(const std::string &folder) {
  std::string const path = path_in(folder);
  std::ifstream file{path};
  std::string line;
  if (!file)
    return errno == ENOENT ? result<std::string>{std::string{}} : fail_file(path);
  std::getline(file, line);
  bool const is_identity =
      line.size() == identity_size && line.find_first_not_of(digits) == std::string::npos;
  if (!is_identity)
    return fail(status::protocol, "{} does not have the identity of a cluster", path);
  return line;
}

status identity_write(const std::string &folder, const std::string &identity) {
  return seams::write_durable_file(path_in(folder), identity + "\n");
}

}  // namespace tanada::poold
