// The simulated cluster's client that uses the library of programs. Its calls wait, and what else
// happens in the cluster happens meanwhile.
#include <algorithm>
#include <utility>

#include "sim/cluster_harness.hpp"

namespace tanada::test {

using namespace wire::pool;

namespace {

// Where servers are only lost or stopped, every call ends much earlier.
constexpr uint64_t reliable_timeout_ns = 60'000 * ms, timeout_ns = 5'000 * ms;
constexpr uint64_t poll_ns = 1'000 * ms;
constexpr uint32_t poll_count_max = 1'000;
constexpr size_t buffer_size = 200'000;  // more than any object has

tnd_pool_box box_of(uint64_t offset, uint64_t size) {
  return {offset, size, {1, 1}, {0, 0}, {0, 0}};
}

// One end of a library's connection. Whatever happens while it waits, happens in `step`.
class library_stream final : public seams::stream {
 public:
  library_stream(std::unique_ptr<seams::stream> inner,
                 std::shared_ptr<bool> is_severed,
                 seams::clock &clock,
                 std::function<bool()> step)
      : inner_{std::move(inner)},
        is_severed_{std::move(is_severed)},
        clock_{clock},
        step_{std::move(step)} {}
  result<size_t> receive(std::span<const iovec> parts) override {
    return inner_->receive(parts);
  }
  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    return inner_->send(parts, descriptor);
  }
  // The connection below does not wait.
  status wait(bool to_receive, bool to_send, uint64_t deadline_ns) override {
    for (;;) {
      if (*is_severed_ || inner_->wait(to_receive, to_send, 0) == status::ok)
        return status::ok;
      if (clock_.now_ns() >= deadline_ns || !step_())
        return status::timed_out;
    }
  }
  std::string peer() const override {
    return inner_->peer();
  }

 private:
  std::unique_ptr<seams::stream> inner_;
  std::shared_ptr<bool> const is_severed_;
  seams::clock &clock_;
  std::function<bool()> const step_;
};

}  // namespace

// While a call of the library waits.
bool cluster_run::step_in_call() {
  return is_settling_ ? pump() : step();
}

// The number of servers that are lost is below that of the copies, and nothing else happens.
bool cluster_run::is_reliable() const {
  return is_settling_ || setting_.weather == cluster_weather::fair ||
         setting_.weather == cluster_weather::crashes || setting_.weather == cluster_weather::stops;
}

result<std::unique_ptr<seams::stream>> cluster_run::dial_for_library(size_t to) {
  if (to >= server_count_)
    return status::peer_lost;
  auto const is_severed = std::make_shared<bool>(false);
  auto opened = dial_with(server_count_ + actors_.size(), to, [] { return false; }, is_severed);
  if (!opened.ok())
    return opened.error();
  return std::unique_ptr<seams::stream>{std::make_unique<library_stream>(
      std::move(opened).value(), is_severed, library_->clock, [this] { return step_in_call(); })};
}

bool cluster_run::connect_library() {
  if (library_->client != nullptr)
    return true;
  pool::client_settings settings;
  settings.timeout_ns = is_reliable() ? reliable_timeout_ns : timeout_ns;
  settings.clock = &library_->clock;
  settings.has_threads = false;
  settings.dial = [this](const pool::server_place &server, uint64_t) {
    return dial_for_library(std::stoul(server.host));
  };
  pool::address location{.host = "0", .space = space_of(0), .object = {}};
  for (size_t i = 1; i < server_count_; i++)
    location.others.push_back({std::to_string(i)});
  auto connected = pool::client::connect(location, std::move(settings));
  check_library("connect", connected.error(), {});
  if (!connected.ok())
    return false;
  library_->client = std::move(connected).value();
  bool const may_have_erasure =
      storage_ == cluster_storage::memory && server_count_ >= scheme_.width();
  if (may_have_erasure && world_.random.chance(50))
    library_->has_erasure = library_->client->set_erasure({space_of(0), scheme_}) == status::ok;
  return true;
}

