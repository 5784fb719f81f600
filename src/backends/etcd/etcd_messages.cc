// JSON of etcd's gateway. Nothing that a server sends is trusted: a field of a wrong type is an
// error. A missing number is 0, as JSON of Protocol Buffers has it.
#include "backends/etcd/etcd_messages.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "backends/etcd/etcd_base64.hpp"

namespace tanada::backends {

namespace {

using nlohmann::json;

constexpr int depth_max = 12;

// The end of the range of keys that begin with `prefix`. etcd takes a zero byte for no end.
std::string range_end(std::string prefix) {
  while (!prefix.empty() && uint8_t(prefix.back()) == 0xFF)
    prefix.pop_back();
  if (prefix.empty())
    return std::string(1, '\0');
  prefix.back() = char(uint8_t(prefix.back()) + 1);
  return prefix;
}

json range_json(const std::string &prefix) {
  return {{"key", base64_encode(prefix.empty() ? std::string(1, '\0') : prefix)},
          {"range_end", base64_encode(range_end(prefix))}};
}

result<json> parse(std::string_view text) {
  bool is_too_deep = false;
  auto const check = [&](int depth, json::parse_event_t, const json &) {
    is_too_deep |= depth > depth_max;
    return !is_too_deep;
  };
  json document = json::parse(text, check, false);
  if (is_too_deep || !document.is_object())
    return status::protocol;
  return document;
}

const json *find(const json &object, const char *name) {
  auto const it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

// Numbers of 64 bits are strings.
result<uint64_t> number(const json &object, const char *name) {
  const json *const field = find(object, name);
  if (field == nullptr)
    return uint64_t{0};
  if (field->is_number_unsigned())
    return field->get<uint64_t>();
  auto const *const text = field->get_ptr<const std::string *>();
  if (text == nullptr)
    return status::protocol;
  uint64_t value = 0;
  auto const [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size())
    return status::protocol;
  return value;
}

// A revision or an identifier, which is at least 1 and fits into int64.
result<uint64_t> positive(const json &object, const char *name) {
  TND_ASSIGN(uint64_t const value, number(object, name));
  if (value == 0 || value > INT64_MAX)
    return status::protocol;
  return value;
}

result<bool> flag(const json &object, const char *name) {
  const json *const field = find(object, name);
  if (field == nullptr)
    return false;
  auto const *const value = field->get_ptr<const json::boolean_t *>();
  if (value == nullptr)
    return status::protocol;
  return *value;
}

result<std::string> bytes(const json &object, const char *name) {
  const json *const field = find(object, name);
  if (field == nullptr)
    return std::string{};
  auto const *const text = field->get_ptr<const std::string *>();
  if (text == nullptr)
    return status::protocol;
  return base64_decode(*text);
}

result<uint64_t> store_revision(const json &answer) {
  const json *const header = find(answer, "header");
  if (header == nullptr || !header->is_object())
    return status::protocol;
  return positive(*header, "revision");
}

result<seams::coordinated_entry> decode_entry(const json &object) {
  if (!object.is_object())
    return status::protocol;
  seams::coordinated_entry entry;
  TND_ASSIGN(entry.key, bytes(object, "key"));
  TND_ASSIGN(entry.value, bytes(object, "value"));
  TND_ASSIGN(entry.revision, positive(object, "mod_revision"));
  TND_ASSIGN(uint64_t const lease, number(object, "lease"));
  if (entry.key.empty() || lease > INT64_MAX)
    return status::protocol;
  entry.lease = seams::lease_id(lease);
  return entry;
}

result<seams::watch_event> decode_event(const json &object) {
  const json *const entry = object.is_object() ? find(object, "kv") : nullptr;
  if (entry == nullptr)
    return status::protocol;
  const json *const type = find(object, "type");
  seams::watch_event event{.is_removed = type != nullptr && *type == "DELETE", .entry = {}};
  if (type != nullptr && !event.is_removed && *type != "PUT")
    return status::protocol;
  TND_ASSIGN(event.entry, decode_entry(*entry));
  return event;
}

// An answer of a stream is in "result", or is an error.
result<json> stream_result(std::string_view text) {
  TND_ASSIGN(json document, parse(text));
  if (document.contains("error"))
    return decode_error(text).code;
  const json *const answer = find(document, "result");
  if (answer == nullptr || !answer->is_object())
    return status::protocol;
  return *answer;
}

json put_json(const seams::transaction_change &change) {
  json put{{"key", base64_encode(change.key)}, {"value", base64_encode(change.value)}};
  if (change.lease != seams::no_lease)
    put["lease"] = std::to_string(change.lease);
  return {{"request_put", std::move(put)}};
}

// Of google.rpc.Code.
enum class rpc_code : uint8_t {
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  unavailable = 14,
  unauthenticated = 16,
};

status rpc_status(uint64_t code, std::string_view message) {
  auto const mentions = [message](std::string_view words) {
    return message.find(words) != message.npos;
  };
  switch (rpc_code(code)) {
    case rpc_code::deadline_exceeded:
    case rpc_code::unavailable:
      return status::timed_out;
    case rpc_code::not_found:
      return status::no_entry;
    case rpc_code::permission_denied:
    case rpc_code::unauthenticated:
      return status::access;
    case rpc_code::resource_exhausted:
      return mentions("space exceeded") ? status::no_space : status::timed_out;
    case rpc_code::invalid_argument:
      if (mentions("too large"))
        return status::too_big;
      return mentions("authentication failed") || mentions("user name is empty") ? status::access
                                                                                 : status::protocol;
    case rpc_code::failed_precondition:
      return mentions("authentication is not enabled") ? status::access : status::protocol;
    default:
      return status::protocol;
  }
}

}  // namespace

etcd_call read_call(const std::string &prefix) {
  return {"/v3/kv/range", range_json(prefix).dump(), true};
}

etcd_call probe_call(const std::string &prefix, uint64_t after_revision) {
  json range = range_json(prefix);
  range["limit"] = "1";
  range["keys_only"] = true;
  range["min_mod_revision"] = std::to_string(after_revision + 1);
  return {"/v3/kv/range", range.dump(), true};
}

etcd_call transaction_call(const std::vector<seams::transaction_condition> &conditions,
                           const std::vector<seams::transaction_change> &changes) {
  json compare = json::array(), success = json::array();
  for (auto const &condition : conditions)
    compare.push_back({{"key", base64_encode(condition.key)},
                       {"target", "MOD"},
                       {"result", "EQUAL"},
                       {"mod_revision", std::to_string(condition.revision)}});
  for (auto const &change : changes) {
    if (change.type == seams::transaction_change::kind::put)
      success.push_back(put_json(change));
    else
      success.push_back({{"request_delete_range", {{"key", base64_encode(change.key)}}}});
  }
  json const body{{"compare", std::move(compare)}, {"success", std::move(success)}};
  return {"/v3/kv/txn", body.dump(), false};
}

etcd_call grant_call(uint64_t ttl_s) {
  return {"/v3/lease/grant", json{{"TTL", std::to_string(ttl_s)}}.dump(), true};
}

etcd_call renew_call(seams::lease_id lease) {
  return {"/v3/lease/keepalive", json{{"ID", std::to_string(lease)}}.dump(), true};
}

etcd_call revoke_call(seams::lease_id lease) {
  return {"/v3/lease/revoke", json{{"ID", std::to_string(lease)}}.dump(), false};
}

etcd_call watch_call(const std::string &prefix, uint64_t start_revision) {
  json range = range_json(prefix);
  range["start_revision"] = std::to_string(start_revision);
  return {"/v3/watch", json{{"create_request", std::move(range)}}.dump(), true};
}

result<etcd_call> authenticate_call(const std::string &user, const std::string &password) {
  try {
    return etcd_call{
        "/v3/auth/authenticate", json{{"name", user}, {"password", password}}.dump(), true};
  } catch (const json::exception &) {
    return status::invalid;
  }
}

result<seams::coordinated_range> decode_range(std::string_view text) {
  TND_ASSIGN(json const answer, parse(text));
  seams::coordinated_range range;
  TND_ASSIGN(range.store_revision, store_revision(answer));
  const json *const list = find(answer, "kvs");
  if (list == nullptr)
    return range;
  if (!list->is_array())
    return status::protocol;
  for (json const &object : *list) {
    TND_ASSIGN(auto entry, decode_entry(object));
    if (entry.revision > range.store_revision)
      return status::protocol;
    range.entries.push_back(std::move(entry));
  }
  return range;
}

result<seams::transaction_outcome> decode_transaction(std::string_view text) {
  TND_ASSIGN(json const answer, parse(text));
  seams::transaction_outcome outcome;
  TND_ASSIGN(outcome.store_revision, store_revision(answer));
  TND_ASSIGN(outcome.is_applied, flag(answer, "succeeded"));
  return outcome;
}

result<seams::lease_id> decode_grant(std::string_view text) {
  TND_ASSIGN(json const answer, parse(text));
  TND_ASSIGN(uint64_t const id, positive(answer, "ID"));
  return seams::lease_id(id);
}

status decode_renewal(std::string_view text) {
  auto const answer = stream_result(text);
  if (!answer.ok())
    return answer.error();
  auto const ttl_s = number(answer.value(), "TTL");
  if (!ttl_s.ok())
    return ttl_s.error();
  return ttl_s.value() == 0 ? status::no_entry : status::ok;
}

result<std::string> decode_token(std::string_view text) {
  TND_ASSIGN(json const answer, parse(text));
  const json *const field = find(answer, "token");
  auto const *const token = field == nullptr ? nullptr : field->get_ptr<const std::string *>();
  bool const is_valid =
      token != nullptr && !token->empty() && token->size() <= 8192 &&
      std::ranges::all_of(*token, [](char letter) { return letter > ' ' && letter <= '~'; });
  if (!is_valid)
    return status::protocol;
  return *token;
}

etcd_error decode_error(std::string_view text) {
  auto const document = parse(text);
  if (!document.ok())
    return {};
  const json *object = &document.value();
  // Errors within a stream are in a nested object.
  if (const json *const nested = find(*object, "error"); nested != nullptr && nested->is_object())
    object = nested;
  etcd_error error;
  if (const json *const field = find(*object, "message"); field != nullptr && field->is_string())
    error.message = field->get<std::string>();
  auto const code = number(*object, object->contains("grpc_code") ? "grpc_code" : "code");
  if (!code.ok() || code.value() > 16)
    return error;
  error.code = rpc_status(code.value(), error.message);
  error.is_about_token = rpc_code(code.value()) == rpc_code::unauthenticated ||
                         error.message.find("user name is empty") != std::string::npos ||
                         error.message.find("revision of auth store is old") != std::string::npos;
  return error;
}

result<etcd_watch_answer> decode_watch(std::string_view text) {
  TND_ASSIGN(json const document, stream_result(text));
  TND_ASSIGN(bool const is_canceled, flag(document, "canceled"));
  TND_ASSIGN(uint64_t const compact_revision, number(document, "compact_revision"));
  if (is_canceled) {
    if (compact_revision != 0)
      return status::stale;
    const json *const reason = find(document, "cancel_reason");
    bool const is_refused =
        reason != nullptr && reason->is_string() &&
        reason->get_ref<const std::string &>().find("permission denied") != std::string::npos;
    return is_refused ? status::access : status::peer_lost;
  }
  etcd_watch_answer answer;
  TND_ASSIGN(answer.is_created, flag(document, "created"));
  TND_ASSIGN(answer.revision, store_revision(document));
  const json *const list = find(document, "events");
  if (list == nullptr)
    return answer;
  if (!list->is_array())
    return status::protocol;
  for (json const &object : *list) {
    TND_ASSIGN(auto event, decode_event(object));
    answer.events.push_back(std::move(event));
  }
  return answer;
}

}  // namespace tanada::backends
