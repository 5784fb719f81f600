// Reads key files, and computes and compares proofs.
#include "products/pool/auth.hpp"

#include <sodium.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/secret_file.hpp"

namespace tanada::pool {
namespace {

constexpr size_t line_count_max = 65536;

void ensure_sodium() {
  static bool const ready = sodium_init() >= 0;
  TND_ASSERT(ready);
}

bool parse_secret(const std::string &text, bytes32 &secret) {
  size_t size = 0;
  return text.size() == 2 * secret.size() &&
         sodium_hex2bin(
             secret.data(), secret.size(), text.data(), text.size(), nullptr, &size, nullptr) ==
             0 &&
         size == secret.size();
}

bool parse_spaces(const std::string &text, std::vector<std::string> &spaces) {
  std::istringstream stream{text};
  for (std::string name; std::getline(stream, name, ',');) {
    if (name != "*" && (!wire::pool::is_valid_name(name) || name.find('/') != std::string::npos))
      return false;
    spaces.push_back(name);
  }
  return !spaces.empty();
}

bool parse_line(const std::string &line, key &entry) {
  std::istringstream stream{line};
  std::string secret, rights, spaces, extra;
  if (!(stream >> entry.id >> secret >> rights >> spaces) || stream >> extra)
    return false;
  if (entry.id.size() > wire::pool::name_size_max || (rights != "rw" && rights != "ro"))
    return false;
  entry.can_write = rights == "rw";
  return parse_secret(secret, entry.secret) && parse_spaces(spaces, entry.spaces);
}

}  // namespace

bool key::allows(const std::string &space) const {
  for (const std::string &allowed : spaces)
    if (allowed == "*" || allowed == space)
      return true;
  return false;
}

result<std::vector<key>> keys_read(const std::string &path) {
  ensure_sodium();
  TND_TRY(seams::check_secret_file(path, "key file"));
  std::ifstream stream{path};
  if (!stream)
    return fail(status::access, "key file {} cannot be read", path);
  std::vector<key> keys;
  size_t number = 0;
  for (std::string line; std::getline(stream, line) && number < line_count_max;) {
    number++;
    if (line.find_first_not_of(" \t\r") == std::string::npos ||
        line[line.find_first_not_of(" \t")] == '#')
      continue;
    key entry;
    if (!parse_line(line, entry)) {
      return fail(status::invalid,
                  "key file {}, line {}: not \"ID SECRET rw|ro NAMESPACES\" with a secret of 64 "
                  "hexadecimal digits",
                  path,
                  number);
    }
    keys.push_back(std::move(entry));
  }
  if (keys.empty())
    return fail(status::invalid, "key file {} has no key", path);
  return keys;
}

bytes32 random_bytes() {
  ensure_sodium();
  bytes32 bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

bytes32 proof_of(const key &secret_key,
                 prover side,
                 const bytes32 &client_nonce,
                 const bytes32 &server_nonce,
                 const std::string &space) {
  ensure_sodium();
  static_assert(sizeof(bytes32) == crypto_generichash_BYTES &&
                sizeof(bytes32) == crypto_generichash_KEYBYTES);
  std::string const role = side == prover::server ? "tanada pool 1 server" : "tanada pool 1 client";
  crypto_generichash_state state;
  crypto_generichash_init(
      &state, secret_key.secret.data(), secret_key.secret.size(), sizeof(bytes32));
  auto const add = [&](const void *source, size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char *>(source), size);
  };
  add(role.data(), role.size());
  add(client_nonce.data(), client_nonce.size());
  add(server_nonce.data(), server_nonce.size());
  add(secret_key.id.c_str(), secret_key.id.size() + 1);
  add(space.c_str(), space.size() + 1);
  bytes32 proof;
  crypto_generichash_final(&state, proof.data(), proof.size());
  return proof;
}

bool is_equal(const bytes32 &first, const bytes32 &second) {
  return sodium_memcmp(first.data(), second.data(), first.size()) == 0;
}

}  // namespace tanada::pool
