// A client's striped objects: their connections, reads, writes and commits.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <system_error>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/wire/pool_local_stripes.hpp"
#include "products/pool/client/box.hpp"
#include "products/pool/client/striped_object.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t striped_size_min = 64 << 10;  // no pool stripes smaller objects
constexpr size_t link_count_max = 64;            // of links that no open object uses
constexpr size_t piece_count_max = 65536;        // of one round of transfers
constexpr uint64_t copy_size = 8 << 20;          // bytes copied from object to object at a time
constexpr uint64_t evict_wait_ns = 10'000'000'000, evict_retry_ns = 20'000'000;
constexpr size_t first_manifest_size = 4096;
constexpr int put_try_count_max = 3;
constexpr uint32_t flags_of_heads = TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE;

// What several threads do, and the first error.
class shared_outcome {
 public:
  bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);
  }
  void add(status code) {
    if (code == status::ok)
      return;
    lock_guard lock{mutex_};
    if (!has_failed_.exchange(true)) {
      code_ = code;
      message_ = last_message();
    }
  }
  // Called once the threads have ended.
  status take() {
    lock_guard lock{mutex_};
    if (code_ != status::ok)
      set_last_message(message_);
    return code_;
  }

 private:
  mutex mutex_;
  std::atomic<bool> has_failed_{false};
  status code_ TND_GUARDED_BY(mutex_) = status::ok;
  std::string message_ TND_GUARDED_BY(mutex_);
};

status call_safely(const std::function<status()> &work) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return status::no_memory;
  } catch (...) {
    return fail(status::io, "a transfer of stripes has failed unexpectedly");
  }
}

std::map<client *, std::vector<size_t>> group_by_link(const striped_object &striped,
                                                      const std::vector<size_t> &indices) {
  std::map<client *, std::vector<size_t>> by_link;
  for (size_t const index : indices)
    by_link[striped.stripes[index].link.get()].push_back(index);
  return by_link;
}

uint64_t stripe_count_of(const stripe_manifest &manifest) {
  uint64_t const whole_count = manifest.size / manifest.stripe_size;
  return whole_count + (manifest.size % manifest.stripe_size != 0 ? 1 : 0);
}

}  // namespace

// ---- connections

// The link connects when it is first used. It tries the hinted server first.
std::shared_ptr<client> client::stripe_link(uint8_t partition, const std::string &hint) {
  std::shared_ptr<client> &link = stripe_links_[partition];
  if (link != nullptr)
    return link;
  address location = daemon_;
  location.space = stripe_space_name(daemon_.space, partition);
  location.object.clear();
  link.reset(new client{std::move(location), settings_});
  link->is_cluster_ = is_cluster_;
  link->places_ = places_;
  if (is_cluster_ && !hint.empty())  // with two places, a link searches until the deadline
    if (auto const place = place_parse(hint); place.ok())
      link->places_.insert(link->places_.begin(), place.value());
  std::shared_ptr<client> const created = link;
  if (stripe_links_.size() > link_count_max)
    std::erase_if(stripe_links_, [](auto const &entry) { return entry.second.use_count() == 1; });
  return created;
}

// The text of a server without space is about its own memory.
status client::name_server(const client &link, status code) {
  if (code == status::no_space)
    set_last_message("pool at " + link.server_name() + ": " + last_message());
  return code;
}

// Calls work(index) for stripes: those of one link one after the other, and those of different
// links in different threads, because a link waits for each of its requests.
status client::run_stripes(const striped_object &striped,
                           const std::vector<size_t> &indices,
                           bool is_sequential,
                           const std::function<status(size_t)> &work) {
  auto const by_link = group_by_link(striped, indices);
  bool const has_threads =
      !is_sequential && !by_link.empty() && by_link.begin()->first->settings_.has_threads;
  shared_outcome outcome;
  auto const run = [&](const std::vector<size_t> &assigned) {
    for (size_t const index : assigned)
      if (!outcome.has_failed())
        outcome.add(
            name_server(*striped.stripes[index].link, call_safely([&] { return work(index); })));
  };
  std::vector<std::thread> threads;
  const std::vector<size_t> *first = nullptr;
  for (auto const &[link, assigned] : by_link) {
    bool is_started = false;
    if (first != nullptr && has_threads) {
      try {
        threads.emplace_back([&run, &assigned = assigned] { run(assigned); });
        is_started = true;
      } catch (const std::system_error &) {
        is_started = false;  // this thread does it
      }
    }
    if (first == nullptr)
      first = &assigned;
    else if (!is_started)
      run(assigned);
  }
  if (first != nullptr)
    run(*first);
  for (std::thread &thread : threads)
    thread.join();
  return outcome.take();
}