// Where calls must succeed, other statuses than these are mistakes.
void cluster_run::check_library(const char *call,
                                status code,
                                std::initializer_list<status> allowed) {
  bool const is_allowed =
      code == status::ok || std::find(allowed.begin(), allowed.end(), code) != allowed.end();
  if (is_reliable() && !is_allowed)
    fail(std::string{"the library's "} + call + " returns " + std::to_string(int(code)) + ": " +
         last_message());
}

// In a mixed cluster, servers without a disk refuse durable changes.
uint32_t cluster_run::library_durable_flag() {
  return storage_ == cluster_storage::disks ? durable_flag() : 0;
}

value_id cluster_run::new_library_value() {
  return world_.random.chance(40) ? next_large_value_++ : next_value_++;
}

void cluster_run::use_library() {
  if (library_ == nullptr || !world_.random.chance(20) || !connect_library())
    return;
  bool const may_change = unknown_count_ < cluster_unknown_max;
  switch (may_change ? world_.random.below(12) : world_.random.between(6, 11)) {
    case 0:
    case 1:
      return library_put();
    case 2:
      return library_remove();
    case 3:
    case 4:
      return library_write();
    case 5:
      return library_set();
    case 6:
      return library_list();
    case 7:
    case 8:
      return library_post();
    case 9:
      return library_get();
    default:
      return library_->open ? library_read() : library_open();
  }
}

void cluster_run::end_library_get(history::operation_id id,
                                  status code,
                                  std::span<const std::byte> bytes) {
  if (code == status::ok)
    history_.end_get(id, world_.now_ns(), observation::value(value_of(bytes)));
  else if (code == status::no_entry)
    history_.end_get(id, world_.now_ns(), observation::absent());
  else
    history_.end_unknown(id, world_.now_ns());
}

// again, stale: it had no effect.
void cluster_run::end_library_change(history::operation_id id, status code, failure_cause cause) {
  if (code == status::again || code == status::stale)
    history_.end_failed(id, world_.now_ns(), failure_cause::unspecified);
  else
    end_change(id, code, cause);
}

void cluster_run::library_put() {
  std::string const name = random_name(), full = space_of(0) + "/" + name;
  value_id const value = new_library_value();
  auto const bytes = contents(value);
  bool const is_exclusive = world_.random.chance(20);
  auto const start = now_of(actors_.size());
  auto const id =
      is_exclusive ? history_.put_exclusive(start, full, value) : history_.put(start, full, value);
  commit_terms terms;
  terms.flags = (is_exclusive ? poold::flag_exclusive : 0) | library_durable_flag();
  terms.checksum_kind = uint32_t(world_.random.below(3));
  status const code = library_->client->put(name, bytes.data(), bytes.size(), terms);
  end_library_change(id, code, failure_cause::unspecified);
  // An erasure code needs all of its servers.
  status const may_lack = library_->has_erasure ? status::again : status::exists;
  check_library("put", code, {status::exists, status::peer_lost, may_lack});
}

void cluster_run::library_get() {
  if (!connect_library())
    return;
  std::string const name = random_name();
  auto const id = history_.get(now_of(actors_.size()), space_of(0) + "/" + name);
  std::vector<std::byte> bytes(buffer_size);
  info about;
  status const code =
      library_->client->get(name, bytes.data(), bytes.size(), about, world_.random.chance(50));
  bytes.resize(code == status::ok ? about.size : 0);
  end_library_get(id, code, bytes);
  check_library("get", code, {status::no_entry});
}

void cluster_run::library_list() {
  std::string const space = space_of(0) + "/";
  std::vector<std::string> names;
  for (size_t i = 0; i < cluster_name_count; i++)
    names.push_back(space + std::to_string(i));
  auto const id = history_.list(now_of(actors_.size()), names);
  list_reply listing;
  status const code = library_->client->list_some({}, listing);
  check_library("list", code, {});
  if (code != status::ok)
    return history_.end_unknown(id, world_.now_ns());
  std::vector<name_observation> observed;
  for (const list_entry &entry : listing.entries)
    observed.emplace_back(space + entry.name, observation::present());
  history_.end_list(id, world_.now_ns(), observed);
}

