// A client's striped objects in a pool of one server, whose memory may be smaller than an object.
//
// A writer has few stripes open. It commits the others before the object, so that they can leave
// the server's memory. Nobody else knows of them before the object's commit, and the server removes
// them if that does not come. A stripe that is written again is created with the bytes that it had,
// and a stripe that was never written is created at the commit. A reader, too, has few stripes
// open, because a stripe that a client of the node has open stays in memory.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/wire/pool_local_stripes.hpp"
#include "products/pool/client/striped_object.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr size_t open_count_max = 2;  // stripes of an object

}  // namespace

// One hidden namespace has all stripes of the namespace.
status client::fetch_limits(stripe_places_reply &places) {
  stripe_limits_reply limits;
  TND_TRY(call(kind::stripe_limits, empty_message{}, limits));
  stripe_size_max_ = limits.object_size;
  places.stripe_size = limits.stripe_size;
  places.servers = {{.address = server_name()}};
  places.primaries.assign(stripe_partition_count, 0);
  places.backups.assign(stripe_partition_count, no_stripe_server);
  return status::ok;
}

// Commits a stripe that is being written, with its size in the object, and closes it.
status client::seal_stripe(striped_object &striped, size_t index) {
  striped_object::stripe &stripe = striped.stripes[index];
  if (stripe.object.is_writer) {
    if (stripe.object.about.size != striped.size_of(index))
      TND_TRY(stripe.link->resize(stripe.object, striped.size_of(index)));
    TND_TRY(stripe.link->commit(stripe.object, {}, stripe.version));
    stripe.is_sealed = true;
    stripe.sealed_size = stripe.object.about.size;
  }
  stripe.link->close(stripe.object);
  stripe.object = {};
  return status::ok;
}

// The stripe is open now, and others that are not in use are closed.
status client::close_idle_stripes(striped_object &striped, size_t index) {
  std::erase(striped.open_stripes, index);
  striped.open_stripes.push_back(index);
  while (striped.open_stripes.size() > open_count_max) {
    size_t const idle = striped.open_stripes.front();
    striped.open_stripes.pop_front();
    TND_TRY(seal_stripe(striped, idle));
  }
  return status::ok;
}

// Has the stripe open for writing, with the bytes that it has already.
status client::begin_stripe(striped_object &striped, size_t index) {
  striped_object::stripe &stripe = striped.stripes[index];
  uint64_t const size = striped.size_of(index);
  if (!stripe.object.is_writer) {
    TND_TRY(seal_stripe(striped, index));  // closes it, if it is open for reading
    uint32_t const flags = stripe.is_sealed ? TND_POOL_KEEP : 0;
    TND_TRY(fill_stripes(striped, {index}, size, [&](size_t filled) {
      return stripe.link->create(
          stripe_name(striped.manifest.id, filled), size, flags, {}, stripe.object);
    }));
  }
  return stripe.object.about.size == size ? status::ok : stripe.link->resize(stripe.object, size);
}

// An unwritten stripe of an object that is being written has zeros.
status client::open_local_stripe(const open_object &object, size_t index, bool to_pool) {
  striped_object &striped = *object.striped;
  striped_object::stripe &stripe = striped.stripes[index];
  bool const is_unwritten = object.is_writer && !stripe.is_sealed && !stripe.object.is_writer;
  if (to_pool || is_unwritten)
    TND_TRY(begin_stripe(striped, index));
  else if (stripe.object.handle == 0)
    TND_TRY(stripe.link->open_stripe(striped, index, stripe.object));
  return close_idle_stripes(striped, index);
}

status client::move_local_round(const open_object &object,
                                const stripe_round &round,
                                bool on_device,
                                bool to_pool) {
  striped_object &striped = *object.striped;
  for (auto const &[index, pieces] : round.pieces) {
    TND_TRY(open_local_stripe(object, index, to_pool));
    striped_object::stripe &stripe = striped.stripes[index];
    TND_TRY(stripe.link->move_pieces(stripe.object, pieces, on_device, to_pool));
    traffic_.add({stripe.link->path(), on_device}, stripe_round::size_of(pieces), to_pool);
  }
  return status::ok;
}

// Gives stripes that exist their size in the object: the one that was the last may have another.
status client::resize_local_stripes(striped_object &striped) {
  for (size_t i = 0; i < striped.stripes.size(); i++) {
    striped_object::stripe &stripe = striped.stripes[i];
    uint64_t const size = striped.size_of(i);
    bool const is_other = stripe.object.is_writer ? stripe.object.about.size != size
                                                  : stripe.is_sealed && stripe.sealed_size != size;
    if (!is_other)
      continue;
    TND_TRY(begin_stripe(striped, i));
    TND_TRY(close_idle_stripes(striped, i));
  }
  return status::ok;
}

status client::commit_local_stripes(striped_object &striped) {
  for (size_t i = 0; i < striped.stripes.size(); i++) {
    if (!striped.stripes[i].is_sealed)
      TND_TRY(begin_stripe(striped, i));
    TND_TRY(seal_stripe(striped, i));
  }
  striped.open_stripes.clear();
  striped.manifest.versions().clear();
  for (const striped_object::stripe &stripe : striped.stripes)
    striped.manifest.versions().push_back(stripe.version);
  return status::ok;
}

}  // namespace tanada::pool
