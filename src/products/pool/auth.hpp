// products/pool/auth.hpp: keys, and how both sides prove that they have one without showing it.
//
// The client sends a nonce, the server one of its own with a proof, the client its proof. A proof
// is BLAKE2b with the key over who proves, both nonces and the namespace, so none is good for
// another connection, side or namespace. What follows is not encrypted: whoever can change packets
// on the way is not kept out.
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

// A file of lines "ID SECRET rw|ro NAMESPACE[,NAMESPACE...]", the secret as 64 hexadecimal digits;
// empty lines and what begins with # are skipped. access: others than its owner may read it;
// no_entry; invalid: a line, named in the message.
result<std::vector<key>> keys_read(const std::string &path);

enum class prover { server, client };

bytes32 random_bytes();

bytes32 proof_of(const key &which, prover who, const bytes32 &client_nonce,
                 const bytes32 &server_nonce, const std::string &space);

// In constant time.
bool is_equal(const bytes32 &left, const bytes32 &right);

}  // namespace tanada::pool
