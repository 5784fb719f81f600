// A session's requests about fragments: the setting of an operator, the places of an object's
// fragments, and the reports and reads of other servers.
#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/map.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

status session::on_cluster_erasure(std::span<const std::byte> body) {
  cluster_erasure_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_operator());
  if (!is_valid_name(request.namespace_name) || is_hidden_namespace(request.namespace_name))
    return fail(status::invalid, "this is no name of a namespace");
  if (!is_valid(request.scheme))
    return fail(status::invalid,
                "an erasure code has {} to {} data and 1 to {} parity fragments",
                erasure_data_count_min,
                erasure_data_count_max,
                erasure_parity_count_max);
  journal_callback const done = defer_until(true, false, {});
  return cancel_deferral_on_error(
      service_.cluster->set_erasure(request, [done](status code) { done(code); }));
}

status session::on_fragment_places(std::span<const std::byte> body) {
  fragment_places_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_cluster());
  striped_key const key{namespace_name_, request.id};
  if (!service_.cluster->has_striped(service_.objects, key))
    return status::no_entry;
  send_reply(service_.cluster->fragment_places(key));
  return status::ok;
}

// As on_stripe_check(): the answer must not show a change that could still be lost.
status session::on_fragment_report(std::span<const std::byte> body) {
  fragment_report_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_server());
  if (request.entries.size() > stripe_id_count_max || !is_valid_name(request.namespace_name) ||
      is_hidden_namespace(request.namespace_name))
    return status::invalid;
  uint32_t const partition = partition_of(request.namespace_name);
  auto answer = std::make_shared<stripe_answer>(partition, service_.cluster->term(partition));
  TND_TRY(service_.cluster->check_serving(partition));
  answer->reply.is_known = service_.cluster->note_fragments(service_.objects, request);
  answer_once_settled(std::move(answer));
  return status::ok;
}

namespace {

bool is_valid_build(const fragment_build_request &request) {
  erasure_layout const layout{request.scheme, request.size, request.fragment_size};
  bool const is_sane =
      request.scheme.is_on() && is_valid(request.scheme) && request.size <= object_size_max &&
      request.fragment_size > 0 && request.fragment_size <= object_size_max &&
      is_valid_name(request.namespace_name) && !is_hidden_namespace(request.namespace_name);
  return is_sane && layout.fragment_count() <= fragment_count_max &&
         request.target.index < layout.fragment_count() &&
         layout.size_of(request.target.index) > 0 &&
         request.sources.size() <= request.scheme.data_count;
}

}  // namespace

status session::on_fragment_build(std::span<const std::byte> body) {
  fragment_build_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_server());
  if (!is_valid_build(request))
    return status::invalid;
  journal_callback const done = defer_until(true, false, {});
  return cancel_deferral_on_error(
      service_.cluster->build_fragment(request, [done](status code) { done(code); }));
}

status session::on_fragment_read(std::span<const std::byte> body) {
  fragment_read_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_server());
  if (!is_valid_name(request.namespace_name) || request.size > fragment_read_size_max)
    return status::invalid;
  catalog::object_place const place{fragment_space_name(request.namespace_name),
                                    stripe_name(request.source.id, request.source.index)};
  object_ref source;
  std::shared_ptr<cold_reader> reader;
  service_.objects.visit_places({&place, 1}, [&](const auto &, const object_ref &object) {
    source = object;
    reader = service_.objects.reader_of(*object);
  });
  if (source == nullptr)
    return status::no_entry;
  TND_TRY(require_intact(*source));
  bool const fits = range_fits(request.offset, request.size, source->metadata.size);
  if (!fits)
    return status::range;
  if (reader != nullptr) {
    bool const is_whole = request.size == source->metadata.size;
    return begin_cold_read({head_, source, place.name},
                           {std::move(reader), {{request.offset, request.size}}, is_whole});
  }
  std::vector<iovec> parts;
  source->append_parts(request.offset, request.size, parts);
  send_reply(empty_message{}, std::move(parts), source);
  return status::ok;
}

}  // namespace tanada::poold