// A stripe's server does not know which objects may be evicted: the namespace's primary does. Their
// memory is free once their own stripes are removed.
status client::fill_stripes(const striped_object &striped,
                            std::vector<size_t> indices,
                            uint64_t size,
                            const std::function<status(size_t)> &work) {
  std::vector<uint8_t> is_done(striped.stripes.size());
  uint64_t end_ns = 0;
  for (;;) {
    status const code = run_stripes(striped, indices, false, [&](size_t index) {
      TND_TRY(work(index));
      is_done[index] = 1;
      return status::ok;
    });
    // A single server has evicted what it can.
    if (code != status::no_space || striped.is_local)
      return code;
    std::string const reason = last_message();
    std::erase_if(indices, [&](size_t index) { return is_done[index] != 0; });
    uint64_t const now_ns = clock().now_ns();
    stripe_evict_reply evicted;
    if (end_ns == 0 && call(kind::stripe_evict, stripe_evict_request{size}, evicted) == status::ok)
      end_ns = evicted.size == 0 ? 0 : now_ns + evict_wait_ns;
    if (now_ns >= end_ns) {
      set_last_message(reason);
      return code;
    }
    clock().sleep_ns(evict_retry_ns);
  }
}

// ---- creation

// Whether the pool may have striped objects, and this client can create them.
bool client::may_stripe() {
  if (settings_.version < striping_version || is_hidden_namespace(daemon_.space))
    return false;
  if (is_cluster_)
    return true;
  bool const is_connected = channel_ != nullptr || ensure_connected(true) == status::ok;
  return is_connected && channel_->terms().is_durable == durable_and_striped;
}

status client::fetch_places(stripe_places_reply &places) {
  if (!is_cluster_)
    return fetch_limits(places);
  TND_TRY(call(kind::stripe_places, empty_message{}, places));
  stripe_size_max_ = places.stripe_size;
  return status::ok;
}

// Whether an object of this size is to be striped. An error counts as no: the object's own request
// reports it.
bool client::is_striped_size(uint64_t size) {
  if (size <= striped_size_min || daemon_.space.empty() || !may_stripe())
    return false;
  stripe_places_reply places;
  if (!stripe_size_max_ && fetch_places(places) != status::ok)
    return false;
  return stripe_size_max_ && *stripe_size_max_ != 0 && size > *stripe_size_max_;
}

// Begins a striped object that has no stripes yet.
status client::create_head(const std::string &name,
                           uint64_t size,
                           uint32_t flags,
                           const std::string &set,
                           open_object &opened) {
  TND_ASSERT(size <= object_size_max);
  stripe_places_reply places;
  TND_TRY(fetch_places(places));
  create_striped_request request;
  request.name = name;
  request.set = set;
  request.size = size;
  request.flags = flags;
  create_striped_reply answer;
  TND_TRY(call_for_handle(kind::create_striped, request, answer));
  opened = {.epoch = epoch_,
            .handle = answer.handle,
            .name = name,
            .is_writer = true,
            .in_set = !set.empty(),
            .about = answer.object_info,
            .pieces = {},
            .written = {}};
  opened.flags = flags;
  opened.set = set;
  auto striped = std::make_shared<striped_object>();
  striped->is_local = !is_cluster_;
  striped->placement.emplace(places, daemon_.space, answer.id.number);
  opened.striped = striped;
  if (striped->placement->is_empty() || places.stripe_size == 0) {
    close(opened);
    return fail(status::again, "no server of the pool can take stripes now");
  }
  striped->manifest.id = answer.id;
  if (places.erasure.is_on()) {
    begin_fragments(*striped, places, size);
    return status::ok;
  }
  striped->manifest.stripe_size = striped->placement->stripe_size(size);
  return status::ok;
}