void cluster_run::library_remove() {
  std::string const name = random_name();
  auto const id = history_.remove(now_of(actors_.size()), space_of(0) + "/" + name);
  status const code = library_->client->remove(name, library_durable_flag());
  end_library_change(id, code, failure_cause::not_found);
  check_library("remove", code, {status::no_entry, status::peer_lost});
}

// An object that is created, written in parts and committed, and may grow meanwhile.
void cluster_run::library_write() {
  pool::client &client = *library_->client;
  std::string const name = random_name();
  value_id const value = new_library_value();
  auto bytes = contents(value);
  auto const id = history_.put(now_of(actors_.size()), space_of(0) + "/" + name, value);
  pool::open_object object;
  status code =
      client.create(name,
                    world_.random.chance(50) ? bytes.size() : world_.random.below(bytes.size()),
                    0,
                    {},
                    object);
  uint64_t const part_size = 1 + bytes.size() / world_.random.between(1, 5);
  for (uint64_t offset = 0; code == status::ok && offset < bytes.size(); offset += part_size)
    code = client.write(object,
                        box_of(offset, std::min<uint64_t>(part_size, bytes.size() - offset)),
                        {bytes.data() + offset, false});
  bool const is_written = code == status::ok;
  uint64_t version = 0;
  commit_terms terms;
  terms.flags = library_durable_flag();
  terms.checksum_kind = uint32_t(world_.random.below(3));
  if (is_written)
    code = client.commit(object, terms, version);
  client.close(object);
  if (is_written)
    end_library_change(id, code, failure_cause::unspecified);
  else
    history_.end_failed(id, world_.now_ns(), failure_cause::unspecified);
  status const may_lack = library_->has_erasure ? status::again : status::stale;
  check_library("write", code, {status::stale, status::peer_lost, may_lack});
}

// Two objects that become visible at the same time.
void cluster_run::library_set() {
  pool::client &client = *library_->client;
  std::vector<name_value> values;
  std::string const names[] = {"0",
                               std::to_string(1 + world_.random.below(cluster_name_count - 1))};
  for (const std::string &name : names)
    values.emplace_back(space_of(0) + "/" + name, new_library_value());
  std::string const set_name = "set" + std::to_string(values[0].second);
  auto const id = history_.commit(now_of(actors_.size()), values);
  status code = status::ok;
  for (size_t i = 0; i < values.size() && code == status::ok; i++) {
    auto bytes = contents(values[i].second);
    pool::open_object object;
    uint64_t version = 0;
    code = client.create(names[i], bytes.size(), 0, set_name, object);
    if (code == status::ok)
      code = client.write(object, box_of(0, bytes.size()), {bytes.data(), false});
    if (code == status::ok)
      code = client.commit(object, {}, version);
    client.close(object);
  }
  // Another writer's object is still missing. That does not end the set.
  uint64_t const epoch = client.connection_count();
  if (code == status::ok && world_.random.chance(50))
    check_library("set_commit", client.set_commit(set_name, 3, 0), {status::again});
  bool const is_prepared = code == status::ok;
  if (is_prepared)
    code = client.set_commit(set_name, 2, library_durable_flag());
  // It was dropped with the connection that its writers had.
  bool const is_dropped = client.connection_count() != epoch;
  if (is_prepared)
    end_library_change(id, code, failure_cause::unspecified);
  else
    history_.end_failed(id, world_.now_ns(), failure_cause::unspecified);
  bool const may_lack = is_dropped || library_->has_erasure;
  check_library(
      "set", code, {status::stale, status::peer_lost, may_lack ? status::again : status::stale});
}

