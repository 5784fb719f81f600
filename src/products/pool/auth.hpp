// products/pool/auth.hpp: keys, and proofs by which both sides show that they have a key without
// sending it.
//
// The client sends a nonce. The server sends a nonce of its own and a proof. The client sends its
// proof. A proof is BLAKE2b with the key over the side, both nonces and the namespace, so it is
// valid only for one connection, side and namespace. The data that follow are not encrypted: an
// attacker who can change packets on the path is not kept out.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"

namespace tanada::pool {

using wire::pool::bytes32;

struct key {
  std::string id;
  bytes32 secret{};
  bool can_write = false;
  std::vector<std::string> spaces;  // namespaces; "*" stands for all

  bool allows(const std::string &space) const;
  bool allows_all() const {
    return allows("*");
  }
};

// Reads a file of lines "ID SECRET rw|ro NAMESPACE[,NAMESPACE...]", with the secret as 64
// hexadecimal digits. Empty lines and lines that begin with # are skipped. `access`: users other
// than the owner may read the file. `no_entry`: there is no file. `invalid`: a line is malformed,
// and the message names it.
result<std::vector<key>> keys_read(const std::string &path);

enum class prover { server, client };

bytes32 random_bytes();

bytes32 proof_of(const key &secret_key,
                 prover side,
                 const bytes32 &client_nonce,
                 const bytes32 &server_nonce,
                 const std::string &space);

// Compares in constant time.
bool is_equal(const bytes32 &first, const bytes32 &second);

}  // namespace tanada::pool
