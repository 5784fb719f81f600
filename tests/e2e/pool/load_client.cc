// A client of a real cluster that does random calls.
#include "load_client.hpp"

#include <algorithm>

#include "seams/clock/clock.hpp"

namespace tanada::test {

namespace {

constexpr size_t buffer_size = 4 << 20;
constexpr uint64_t retry_ns = 50'000'000;

std::string space_of(int space) {
  return "load" + std::to_string(space);
}

}  // namespace

std::string load_client::place::full() const {
  return space_of(space) + "/" + name;
}

load_client::load_client(load_record &record, const load_options &options, uint32_t index)
    : record_{record},
      options_{options},
      index_{index},
      random_{options.seed * 1000 + index},
      buffer_(buffer_size) {}

load_client::~load_client() {
  for (tnd_pool *const pool : pools_)
    tnd_pool_disconnect(pool);
}

// Null: no server has let the client in. It tries again later.
tnd_pool *load_client::pool_of(int space) {
  tnd_pool *&pool = pools_[size_t(space)];
  if (pool != nullptr)
    return pool;
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.timeout_ns = options_.timeout_ns;
  config.key_file = options_.key_file.empty() ? nullptr : options_.key_file.c_str();
  tnd_status const code =
      tnd_pool_connect((options_.url + space_of(space)).c_str(), &config, &pool);
  bool const is_documented =
      code == TND_OK || code == -TND_EPEER || code == -ETIMEDOUT || code == -EAGAIN;
  if (!is_documented)
    record_.report_problem(std::string{"connect: "} + tnd_status_name(code) + ": " +
                           tnd_last_message());
  if (code != TND_OK)
    pool = nullptr;
  return pool;
}

load_client::place load_client::random_place(const char *prefix, int count) {
  return {int(random_.below(space_count)), prefix + std::to_string(random_.below(uint64_t(count)))};
}

uint32_t load_client::durable_flag() {
  return options_.is_durable && random_.chance(25) ? TND_POOL_DURABLE : 0;
}

void load_client::act() {
  if (is_writer() && !random_.chance(20))
    change();
  else
    read();
}

void load_client::change() {
  uint64_t const choice = random_.below(20);
  if (choice < 7)
    put(random_place("plain", load_names::plain_count), false);
  else if (choice < 10)
    put_by_handle(random_place("plain", load_names::plain_count), false);
  else if (choice < 12)
    remove(random_place("plain", load_names::plain_count));
  else if (choice < 14)
    put(random_place("moved", load_names::moved_count), false);
  else if (choice < 16)
    rename();
  else if (choice < 17)
    put(random_place("large", load_names::large_count), true);
  else if (choice < 18)
    put_by_handle(random_place("large", load_names::large_count), true);
  else
    commit_set();
}

void load_client::read() {
  uint64_t const choice = random_.below(20);
  auto const names = load_names::all();
  place const target{int(random_.below(space_count)), names[random_.below(names.size())]};
  tnd_status code = TND_OK;
  if (choice < 14)
    (void)get(target, code);
  else if (choice < 18)
    stat(target);
  else
    list();
}

void load_client::put(const place &target, bool is_large) {
  tnd_pool *const pool = pool_of(target.space);
  if (pool == nullptr)
    return;
  bool const is_exclusive = random_.chance(15);
  value_id const value = record_.next_value(is_large);
  load_call const call{is_exclusive ? operation_kind::put_exclusive : operation_kind::put,
                       {target.full()},
                       {value},
                       is_large};
  std::vector<char> const bytes = load_contents(value);
  tnd_pool_commit_options summed = TND_POOL_COMMIT_OPTIONS_INIT;
  summed.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
  uint32_t const flags = durable_flag() | (is_exclusive ? TND_POOL_EXCLUSIVE : 0);
  auto const begun = record_.begin(index_, call);
  tnd_status const code = tnd_pool_put(pool,
                                       target.name.c_str(),
                                       bytes.data(),
                                       bytes.size(),
                                       flags,
                                       random_.chance(50) ? &summed : nullptr);
  record_.end(index_, begun, call, {code});
}

tnd_status load_client::write_and_commit(tnd_pool_object *object,
                                         const std::vector<char> &bytes,
                                         uint32_t flags,
                                         uint64_t *version) {
  size_t const half = bytes.size() / 2;
  tnd_status code = tnd_pool_write(object, 0, bytes.data(), half, TND_POOL_MEMORY_HOST);
  if (code == TND_OK)
    code = tnd_pool_write(
        object, half, bytes.data() + half, bytes.size() - half, TND_POOL_MEMORY_HOST);
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = flags;
  return code == TND_OK ? tnd_pool_commit(object, &options, version) : code;
}

void load_client::put_by_handle(const place &target, bool is_large) {
  tnd_pool *const pool = pool_of(target.space);
  if (pool == nullptr)
    return;
  value_id const value = record_.next_value(is_large);
  load_call const call{operation_kind::put, {target.full()}, {value}, true};
  std::vector<char> const bytes = load_contents(value);
  uint32_t const flags = durable_flag();
  load_outcome outcome;
  tnd_pool_object *object = nullptr;
  auto const begun = record_.begin(index_, call);
  outcome.code = tnd_pool_create(pool, target.name.c_str(), bytes.size(), 0, nullptr, &object);
  if (outcome.code == TND_OK)
    outcome.code = write_and_commit(object, bytes, flags, &outcome.version);
  if (outcome.code != TND_OK)
    outcome.version = 0;
  record_.end(index_, begun, call, outcome);
  tnd_pool_close(object);
}

void load_client::remove(const place &target) {
  tnd_pool *const pool = pool_of(target.space);
  if (pool == nullptr)
    return;
  load_call const call{operation_kind::remove, {target.full()}, {}, false};
  auto const begun = record_.begin(index_, call);
  record_.end(index_, begun, call, {tnd_pool_remove(pool, target.name.c_str(), durable_flag())});
}

void load_client::rename() {
  place const first = random_place("moved", load_names::moved_count);
  place const second{first.space, first.name == "moved0" ? "moved1" : "moved0"};
  tnd_pool *const pool = pool_of(first.space);
  if (pool == nullptr)
    return;
  load_call const call{operation_kind::rename, {first.full(), second.full()}, {}, false};
  auto const begun = record_.begin(index_, call);
  tnd_status const code =
      tnd_pool_rename(pool, first.name.c_str(), second.name.c_str(), durable_flag());
  record_.end(index_, begun, call, {code});
}

tnd_status load_client::prepare_set(tnd_pool *pool,
                                    const std::string &set,
                                    const std::vector<value_id> &values,
                                    std::vector<tnd_pool_object *> &opened) {
  for (size_t i = 0; i < values.size(); i++) {
    std::vector<char> const bytes = load_contents(values[i]);
    std::string const name = "set" + std::to_string(i);
    tnd_pool_object *object = nullptr;
    tnd_status code = tnd_pool_create(pool, name.c_str(), bytes.size(), 0, set.c_str(), &object);
    if (code != TND_OK)
      return code;
    opened.push_back(object);
    code = write_and_commit(object, bytes, 0, nullptr);
    if (code != TND_OK)
      return code;
  }
  return TND_OK;
}

void load_client::commit_set() {
  int const space = int(random_.below(space_count));
  tnd_pool *const pool = pool_of(space);
  if (pool == nullptr)
    return;
  load_call call{operation_kind::commit, {}, {}, true};
  for (int i = 0; i < load_names::set_count; i++) {
    call.names.push_back(place{space, "set" + std::to_string(i)}.full());
    call.values.push_back(record_.next_value(false));
  }
  std::string const set = std::to_string(index_) + "-" + std::to_string(set_number_++);
  std::vector<tnd_pool_object *> opened;
  auto const begun = record_.begin(index_, call);
  tnd_status code = prepare_set(pool, set, call.values, opened);
  if (code == TND_OK)
    code = tnd_pool_set_commit(pool, set.c_str(), call.values.size(), durable_flag());
  record_.end(index_, begun, call, {code});
  for (tnd_pool_object *const object : opened)
    tnd_pool_close(object);
}

observation load_client::get(const place &target, tnd_status &code) {
  tnd_pool *const pool = pool_of(target.space);
  code = -TND_EPEER;
  if (pool == nullptr)
    return observation::absent();
  load_call const call{operation_kind::get, {target.full()}, {}, target.name.starts_with("large")};
  uint64_t size = 0;
  auto const begun = record_.begin(index_, call);
  code = tnd_pool_get(
      pool, target.name.c_str(), buffer_.data(), buffer_.size(), &size, TND_POOL_VERIFY);
  load_outcome outcome{code};
  if (code == TND_OK)
    outcome.observed = {
        {target.full(), observation::value(record_.value_of(target.full(), buffer_.data(), size))}};
  record_.end(index_, begun, call, outcome);
  return code == TND_OK ? outcome.observed[0].second : observation::absent();
}

void load_client::stat(const place &target) {
  tnd_pool *const pool = pool_of(target.space);
  if (pool == nullptr)
    return;
  load_call const call{operation_kind::get, {target.full()}, {}, false};
  tnd_pool_info about{};
  auto const begun = record_.begin(index_, call);
  load_outcome outcome{tnd_pool_stat(pool, target.name.c_str(), 0, &about)};
  if (outcome.code == TND_OK) {
    outcome.observed = {{target.full(), observation::present()}};
    outcome.version = about.version;
  }
  record_.end(index_, begun, call, outcome);
}

void load_client::list() {
  int const space = int(random_.below(space_count));
  tnd_pool *const pool = pool_of(space);
  if (pool == nullptr)
    return;
  load_call call{operation_kind::list, {}, {}, false};
  for (const std::string &name : load_names::all())
    call.names.push_back(place{space, name}.full());
  std::vector<std::string> listed;
  auto const entry = [](void *context, const char *name, const tnd_pool_info *) {
    static_cast<std::vector<std::string> *>(context)->push_back(name);
    return 0;
  };
  auto const begun = record_.begin(index_, call);
  load_outcome outcome{tnd_pool_list(pool, "", entry, &listed)};
  for (const std::string &name : listed)
    outcome.observed.emplace_back(place{space, name}.full(), observation::present());
  record_.end(index_, begun, call, outcome);
}

bool load_client::read_all(std::vector<name_observation> &present, uint64_t deadline_ns) {
  seams::clock &clock = seams::monotonic_clock();
  for (int space = 0; space < space_count; space++)
    for (const std::string &name : load_names::all()) {
      place const target{space, name};
      tnd_status code = TND_OK;
      observation observed = get(target, code);
      while (code != TND_OK && code != -ENOENT) {
        if (clock.now_ns() > deadline_ns)
          return false;
        clock.sleep_ns(retry_ns);
        observed = get(target, code);
      }
      present.emplace_back(target.full(), observed);
    }
  return true;
}

}  // namespace tanada::test