// A put and some gets, posted at the same time.
void cluster_run::library_post() {
  struct posted {
    history::operation_id id{};
    std::string name;
    std::vector<std::byte> bytes;
    bool is_put = false;
  };
  pool::client &client = *library_->client;
  std::vector<posted> requests(1 + world_.random.below(4));
  bool const has_put = unknown_count_ < cluster_unknown_max && world_.random.chance(50);
  size_t posted_count = 0;
  for (posted &request : requests) {
    request.is_put = has_put && posted_count == 0;
    request.name = random_name();
    std::string const full = space_of(0) + "/" + request.name;
    value_id const value = request.is_put ? new_library_value() : 0;
    request.bytes = request.is_put ? contents(value) : std::vector<std::byte>(buffer_size);
    request.id = request.is_put ? history_.put(now_of(actors_.size()), full, value)
                                : history_.get(now_of(actors_.size()), full);
    tnd_pool_request message{};
    message.struct_size = sizeof message;
    message.kind = request.is_put ? TND_POOL_REQUEST_PUT : TND_POOL_REQUEST_GET;
    message.flags = request.is_put ? library_durable_flag() : 0;
    message.name = request.name.c_str();
    message.memory = request.bytes.data();
    message.size = request.bytes.size();
    message.context = posted_count;
    status const code = client.post(message, nullptr);
    check_library("post", code, {});
    if (code == status::ok) {
      posted_count++;
      continue;
    }
    if (request.is_put)
      history_.end_failed(request.id, world_.now_ns(), failure_cause::unspecified);
    else
      history_.end_unknown(request.id, world_.now_ns());
    break;
  }
  uint32_t poll_count = 0;
  for (size_t done = 0; done < posted_count && failure_.empty();) {
    tnd_pool_completion completion{};
    uint32_t count = 0;
    client.poll({&completion, 1}, poll_ns, count);
    if (count == 0 && ++poll_count > poll_count_max)
      return fail("a posted request does not complete");
    if (count == 0)
      continue;
    posted &request = requests[done++];
    status const code = status(completion.status);
    bool const has_bytes = code == status::ok && !request.is_put;
    if (request.is_put)
      end_library_change(request.id, code, failure_cause::unspecified);
    else
      end_library_get(
          request.id, code, std::span{request.bytes}.first(has_bytes ? completion.size : 0));
    if (request.is_put)
      check_library("posted put", code, {status::peer_lost, status::stale, status::again});
    else
      check_library("posted get", code, {status::no_entry});
  }
}

void cluster_run::library_open() {
  library::reader reader;
  reader.name = random_name();
  reader.id = history_.get(now_of(actors_.size()), space_of(0) + "/" + reader.name);
  reader.object = std::make_shared<pool::open_object>();
  status const code = library_->client->open(reader.name, 0, *reader.object);
  check_library("open", code, {status::no_entry});
  if (code != status::ok)
    return end_library_get(reader.id, code, {});
  reader.bytes.resize(reader.object->about.size);
  library_->open = std::move(reader);
}

// A part of the object that is open. stale: it was removed or replaced, and a server was lost.
void cluster_run::library_read() {
  pool::client &client = *library_->client;
  library::reader &reader = *library_->open;
  uint64_t const rest_size = reader.bytes.size() - reader.read_size;
  uint64_t size = world_.random.chance(50) ? rest_size : world_.random.below(rest_size + 1);
  std::byte *const target = reader.bytes.data() + reader.read_size;
  status code = status::ok;
  if (world_.random.chance(30)) {
    tnd_pool_request message{};
    message.struct_size = sizeof message;
    message.kind = TND_POOL_REQUEST_READ;
    message.offset = reader.read_size;
    message.memory = target;
    message.size = size;
    code = client.post(message, reader.object);
    tnd_pool_completion completion{};
    uint32_t count = 0;
    for (uint32_t i = 0; code == status::ok && count == 0 && i < poll_count_max; i++)
      client.poll({&completion, 1}, poll_ns, count);
    if (count == 1)
      code = status(completion.status);
    if (code == status::ok && completion.size != size)
      fail("a posted read is short");
  } else {
    code = client.read(*reader.object, box_of(reader.read_size, size), {target, false});
  }
  check_library("read", code, {status::stale});
  info about;
  if (code == status::stale &&
      client.stat(reader.name, reader.object->about.version, about) == status::ok)
    check_library("read of an object that exists", code, {});
  if (code == status::ok)
    reader.read_size += size;
  if (code == status::ok && reader.read_size < reader.bytes.size())
    return;
  end_library_get(reader.id, code == status::no_entry ? status::stale : code, reader.bytes);
  client.close(*reader.object);
  library_->open.reset();
}

}  // namespace tanada::test