// Assigns stripes to servers until they cover the size. Returns the new ones.
result<std::vector<size_t>> client::place_stripes(striped_object &striped, uint64_t size) {
  TND_ASSERT(striped.placement && size >= striped.manifest.size);
  if (striped.has_fragments())
    return place_fragments(striped, size);
  stripe_manifest &manifest = striped.manifest;
  uint64_t const before = manifest.size;
  manifest.size = size;
  uint64_t const count = stripe_count_of(manifest);
  if (size_t const most = striped.is_local ? local_stripe_count_max : stripe_count_max;
      count > most) {
    manifest.size = before;
    return too_many_parts(size, most, "stripes", manifest.stripe_size);
  }
  std::vector<size_t> added;
  while (manifest.partitions.size() < count) {
    uint8_t const partition = striped.placement->next();
    added.push_back(manifest.partitions.size());
    manifest.partitions.push_back(partition);
    striped.stripes.push_back(
        {stripe_link(partition, striped.placement->address_of(partition)), {}});
  }
  return added;
}

// Makes the object larger, with new stripes where it needs them.
status client::grow_striped(open_object &object, uint64_t size) {
  striped_object &striped = *object.striped;
  auto const added = place_stripes(striped, size);
  if (!added.ok())
    return added.error();
  std::vector<size_t> const created = striped.is_local ? std::vector<size_t>{} : added.value();
  status code = fill_stripes(striped, created, size, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    return stripe.link->create(
        stripe_name(striped.manifest.id, index), striped.size_of(index), 0, {}, stripe.object);
  });
  object_reply answer;
  bool const is_charged = added.value().empty() || size <= object.about.size;
  if (code == status::ok && !is_charged)
    code = with_url(call(kind::resize, resize_request{object.handle, size}, answer), object.name);
  if (code != status::ok) {
    drop_stripes(striped, object.about.size);
    return code;
  }
  object.about.size = size;
  return status::ok;
}

// Closes the stripes from this size on.
void client::drop_stripes(striped_object &striped, uint64_t size) {
  striped.manifest.size = size;
  if (striped.has_fragments())
    return drop_fragments(striped);
  uint64_t const count = stripe_count_of(striped.manifest);
  for (size_t i = count; i < striped.stripes.size(); i++)
    striped.stripes[i].link->close(striped.stripes[i].object);
  striped.stripes.resize(std::min<size_t>(striped.stripes.size(), count));
  striped.manifest.partitions.resize(striped.stripes.size());
  std::erase_if(striped.open_stripes, [count](size_t index) { return index >= count; });
}

status client::create_striped(const std::string &name,
                              uint64_t size,
                              uint32_t flags,
                              const std::string &set,
                              open_object &opened) {
  if (size > object_size_max)
    return status::too_big;
  open_object created;
  TND_TRY(create_head(name, size, flags, set, created));
  if (status const code = grow_striped(created, size); code != status::ok) {
    created.striped->manifest.size = 0;
    close(created);
    return code;
  }
  opened = std::move(created);
  return status::ok;
}

// TND_POOL_KEEP: only this client can copy the bytes of stripes.
status client::create_with_bytes(const std::string &name,
                                 uint64_t size,
                                 uint32_t flags,
                                 const std::string &set,
                                 open_object &opened) {
  open_object source, created;
  TND_TRY(open(name, 0, source));
  uint64_t const source_size = source.about.size;
  uint64_t const new_size = std::max(size, source_size);
  status code = is_striped_size(new_size) ? create_striped(name, new_size, flags, set, created)
                                          : create_whole(name, new_size, flags, set, created);
  if (code == status::ok)
    code = copy_bytes(source, created, source_size);
  close(source);
  if (code != status::ok) {
    close(created);
    return code;
  }
  opened = std::move(created);
  return status::ok;
}

status client::copy_bytes(open_object &source, open_object &target, uint64_t size) {
  std::vector<std::byte> buffer(std::min(size, copy_size));
  for (uint64_t offset = 0; offset < size; offset += buffer.size()) {
    tnd_pool_box const box = row_box(offset, std::min<uint64_t>(buffer.size(), size - offset));
    TND_TRY(read(source, box, {buffer.data(), false}));
    TND_TRY(write(target, box, {buffer.data(), false}));
  }
  return status::ok;
}

