// A session's requests about striped objects: creating them, where their stripes can lie, and the
// questions of servers that have stripes.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/map.hpp"
#include "products/poold/log/types.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

status session::require_striping() {
  // Stripes stay as long as the primary knows of the object.
  if (reads_backup_) {
    // A client that looks for the right server of a cluster is no reason for a line of the log.
    set_last_message("a striped object is read by its primary only");
    return status::again;
  }
  if (client_version_ >= striping_version)
    return status::ok;
  return fail(status::not_supported,
              "the object is striped over the servers of the pool: its client needs a library with "
              "version {} of the protocol or a later one, and has {}",
              striping_version,
              client_version_);
}

result<object_ref> session::create_head(const create_striped_request &request) {
  TND_TRY(check_create({request.name, request.set, request.size, request.flags}));
  if (is_hidden_namespace(namespace_name_) || (request.flags & flag_keep) != 0)
    return status::invalid;
  auto const id = next_striped_id();
  if (!id.ok())
    return id.error();
  bool const is_taken = service_.objects.open(namespace_id_, request.name, 0, false).ok();
  if ((request.flags & flag_exclusive) != 0 && is_taken)
    return status::exists;
  TND_TRY(require_free_handle());
  return service_.objects.create_striped(namespace_id_, request.size, request.flags, id.value());
}

// invalid: this pool has no striped objects.
result<striped_id> session::next_striped_id() {
  if (service_.cluster != nullptr)
    return service_.cluster->next_striped_id();
  if (service_.stripes != nullptr)
    return service_.stripes->next_id();
  return status::invalid;
}

status session::on_create_striped(std::span<const std::byte> body) {
  create_striped_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  auto const created = create_head(request);
  if (!created.ok())
    return created.error();
  const object_ref &target = created.value();
  if (!request.set.empty())
    TND_TRY(service_.objects.join_set(namespace_id_, request.set, id_));
  auto id = add_handle({target, true, request.name, request.set, request.flags, {}});
  if (!id.ok())
    return id.error();
  info about = target->client_metadata();
  about.size = request.size;
  send_reply(create_striped_reply{id.value(), target->striped->id(), about});
  return status::ok;
}

status session::on_stripe_places(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  TND_TRY(require_cluster());
  stripe_places_reply reply = service_.cluster->stripe_places();
  // The names of the hidden namespaces are longer by "/255" or "/fragments".
  bool const is_long = fragment_space_name(namespace_name_).size() > name_size_max;
  bool const has_stripes = !is_long && service_.cluster->protocol() >= striping_version;
  reply.stripe_size = has_stripes ? service_.stripe_size : 0;
  reply.erasure = service_.cluster->erasure_of(namespace_name_);
  send_reply(reply);
  return status::ok;
}

status session::on_stripe_limits(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  if (service_.stripes == nullptr)
    return fail(status::not_supported, "this pool has no objects larger than its memory");
  // The name of the hidden namespace is longer.
  std::string const longest = stripe_space_name(namespace_name_, stripe_partition_count - 1);
  bool const has_stripes =
      longest.size() <= pool::namespace_size_max && !is_hidden_namespace(namespace_name_);
  send_reply(has_stripes ? service_.stripes->limits() : stripe_limits_reply{});
  return status::ok;
}

status session::on_stripe_evict(std::span<const std::byte> body) {
  stripe_evict_request request;
  TND_TRY(decode(body, request));
  if (service_.stripes == nullptr)
    TND_TRY(require_cluster());
  TND_TRY(require_writer());
  send_reply(stripe_evict_reply{service_.objects.evict_striped(namespace_id_, request.size)});
  return status::ok;
}

// Only another server of the cluster may send these requests: over a connection without a
// namespace, and with a key for all of them if the pool has keys.
status session::require_server() {
  if (service_.cluster == nullptr || has_namespace_)
    return fail(status::invalid, "this pool belongs to no cluster");
  TND_TRY(require_writer());
  if (!keys_->empty() && !key_->allows_all())
    return fail(status::access, "key {} is not valid for all namespaces", key_id_);
  return status::ok;
}

// The answer must not show a change that could still be lost.
status session::on_stripe_check(std::span<const std::byte> body) {
  stripe_ids_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_server());
  if (request.ids.size() > stripe_id_count_max || !is_valid_name(request.namespace_name))
    return status::invalid;
  uint32_t const partition = partition_of(request.namespace_name);
  auto answer = std::make_shared<stripe_answer>(partition, service_.cluster->term(partition));
  TND_TRY(service_.cluster->check_serving(partition));
  for (const striped_id &id : request.ids)
    answer->reply.is_known.push_back(
        service_.cluster->has_striped(service_.objects, {request.namespace_name, id}) ? 1 : 0);
  answer_once_settled(answer);
  return status::ok;
}

void session::answer_once_settled(std::shared_ptr<stripe_answer> answer) {
  deferred_count_++;
  uint32_t const partition = answer->partition;
  service_.cluster->when_settled(
      partition,
      service_.cluster->last_position(partition),
      [answers = mailbox_, id = id_, tag = head_.tag, request_kind = head_.kind, answer] {
        answers->put({id, tag, request_kind, status::ok, {}, {}, answer});
      });
}

// Also called when the term is over. Then the changes that the answer shows may be lost, also if
// this server is the primary again.
void session::finish_stripe_check(const stripe_answer &answer) {
  status code = service_.cluster->check_serving(answer.partition);
  if (code == status::ok && service_.cluster->term(answer.partition) != answer.term)
    code = status::stale;
  if (code != status::ok)
    send_error(code);
  else
    send_reply(answer.reply);
}

status session::on_stripe_hint(std::span<const std::byte> body) {
  stripe_ids_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_server());
  if (request.ids.size() > stripe_id_count_max || !is_valid_name(request.namespace_name))
    return status::invalid;
  for (const striped_id &id : request.ids)
    service_.objects.striped()->add_suspect({request.namespace_name, id});
  send_reply(empty_message{});
  return status::ok;
}

}  // namespace tanada::poold
