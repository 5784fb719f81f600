// backends/etcd/etcd_messages.hpp: requests to and answers of etcd's JSON gateway.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "seams/coordination/coordinator.hpp"

namespace tanada::backends {

struct etcd_call {
  const char *path;
  std::string body;
  bool is_repeatable;  // may be applied twice
};

etcd_call read_call(const std::string &prefix);
// Whether a key that begins with `prefix` has changed since `after_revision`.
etcd_call probe_call(const std::string &prefix, uint64_t after_revision);
etcd_call transaction_call(const std::vector<seams::transaction_condition> &conditions,
                           const std::vector<seams::transaction_change> &changes);
etcd_call grant_call(uint64_t ttl_s);
etcd_call renew_call(seams::lease_id lease);
etcd_call revoke_call(seams::lease_id lease);
etcd_call watch_call(const std::string &prefix, uint64_t start_revision);
// invalid: the name or the password is not UTF-8.
result<etcd_call> authenticate_call(const std::string &user, const std::string &password);

// Decoders of answers. protocol: the answer does not have the expected form.
result<seams::coordinated_range> decode_range(std::string_view text);
result<seams::transaction_outcome> decode_transaction(std::string_view text);
result<seams::lease_id> decode_grant(std::string_view text);
// no_entry: the lease has ended.
status decode_renewal(std::string_view text);
result<std::string> decode_token(std::string_view text);

// The status of an answer that is an error of etcd, and its text for people.
struct etcd_error {
  status code = status::protocol;
  bool is_about_token = false;  // a new token may help
  std::string message;
};
etcd_error decode_error(std::string_view text);

// One answer of a watch. `events` may be empty: a notification.
struct etcd_watch_answer {
  bool is_created = false;
  uint64_t revision = 0;  // of the store
  std::vector<seams::watch_event> events;
};
// stale: the changes have been compacted. Other errors of etcd end the watch, too.
result<etcd_watch_answer> decode_watch(std::string_view text);

}  // namespace tanada::backends