// An object that was created whole grows beyond the size of a stripe.
status client::convert_to_striped(open_object &object, uint64_t size) {
  TND_TRY(report_written(object));
  open_object created;
  TND_TRY(create_striped(
      object.name, object.about.size, object.flags & flags_of_heads, object.set, created));
  status const code = copy_bytes(object, created, object.about.size);
  if (code != status::ok) {
    close(created);
    return code;
  }
  close(object);
  object = std::move(created);
  return grow_striped(object, size);
}

// ---- transfers

status client::open_striped(open_object &object) {
  auto striped = std::make_shared<striped_object>();
  striped->is_local = !is_cluster_;
  std::vector<std::byte> bytes(first_manifest_size);
  for (;;) {
    empty_message answer;
    uint64_t size = 0;
    ranges_request const request{object.handle, {{0, bytes.size()}}};
    TND_TRY(call(kind::read, request, answer, {}, {{bytes.data(), bytes.size()}}, &size));
    if (size < bytes.size() || bytes.size() >= stripe_manifest_size_max) {
      bytes.resize(std::min<size_t>(size, bytes.size()));
      break;
    }
    bytes.resize(stripe_manifest_size_max);
  }
  stripe_manifest &manifest = striped->manifest;
  if (wire::decode(bytes, manifest) != status::ok || !is_valid(manifest) ||
      manifest.size != object.about.size)
    return status::protocol;
  for (uint8_t const partition : manifest.partitions)
    striped->stripes.push_back({stripe_link(partition, {}), {}});
  for (uint8_t const place : manifest.places)
    striped->stripes.push_back({fragment_link(manifest.servers[place].address), {}});
  object.striped = std::move(striped);
  return status::ok;
}

// A stripe is opened when it is first read. An object that exists has all of its stripes.
status client::open_stripe(const striped_object &striped, size_t index, open_object &object) {
  status const code = open(stripe_name(striped.manifest.id, index), 0, object);
  if (code == status::no_entry)
    return fail(status::stale,
                "the object was removed or replaced, and the connection that kept it has ended");
  TND_TRY(code);
  return object.about.size == striped.size_of(index) ? status::ok : status::corrupt;
}

// Moves pieces of one object. A stripe of a cluster is opened again where its server was lost.
status client::move_pieces(open_object &object,
                           std::span<const stripe_piece> pieces,
                           bool on_device,
                           bool to_pool) {
  if (pieces.size() == 1) {
    tnd_pool_box const box = row_box(pieces[0].offset, pieces[0].size);
    memory_range const memory{pieces[0].memory, on_device};
    return to_pool ? write(object, box, memory) : read(object, box, memory);
  }
  if (!to_pool)
    return retry_read(object, [&] { return move_many(object, pieces, on_device, false); });
  if (!object.is_writer)
    return status::bad_file;
  for (const stripe_piece &piece : pieces)
    object.about.size = std::max(object.about.size, piece.offset + piece.size);
  return move_many(object, pieces, on_device, true);
}

status client::move_many(open_object &object,
                         std::span<const stripe_piece> pieces,
                         bool on_device,
                         bool to_pool) {
  TND_TRY(check_usable(object));
  if (on_device) {
    TND_TRY(ensure_device());
    TND_TRY(ensure_device_stage());
    staged_rows rows;
    for (const stripe_piece &piece : pieces)
      TND_TRY(stage_row(object, rows, {piece.offset, piece.size}, piece.memory, to_pool));
    return flush_staged(object, rows, to_pool);
  }
  for (size_t begin = 0; begin < pieces.size(); begin += range_count_max) {
    std::vector<range> ranges;
    std::vector<iovec> memory;
    for (size_t i = begin; i < pieces.size() && i < begin + range_count_max; i++) {
      ranges.push_back({pieces[i].offset, pieces[i].size});
      memory.push_back({pieces[i].memory, pieces[i].size});
    }
    TND_TRY(move_rows(object, std::move(ranges), std::move(memory), to_pool));
  }
  return status::ok;
}

