// The simulated cluster's clients: their operations, and those of striped objects.
#include <algorithm>
#include <cstring>

#include "sim/cluster_harness.hpp"

namespace tanada::test {

using namespace wire::pool;

namespace {

constexpr size_t stamp_size = 16;  // of contents: value and size
constexpr uint64_t stripe_size_min = 64;
// The library stripes objects from some size on. All clients have memory for the largest ones.
constexpr size_t large_size_min = 70'000, large_size_max = 180'000;

}  // namespace

std::string cluster_run::space_of(size_t index) {
  return "n" + std::to_string(index % cluster_namespace_count);
}

std::string cluster_run::random_name() {
  return std::to_string(world_.random.below(cluster_name_count));
}

std::vector<std::byte> cluster_run::contents(value_id value) {
  sim::prng random{value * 31 + 7};
  size_t const size = value >= large_value_base
                          ? large_size_min + random.below(large_size_max - large_size_min)
                          : stamp_size + random.below(random.chance(10) ? 100'000 : 500);
  std::vector<std::byte> bytes(size);
  for (size_t i = stamp_size; i < size; i++)
    bytes[i] = std::byte(random.next());
  uint64_t const stamp[2] = {value, size};
  std::memcpy(bytes.data(), stamp, sizeof stamp);
  return bytes;
}

// The value whose contents these bytes are, whole; otherwise the run fails.
value_id cluster_run::value_of(std::span<const std::byte> bytes) {
  uint64_t stamp[2] = {0, 0};
  if (bytes.size() >= sizeof stamp)
    std::memcpy(stamp, bytes.data(), sizeof stamp);
  value_id const end = stamp[0] < large_value_base ? next_value_ : next_large_value_;
  bool const is_known = stamp[0] > 0 && stamp[0] < end && stamp[1] == bytes.size();
  if (!is_known || !std::ranges::equal(contents(stamp[0]), bytes))
    fail("an object has bytes that nobody put");
  return stamp[0];
}

// An actor is a client of one namespace, that of its number. It looks for the primary at any
// server.
bool cluster_run::connect(size_t index) {
  actor &client = actors_[index];
  if (client.channel != nullptr && !client.channel->is_broken())
    return true;
  if (client.outstanding > 0 || world_.now_ns() < client.retry_ns)
    return false;
  client.channel.reset();
  client.retry_ns = world_.now_ns() + world_.random.below(50 * ms);
  client.reads_backup =
      world_.random.chance(setting_.weather == cluster_weather::exiles && index != 0 ? 60 : 30);
  client.channel = try_connect(index, space_of(index), client.reads_backup);
  client.epoch++;
  return client.channel != nullptr;
}

// Tries a random server.
std::unique_ptr<pool::channel> cluster_run::try_connect(size_t index,
                                                        const std::string &space,
                                                        bool reads_backup) {
  auto connection = dial(server_count_ + index, world_.random.below(server_count_));
  if (!connection.ok())
    return nullptr;
  auto opened =
      pool::channel::open(std::move(connection).value(),
                          space,
                          nullptr,
                          seams::deadline_after(seams::monotonic_clock().now_ns(), 60'000'000'000),
                          reads_backup);
  return opened.ok() ? std::move(opened).value() : nullptr;
}

void cluster_run::act(size_t index) {
  actor &client = actors_[index];
  if (client.channel != nullptr) {
    (void)client.channel->progress(0);
    // A client does not wait for ever.
    uint64_t const patience = client.striped == nullptr ? 400 : 1'200;
    if (client.outstanding > 0 && world_.random.below(patience) == 0)
      client.channel->end(status::timed_out);
  }
  for (auto &[partition, link] : client.links)
    if (link.channel != nullptr)
      (void)link.channel->progress(0);
  advance_striped(index);
  if (!connect(index) || client.outstanding >= cluster_outstanding_max)
    return;
  uint64_t const choice =
      unknown_count_ < cluster_unknown_max ? world_.random.below(10) : world_.random.between(5, 9);
  // Another server may be the better one.
  if (client.reads_backup && world_.random.chance(2))
    return client.channel->end(status::canceled);
  if (client.reads_backup)
    return choice < 2 ? list(index) : get(index);
  switch (choice) {
    case 0:
    case 1:
    case 2:
      if (client.striped == nullptr && world_.random.chance(50))
        return put_striped(index);
      return put(index, world_.random.chance(20));
    case 3:
      return remove(index);
    case 4:
      return rename(index);
    case 5:
      return list(index);
    default:
      return get(index);
  }
}

// Of a change that a client is about to make.
uint32_t cluster_run::durable_flag() {
  bool const is_durable = storage_ == cluster_storage::disks ||
                          (storage_ == cluster_storage::mixed && world_.random.chance(30));
  return is_durable ? poold::flag_durable : 0;
}

void cluster_run::end_change(history::operation_id id, status code, failure_cause cause) {
  uint64_t const now_ns = world_.now_ns();
  if (code == status::ok)
    history_.end_ok(id, now_ns);
  else if (code == status::exists)
    history_.end_failed(id, now_ns, failure_cause::exists);
  else if (code == status::no_entry)
    history_.end_failed(id, now_ns, cause);
  else if (code == status::not_supported ||
           (code == status::no_space && storage_ == cluster_storage::memory))
    history_.end_failed(id, now_ns, failure_cause::unspecified);
  else {
    history_.end_unknown(id, now_ns);
    unknown_count_++;
  }
}

void cluster_run::put(size_t index, bool is_exclusive) {
  actor &client = actors_[index];
  std::string const name = random_name();
  std::string const full = space_of(index) + "/" + name;
  value_id const value = next_value_++;
  auto const bytes = std::make_shared<std::vector<std::byte>>(contents(value));
  auto const id = is_exclusive ? history_.put_exclusive(now_of(index), full, value)
                               : history_.put(now_of(index), full, value);
  put_request request;
  request.name = name;
  request.terms.flags = (is_exclusive ? poold::flag_exclusive : 0) | durable_flag();
  client.outstanding++;
  client.channel->post(kind::put,
                       request,
                       {{bytes->data(), bytes->size()}},
                       {},
                       [this, index, id, bytes](const pool::reply &received) {
                         actors_[index].outstanding--;
                         end_change(id, received.code, failure_cause::unspecified);
                       });
}

void cluster_run::get(size_t index) {
  actor &client = actors_[index];
  std::string const name = random_name();
  auto const id = history_.get(now_of(index), space_of(index) + "/" + name);
  auto const bytes = std::make_shared<std::vector<std::byte>>(200'000);
  get_request request;
  request.name = name;
  request.capacity = bytes->size();
  client.outstanding++;
  client.channel->post(kind::get,
                       request,
                       {},
                       {{bytes->data(), bytes->size()}},
                       [this, index, id, bytes, name](const pool::reply &received) {
                         actors_[index].outstanding--;
                         count_read(index, received.code);
                         info_reply info;
                         bool const is_striped = received.code == status::ok &&
                                                 wire::decode(received.body, info) == status::ok &&
                                                 (info.object_info.flags & flag_striped) != 0;
                         if (is_striped)
                           get_striped(index, id, name);
                         else if (received.code == status::ok)
                           history_.end_get(
                               id,
                               world_.now_ns(),
                               observation::value(value_of({bytes->data(), received.data_size})));
                         else if (received.code == status::no_entry)
                           history_.end_get(id, world_.now_ns(), observation::absent());
                         else
                           end_failed_get(id, received.code);
                       });
}

void cluster_run::end_failed_get(history::operation_id id, status code) {
  if (code == status::io && !may_read_errors_)
    fail("a get returned EIO, although no disk failed");
  history_.end_unknown(id, world_.now_ns());
}

void cluster_run::remove(size_t index) {
  actor &client = actors_[index];
  std::string const name = random_name();
  auto const id = history_.remove(now_of(index), space_of(index) + "/" + name);
  flags_request request;
  request.name = name;
  request.flags = durable_flag();
  client.outstanding++;
  client.channel->post(
      kind::remove, request, {}, {}, [this, index, id](const pool::reply &received) {
        actors_[index].outstanding--;
        end_change(id, received.code, failure_cause::not_found);
      });
}

void cluster_run::rename(size_t index) {
  actor &client = actors_[index];
  std::string const space = space_of(index) + "/";
  rename_request request;
  request.name = random_name();
  do
    request.new_name = random_name();
  while (request.new_name == request.name);
  request.flags = durable_flag();
  auto const id = history_.rename(now_of(index), space + request.name, space + request.new_name);
  client.outstanding++;
  client.channel->post(
      kind::rename, request, {}, {}, [this, index, id](const pool::reply &received) {
        actors_[index].outstanding--;
        end_change(id, received.code, failure_cause::not_found);
      });
}

void cluster_run::list(size_t index) {
  actor &client = actors_[index];
  std::string const space = space_of(index) + "/";
  std::vector<std::string> names;
  for (size_t i = 0; i < cluster_name_count; i++)
    names.push_back(space + std::to_string(i));
  auto const id = history_.list(now_of(index), names);
  client.outstanding++;
  client.channel->post(
      kind::list, list_request{}, {}, {}, [this, index, id, space](const pool::reply &received) {
        actors_[index].outstanding--;
        count_read(index, received.code);
        list_reply listing;
        bool const is_good =
            received.code == status::ok && wire::decode(received.body, listing) == status::ok;
        if (!is_good)
          return history_.end_unknown(id, world_.now_ns());
        std::vector<name_observation> observed;
        for (const list_entry &entry : listing.entries)
          observed.emplace_back(space + entry.name, observation::present());
        history_.end_list(id, world_.now_ns(), observed);
      });
}

// All connections end, with what they have open.
void cluster_run::drop_clients() {
  for (size_t i = 0; i < actors_.size(); i++) {
    actor &client = actors_[i];
    if (client.channel != nullptr)
      client.channel->end(status::canceled);
    for (auto &[partition, link] : client.links)
      if (link.channel != nullptr)
        link.channel->end(status::canceled);
    if (client.striped != nullptr)
      end_striped(i);
    client.channel.reset();
    client.links.clear();
  }
  if (library_ != nullptr) {
    library_->open.reset();
    library_->client.reset();
  }
}

// ---- striped objects

// Null: no server has let the client in. It tries again later.
pool::channel *cluster_run::link_of(size_t index, uint32_t partition) {
  link &entry = actors_[index].links[partition];
  if (entry.channel != nullptr && !entry.channel->is_broken())
    return entry.channel.get();
  if (world_.now_ns() < entry.retry_ns)
    return nullptr;
  entry.channel.reset();
  entry.retry_ns = world_.now_ns() + world_.random.below(50 * ms);
  auto opened = try_connect(index, stripe_space_name(space_of(index), partition), false);
  entry.channel = std::move(opened);
  return entry.channel.get();
}

void cluster_run::put_striped(size_t index) {
  actor &client = actors_[index];
  auto const operation = std::make_shared<striped_operation>();
  operation->name = random_name();
  operation->is_put = true;
  operation->epoch = client.epoch;
  value_id const value = next_value_++;
  operation->bytes = contents(value);
  std::string const full = space_of(index) + "/" + operation->name;
  operation->is_exclusive = world_.random.chance(20);
  operation->id = operation->is_exclusive ? history_.put_exclusive(now_of(index), full, value)
                                          : history_.put(now_of(index), full, value);
  stripe_manifest &manifest = operation->manifest;
  manifest.size = operation->bytes.size();
  manifest.stripe_size = std::max(stripe_size_min, manifest.size / 6);
  bool const has_fragments = storage_ == cluster_storage::memory &&
                             server_count_ >= scheme_.width() && world_.random.chance(50);
  if (has_fragments)
    cut_fragments(*operation);
  for (uint64_t offset = 0; offset < manifest.size && !has_fragments;
       offset += manifest.stripe_size)
    manifest.partitions.push_back(uint8_t(
        cluster_stripe_partitions[world_.random.below(std::size(cluster_stripe_partitions))]));
  client.striped = operation;
  client.outstanding++;
  operation->outstanding++;
  create_striped_request request;
  request.name = operation->name;
  request.size = manifest.size;
  request.flags = operation->is_exclusive ? poold::flag_exclusive : 0;
  client.channel->post(
      kind::create_striped, request, {}, {}, [this, index, operation](const pool::reply &received) {
        actors_[index].outstanding--;
        operation->outstanding--;
        begin_stripes(index, operation, received);
      });
}

void cluster_run::begin_stripes(size_t index,
                                const striped_ptr &operation,
                                const pool::reply &received) {
  create_striped_reply answer;
  bool const is_created =
      received.code == status::ok && wire::decode(received.body, answer) == status::ok;
  if (!is_created) {
    operation->has_failed = true;
    // The name is in use now, which is a possible end of the operation.
    if (received.code == status::exists) {
      operation->has_ended = true;
      end_change(operation->id, status::exists, failure_cause::unspecified);
    }
    return;
  }
  operation->handle = answer.handle;
  operation->manifest.id = answer.id;
  operation->may_move = true;
  if (setting_.mistake == cluster_mistake::early_head)
    commit_head(index, operation);
}

// Writes the manifest, and commits it.
void cluster_run::commit_head(size_t index, const striped_ptr &operation) {
  actor &client = actors_[index];
  operation->is_committed = true;
  operation->outstanding++;
  client.outstanding++;
  auto const bytes = std::make_shared<std::vector<std::byte>>();
  wire::encode(operation->manifest, *bytes);
  client.channel->post(kind::write,
                       ranges_request{operation->handle, {{0, bytes->size()}}},
                       {{bytes->data(), bytes->size()}},
                       {},
                       [bytes](const pool::reply &) {});
  client.channel->post(kind::commit,
                       commit_request{operation->handle, {.flags = durable_flag()}},
                       {},
                       {},
                       [this, index, operation](const pool::reply &received) {
                         actors_[index].outstanding--;
                         operation->outstanding--;
                         operation->has_ended = true;
                         if (received.code == status::ok)
                           committed_.insert(operation->manifest.id);
                         end_change(operation->id, received.code, failure_cause::unspecified);
                       });
}

// A get has found a striped object. The name may have another object by now.
void cluster_run::get_striped(size_t index, history::operation_id id, const std::string &name) {
  actor &client = actors_[index];
  if (client.striped != nullptr)
    return history_.end_unknown(id, world_.now_ns());
  auto const operation = std::make_shared<striped_operation>();
  operation->id = id;
  operation->name = name;
  operation->epoch = client.epoch;
  client.striped = operation;
  client.outstanding++;
  operation->outstanding++;
  open_request request;
  request.name = name;
  client.channel->post(
      kind::open, request, {}, {}, [this, index, operation](const pool::reply &received) {
        actors_[index].outstanding--;
        operation->outstanding--;
        object_reply answer;
        bool const is_open =
            received.code == status::ok && wire::decode(received.body, answer) == status::ok;
        operation->handle = is_open ? answer.handle : 0;
        if (received.code == status::no_entry) {
          operation->has_ended = true;
          history_.end_get(operation->id, world_.now_ns(), observation::absent());
        }
        if (!is_open)
          operation->has_failed = true;
        else if ((answer.object_info.flags & flag_striped) != 0)
          read_manifest(index, operation);
        else
          read_whole(index, operation, answer.object_info.size);
      });
}

void cluster_run::read_manifest(size_t index, const striped_ptr &operation) {
  auto const bytes = std::make_shared<std::vector<std::byte>>(1'000);
  actors_[index].outstanding++;
  operation->outstanding++;
  actors_[index].channel->post(
      kind::read,
      ranges_request{operation->handle, {{0, bytes->size()}}},
      {},
      {{bytes->data(), bytes->size()}},
      [this, index, operation, bytes](const pool::reply &received) {
        actors_[index].outstanding--;
        operation->outstanding--;
        bool const is_read = received.code == status::ok;
        stripe_manifest &manifest = operation->manifest;
        if (is_read &&
            (wire::decode(std::span{*bytes}.first(received.data_size), manifest) != status::ok ||
             !is_valid(manifest)))
          fail("a striped object has no manifest");
        operation->has_failed |= !is_read;
        operation->may_move = is_read;
        operation->bytes.resize(manifest.size);
        if (is_read && manifest.erasure.is_on())
          open_fragments(*operation);
      });
}

void cluster_run::read_whole(size_t index, const striped_ptr &operation, uint64_t size) {
  operation->bytes.resize(size);
  actors_[index].outstanding++;
  operation->outstanding++;
  actors_[index].channel->post(kind::read,
                               ranges_request{operation->handle, {{0, size}}},
                               {},
                               {{operation->bytes.data(), size}},
                               [this, index, operation](const pool::reply &received) {
                                 actors_[index].outstanding--;
                                 operation->outstanding--;
                                 if (received.code != status::ok) {
                                   operation->has_failed = true;
                                   return;
                                 }
                                 operation->has_ended = true;
                                 history_.end_get(operation->id,
                                                  world_.now_ns(),
                                                  observation::value(value_of(operation->bytes)));
                               });
}

// Moves the next stripes, and ends the operation after the last one.
void cluster_run::advance_striped(size_t index) {
  actor &client = actors_[index];
  striped_ptr const operation = client.striped;
  if (operation == nullptr)
    return;
  bool const is_connected =
      client.channel != nullptr && !client.channel->is_broken() && client.epoch == operation->epoch;
  if (!is_connected || world_.random.below(1'000) == 0)
    operation->has_failed = true;
  if (operation->manifest.erasure.is_on())
    return advance_fragments(index, operation);
  size_t const count = operation->manifest.partitions.size();
  bool const is_moving = operation->may_move && !operation->has_failed;
  if (is_moving && operation->next < count && operation->outstanding < cluster_outstanding_max) {
    pool::channel *const link = link_of(index, operation->manifest.partitions[operation->next]);
    // Connecting takes time.
    if (link != nullptr && client.striped == operation && operation->next < count)
      move_stripe(index, operation, *link);
    return;
  }
  bool const is_complete = is_moving && operation->next == count && operation->outstanding == 0;
  if (is_complete && operation->is_put && !operation->is_committed)
    return commit_head(index, operation);
  if (is_complete && !operation->is_put && !operation->has_ended) {
    operation->has_ended = true;
    history_.end_get(
        operation->id, world_.now_ns(), observation::value(value_of(operation->bytes)));
  }
  bool const is_over = operation->has_failed || operation->has_ended;
  if (is_over && operation->outstanding == 0)
    end_striped(index);
}

void cluster_run::move_stripe(size_t index, const striped_ptr &operation, pool::channel &link) {
  size_t const i = operation->next++;
  const stripe_manifest &manifest = operation->manifest;
  iovec const part{operation->bytes.data() + i * manifest.stripe_size, manifest.size_of(i)};
  operation->outstanding++;
  auto const on_reply = [this, index, operation](const pool::reply &received) {
    operation->outstanding--;
    finish_stripe(index, operation, received);
  };
  if (operation->is_put) {
    put_request request;
    request.name = stripe_name(manifest.id, i);
    request.terms.flags = durable_flag();
    link.post(kind::put, request, {part}, {}, on_reply);
    return;
  }
  get_request request;
  request.name = stripe_name(manifest.id, i);
  request.capacity = part.iov_len;
  link.post(kind::get, request, {}, {part}, on_reply);
}

void cluster_run::finish_stripe(size_t index,
                                const striped_ptr &operation,
                                const pool::reply &received) {
  if (received.code == status::ok)
    return;
  // A read is repeated after a loss. A put is not, because it may have happened.
  bool const is_gone = received.code == status::no_entry;
  if (is_gone && !operation->is_put)
    prove_open(index, operation);
  operation->has_failed = true;
}

// A stripe is not there. That is a mistake if the object is still open, on the same connection.
void cluster_run::prove_open(size_t index, const striped_ptr &operation) {
  actor &client = actors_[index];
  if (client.channel == nullptr || client.epoch != operation->epoch)
    return;
  operation->outstanding++;
  client.channel->post(kind::read,
                       ranges_request{operation->handle, {{0, 0}}},
                       {},
                       {},
                       [this, operation](const pool::reply &received) {
                         operation->outstanding--;
                         if (received.code == status::ok)
                           fail("an object that is open has lost a stripe");
                       });
}

void cluster_run::end_striped(size_t index) {
  actor &client = actors_[index];
  striped_ptr const operation = std::exchange(client.striped, nullptr);
  if (!operation->has_ended && operation->is_put)
    history_.end_failed(operation->id, world_.now_ns(), failure_cause::unspecified);
  else if (!operation->has_ended)
    history_.end_unknown(operation->id, world_.now_ns());
  operation->has_ended = true;
  bool const is_connected =
      client.channel != nullptr && !client.channel->is_broken() && client.epoch == operation->epoch;
  if (is_connected && operation->handle != 0)
    client.channel->post(kind::close, handle_request{operation->handle}, {}, {}, {});
}

}  // namespace tanada::test