// Moves the pieces of a round, by stripe.
status client::move_round(const open_object &object,
                          const stripe_round &round,
                          bool on_device,
                          bool to_pool) {
  striped_object &striped = *object.striped;
  bool const is_writer = object.is_writer || object.about.version == 0;
  std::vector<size_t> indices;
  for (auto const &[index, pieces] : round.pieces)
    indices.push_back(index);
  if (indices.empty())
    return status::ok;
  if (striped.has_fragments() && !is_writer && !to_pool)
    return read_fragments(striped, round, on_device);
  if (striped.is_local)
    return move_local_round(object, round, on_device, to_pool);
  status const code = run_stripes(striped, indices, on_device, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    if (stripe.object.handle == 0)
      TND_TRY(stripe.link->open_stripe(striped, index, stripe.object));
    return stripe.link->move_pieces(
        stripe.object, round.pieces.find(index)->second, on_device, to_pool);
  });
  if (code == status::ok) {
    tnd_pool_path const path = striped.stripes[indices.front()].link->path();
    traffic_.add({path, on_device}, round.size, to_pool);
  }
  return code == status::no_entry ? status::stale : code;
}

status client::move_striped(open_object &object,
                            const tnd_pool_box &box,
                            memory_range memory,
                            bool to_pool) {
  const striped_object &striped = *object.striped;
  stripe_round round;
  auto *const base = static_cast<std::byte *>(memory.addr);
  TND_TRY(each_row(box, [&](uint64_t offset, uint64_t memory_offset) {
    round.add(striped, offset, box.size, base + memory_offset);
    if (round.piece_count < piece_count_max)
      return status::ok;
    return move_round(object, std::exchange(round, {}), memory.on_device, to_pool);
  }));
  return move_round(object, round, memory.on_device, to_pool);
}

status client::write_striped(open_object &object, const tnd_pool_box &box, memory_range source) {
  auto const end = end_of(box);
  if (!end.ok())
    return end.error();
  if (end.value() > object.striped->manifest.size)
    TND_TRY(grow_striped(object, end.value()));
  return move_striped(object, joined(box), source, true);
}

// The head's handle keeps the stripes, so it is opened again where its server was lost.
status client::read_striped(open_object &object, const tnd_pool_box &box, memory_range target) {
  notice_end();
  if (object.is_writer || object.about.version == 0) {
    TND_TRY(check_usable(object));
    TND_TRY(resize_stripes(*object.striped));
  } else if (check_usable(object) != status::ok) {
    TND_TRY(reopen(object));
  }
  return move_striped(object, joined(box), target, false);
}

// ---- the end of writing

// Gives each stripe its size: those that were the last one once may be too small.
status client::resize_stripes(striped_object &striped) {
  if (striped.is_local)
    return resize_local_stripes(striped);
  std::vector<size_t> indices;
  for (size_t i = 0; i < striped.stripes.size(); i++)
    if (striped.stripes[i].object.is_writer &&
        striped.stripes[i].object.about.size != striped.size_of(i))
      indices.push_back(i);
  return run_stripes(striped, indices, false, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    return stripe.link->resize(stripe.object, striped.size_of(index));
  });
}

status client::resize_striped(open_object &object, uint64_t size) {
  striped_object &striped = *object.striped;
  if (size > object_size_max)
    return status::too_big;
  if (size > striped.manifest.size)
    return grow_striped(object, size);
  drop_stripes(striped, size);
  object.about.size = size;
  TND_TRY(resize_stripes(striped));
  object_reply answer;
  return with_url(call(kind::resize, resize_request{object.handle, size}, answer), object.name);
}

// The checksum of the object's bytes, as the servers have them.
status client::sum_striped(open_object &object, checksum &sum) {
  std::vector<std::byte> buffer(std::min(object.about.size, copy_size));
  for (uint64_t offset = 0; offset < object.about.size; offset += buffer.size()) {
    tnd_pool_box const box =
        row_box(offset, std::min<uint64_t>(buffer.size(), object.about.size - offset));
    TND_TRY(move_striped(object, box, {buffer.data(), false}, false));
    sum.add(buffer.data(), box.size);
  }
  return status::ok;
}

// Compares or computes the checksum, unless the stripes' commits do. Nothing is committed after an
// error.
status client::check_striped(open_object &object, commit_terms &terms) {
  bool const verifies = (terms.flags & TND_POOL_VERIFY) != 0;
  bool const sums = terms.checksum_kind != 0 && (terms.has_checksum == 0 || verifies);
  // The stripes' checksums are joined. Those of fragments are of another kind, and local stripes
  // have none.
  bool const has_sums = !object.striped->has_fragments() && !object.striped->is_local;
  bool const is_joined = terms.has_checksum == 0 && !verifies && has_sums &&
                         checksum{checksum_kind(terms.checksum_kind)}.can_join();
  if (!sums || is_joined)
    return status::ok;
  checksum sum{checksum_kind(terms.checksum_kind)};
  TND_TRY(sum_striped(object, sum));
  if (terms.has_checksum != 0 && terms.checksum != sum.value())
    return fail(status::corrupt,
                "{}: the bytes have checksum {:016x} instead of {:016x}: write them again",
                object.name,
                sum.value(),
                terms.checksum);
  terms.checksum = sum.value();
  terms.has_checksum = 1;
  return status::ok;
}

// The stripes first: nobody sees them before the head's commit.
status client::commit_stripes(open_object &object, commit_terms &terms) {
  striped_object &striped = *object.striped;
  if (striped.has_fragments())
    return commit_fragments(striped, terms.flags & TND_POOL_DURABLE);
  if (striped.is_local)
    return commit_local_stripes(striped);
  bool const joins = terms.checksum_kind != 0 && terms.has_checksum == 0;
  commit_terms stripe_terms;
  stripe_terms.flags = terms.flags & TND_POOL_DURABLE;
  stripe_terms.checksum_kind = joins ? terms.checksum_kind : 0;
  std::vector<size_t> indices;
  for (size_t i = 0; i < striped.stripes.size(); i++)
    if (striped.stripes[i].object.is_writer)
      indices.push_back(i);
  TND_TRY(run_stripes(striped, indices, false, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    uint64_t version = 0;
    return stripe.link->commit(stripe.object, stripe_terms, version);
  }));
  if (!joins)
    return status::ok;
  checksum sum{checksum_kind(terms.checksum_kind)};
  for (size_t i = 0; i < striped.stripes.size(); i++)
    sum.join(striped.stripes[i].object.about.checksum, striped.manifest.size_of(i));
  terms.checksum = sum.value();
  terms.has_checksum = 1;
  return status::ok;
}

// Writes the manifest and commits the head: the moment at which the object is visible.
status client::commit_head(open_object &object, commit_terms terms, uint64_t &version) {
  if (object.striped->has_fragments())
    TND_TRY(check_fragments(*object.striped));
  stripe_manifest &manifest = object.striped->manifest;
  manifest.checksum_kind = terms.checksum_kind;
  manifest.checksum = terms.checksum_kind == 0 ? 0 : terms.checksum;
  std::vector<std::byte> bytes;
  wire::encode(manifest, bytes);
  TND_TRY(move_rows(object, {{0, bytes.size()}}, {{bytes.data(), bytes.size()}}, true));
  commit_terms head_terms;
  head_terms.flags = terms.flags & TND_POOL_DURABLE;
  info_reply answer;
  status const code = call(kind::commit, commit_request{object.handle, head_terms}, answer);
  if (ends_writing(code))
    object.is_writer = false;
  TND_TRY(with_url(code, object.name));
  object.about = answer.object_info;
  version = answer.object_info.version;
  return status::ok;
}

status client::check_terms(const commit_terms &terms) const {
  bool const is_possible = (terms.flags & TND_POOL_DURABLE) == 0 || channel_->terms().is_durable;
  return is_possible ? status::ok
                     : fail(status::not_supported,
                            "this pool is not durable: start the daemon with --backing file or "
                            "flash");
}

status client::commit_striped(open_object &object, commit_terms terms, uint64_t &version) {
  TND_TRY(check_terms(terms));
  TND_TRY(resize_stripes(*object.striped));
  TND_TRY(check_striped(object, terms));
  status const code = commit_stripes(object, terms);
  if (code == status::ok)
    return commit_head(object, terms, version);
  object.is_writer = object.is_writer && !ends_writing(code);
  return code;
}

// ---- whole objects

// Computes or compares the checksum of the caller's bytes.
status client::sum_source(const std::string &name,
                          const void *source,
                          uint64_t size,
                          commit_terms &terms) {
  bool const verifies = (terms.flags & TND_POOL_VERIFY) != 0;
  if (terms.checksum_kind == 0 || (terms.has_checksum != 0 && !verifies))
    return status::ok;
  uint64_t const sum = sum_of(terms.checksum_kind, source, size);
  if (terms.has_checksum != 0 && terms.checksum != sum)
    return fail(status::corrupt, "{}: the bytes do not have their checksum", name);
  terms.checksum = sum;
  terms.has_checksum = 1;
  return status::ok;
}

// With TND_POOL_VERIFY, the daemons compare the bytes of each stripe with its checksum.
status client::put_stripes(striped_object &striped,
                           const void *source,
                           uint64_t size,
                           const commit_terms &terms) {
  auto const placed = place_stripes(striped, size);
  if (!placed.ok())
    return placed.error();
  if (striped.has_fragments())
    return put_fragments(striped, source, size, terms);
  commit_terms stripe_terms;
  stripe_terms.flags = terms.flags & (TND_POOL_DURABLE | TND_POOL_VERIFY);
  // The log of a single server has them before the object.
  if (striped.is_local)
    stripe_terms.flags &= ~uint32_t(TND_POOL_DURABLE);
  bool const verifies = (terms.flags & TND_POOL_VERIFY) != 0;
  stripe_terms.checksum_kind = verifies ? TND_POOL_CHECKSUM_CRC32C : TND_POOL_CHECKSUM_NONE;
  return fill_stripes(striped, placed.value(), size, [&](size_t index) {
    return striped.stripes[index].link->put(
        stripe_name(striped.manifest.id, index),
        static_cast<const std::byte *>(source) + index * striped.manifest.stripe_size,
        striped.manifest.size_of(index),
        stripe_terms);
  });
}

status client::put_once(const std::string &name,
                        const void *source,
                        uint64_t size,
                        const commit_terms &terms,
                        open_object &created,
                        uint64_t &version) {
  TND_TRY(create_head(name, size, terms.flags & flags_of_heads, {}, created));
  TND_TRY(put_stripes(*created.striped, source, size, terms));
  return commit_head(created, terms, version);
}

// The object is not visible before the commit, so until then the put may begin again.
status client::put_striped(const std::string &name,
                           const void *source,
                           uint64_t size,
                           commit_terms terms,
                           uint64_t &version) {
  TND_TRY(check_terms(terms));
  if (size > object_size_max)
    return status::too_big;
  TND_TRY(sum_source(name, source, size, terms));
  for (int tries = 1;; tries++) {
    open_object created;
    status const code = put_once(name, source, size, terms, created, version);
    if (code == status::ok)
      traffic_.add({created.striped->stripes.front().link->path()}, size, true);
    bool const may_begin_again = created.striped != nullptr && created.is_writer &&
                                 is_lost_put(*created.striped, code) && tries < put_try_count_max;
    close(created);
    if (!may_begin_again)
      return code;
  }
}

// Whether a server was lost before the commit. For fragments, another server is taken instead, also
// of one that does not answer.
bool client::is_lost_put(const striped_object &striped, status code) {
  if (striped.is_local)
    return false;  // its only server was lost
  return code == status::peer_lost || code == status::stale ||
         (code == status::timed_out && striped.has_fragments());
}

status client::get_striped(
    const std::string &name, void *target, uint64_t capacity, info &about, bool verify) {
  open_object opened;
  TND_TRY(open(name, 0, opened));
  return get_opened(opened, target, capacity, about, verify);
}

// Reads the whole object, and closes it.
status client::get_opened(
    open_object &opened, void *target, uint64_t capacity, info &about, bool verify) {
  about = opened.about;
  status code = about.size <= capacity ? read(opened, row_box(0, about.size), {target, false})
                                       : size_error(opened.name, about.size, capacity);
  bool const sums = code == status::ok && verify;
  if (sums && sum_of(about.checksum_kind, target, about.size) != about.checksum)
    code = fail(status::corrupt, "{}: the bytes do not have their checksum", opened.name);
  close(opened);
  return code;
}

void client::close_stripes(open_object &object) {
  for (striped_object::stripe &stripe : object.striped->stripes)
    stripe.link->close(stripe.object);
}

}  // namespace tanada::pool
