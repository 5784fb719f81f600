#include "products/poold/log/log.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <optional>

#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/log/compactor.hpp"

namespace tanada::pool {
namespace {

constexpr uint32_t queue_depth = 64;  // operations of the store
constexpr uint64_t nap_ns = 20'000;   // of drain
constexpr uint64_t size_limit = uint64_t{1}
                                << 60;  // bytes of an object, so that sums do not overflow

bool text_fits(const std::string &text, size_t size_max) {
  return text.size() <= size_max && text.find('\0') == std::string::npos;
}

status check_put(const change &each, bool with_data) {
  const auto &meta = each.meta;
  if (meta.name.empty() || meta.size > size_limit || meta.kind > checksum_kind::xxh3)
    return status::invalid;
  if (!text_fits(meta.space, space_size_max) || !text_fits(meta.name, name_size_max))
    return status::too_big;
  uint64_t size = 0;
  for (const auto &part : each.data) {
    if (!checked_add<uint64_t>(size, part.size(), size))
      return status::invalid;
  }
  for (const auto &part : each.extents) {
    if (!checked_add(size, part.size, size))
      return status::invalid;
  }
  // Whether data is whole after a crash is told by its checksum alone.
  bool const fitting =
      with_data ? each.extents.empty() && meta.kind != checksum_kind::none : each.data.empty();
  return fitting && size == meta.size ? status::ok : status::invalid;
}

status check(const change &each, bool with_data) {
  if (each.meta.version == 0)
    return status::invalid;
  switch (each.kind) {
    case change_kind::put: return check_put(each, with_data);
    case change_kind::rename:
      if (each.new_name.empty())
        return status::invalid;
      return text_fits(each.new_name, name_size_max) ? status::ok : status::too_big;
    case change_kind::remove:
    case change_kind::flags: return status::ok;
  }
  return status::invalid;
}

fact fact_of(const change &each) {
  fact made;
  made.meta.version = each.meta.version;
  switch (each.kind) {
    case change_kind::put:
      made.meta = each.meta;
      made.extents = each.extents;
      break;
    case change_kind::remove: made.kind = fact_kind::remove; break;
    case change_kind::rename:
      made.kind = fact_kind::amend;
      made.has_name = true;
      made.meta.name = each.new_name;
      break;
    case change_kind::flags:
      made.kind = fact_kind::amend;
      made.has_flags = true;
      made.meta.flags = each.meta.flags;
      break;
  }
  return made;
}

}  // namespace

struct durable_log::parts {
  parts(log_options options_, std::unique_ptr<port::store_queue> queue, port::clock &clock_)
      : options{std::move(options_)},
        clock{clock_},
        io{std::move(queue), clock_, options.io_timeout_ns} {}

  // After recovery.
  void start(recovered_log recovered) {
    state.emplace(options, io, std::move(recovered));
    take_reserve();
    writing.emplace(*state, clock);
    compacting.emplace(*state, *writing, clock);
  }

  void take_reserve() {
    if (options.reserve == nullptr)
      return;
    auto const code = options.reserve->acquire();
    state->is_full = code == status::no_space;
    if (code == status::ok)
      return;
    log(log_level::warning, "%s: %llu bytes cannot be reserved for removals (%s)%s",
        options.url.c_str(), static_cast<unsigned long long>(options.reserve->size()),
        tnd_status_name(tnd_status(code)),
        state->is_full ? ": puts are refused until there is room; remove objects" : "");
    if (!state->is_full)
      options.reserve = nullptr;
  }

  bool needs_mark() const {
    return writing->idle() && state->content_sequence > state->marked_sequence;
  }
  uint64_t mark_at_ns() const {
    return std::max(mark_retry_ns,
                    port::deadline_after(writing->last_durable_ns(), options.mark_delay_ns));
  }

  log_options options;
  port::clock &clock;
  std::optional<log_state> state;
  std::optional<writer> writing;
  std::optional<compactor> compacting;
  uint64_t mark_retry_ns = 0;
  store_io io;  // goes first: no operation may touch what is gone
};

durable_log::durable_log(std::unique_ptr<parts> made) : parts_{std::move(made)} {}

// With operations on their way nothing is awaited.
durable_log::~durable_log() {
  if (!parts_ || !parts_->io.idle())
    return;
  for (const auto &[file_sequence, file] : parts_->state->files) {
    if (file->handle != port::no_store_file)
      (void)parts_->io.perform(on_file(port::store_op_kind::close, file->handle)).code;
  }
}

result<std::unique_ptr<durable_log>> durable_log::open(port::store &store, port::clock &clock,
                                                       log_options options) {
  if (!options.url.ends_with('/'))
    return fail(status::invalid, "%s: the URL of a folder ends in '/'", options.url.c_str());
  if (options.file_size < 2 * block_size || options.group_size_max == 0 ||
      options.queue_count_max == 0) {
    return fail(status::invalid, "%s: limits of the log that let nothing through",
                options.url.c_str());
  }
  auto queue = store.queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  auto made = std::make_unique<parts>(std::move(options), std::move(queue).value(), clock);
  recovered_log recovered;
  if (auto const code = recover(made->io, made->options, recovered); code != status::ok)
    return code;
  made->start(std::move(recovered));
  return std::unique_ptr<durable_log>{new durable_log{std::move(made)}};
}

status durable_log::append(const transaction &changes, status_function done) {
  auto &own = *parts_;
  const auto &options = own.options;
  if (changes.empty())
    return status::invalid;
  if (own.writing->queue_count() >= options.queue_count_max)
    return status::again;
  std::vector<fact> facts;
  byte_spans data;
  for (const auto &each : changes) {
    TND_TRY(check(each, options.with_data));
    if (each.kind == change_kind::put && own.state->live.knows(each.meta.version))
      return status::exists;
    facts.push_back(fact_of(each));
    data.insert(data.end(), each.data.begin(), each.data.end());
  }
  auto made = make_record(std::move(facts), options.with_data);
  if (!made.ok())
    return made.error();
  auto record = std::move(made).value();
  if (record->size > options.size_max)
    return status::too_big;
  uint64_t const waiting = own.writing->queue_size();
  if (waiting != 0 && waiting + record->size > options.queue_size_max)
    return status::again;
  std::erase_if(data, [](const auto &part) { return part.empty(); });
  record->data = std::move(data);
  record->done = std::move(done);
  own.writing->submit(std::move(record));
  return status::ok;
}

status durable_log::read(uint64_t version, uint64_t offset, std::vector<port::store_buffer> buffers,
                         status_function done) {
  auto &state = *parts_->state;
  auto const *const object = state.live.find(version);
  if (object == nullptr || object->offset == 0)
    return status::no_entry;
  uint64_t size = 0;
  for (const auto &buffer : buffers) {
    if (!checked_add<uint64_t>(size, buffer.size, size))
      return status::range;
  }
  if (!range_fits(offset, size, object->meta.size))
    return status::range;
  auto const file = state.files.at(object->file_sequence);
  file->user_count++;
  state.io.post(transfer(port::store_op_kind::read, file->handle, object->offset + offset,
                         std::move(buffers)),
                [&state, file, size, done = std::move(done)](const auto &read) {
                  file->user_count--;
                  close_unused(state, *file);
                  bool const cut = read.code == status::ok && read.size != size;
                  state.queue_callback(done, cut ? status::corrupt : read.code);
                });
  return status::ok;
}

bool durable_log::poll() {
  auto &own = *parts_;
  size_t count = own.io.poll();
  own.writing->advance([&own] { return own.compacting->can_gain(); });
  own.compacting->advance();
  if (own.needs_mark() && own.clock.now_ns() >= own.mark_at_ns()) {
    own.mark_retry_ns = port::deadline_after(own.clock.now_ns(), own.options.retry_delay_ns);
    auto record = make_record({}, own.options.with_data);
    record.value()->internal = true;
    record.value()->done = [](status) {
    };
    own.writing->submit(std::move(record).value());
    own.writing->advance([] { return false; });
  }
  auto callbacks = std::exchange(own.state->callbacks, {});
  count += callbacks.size();
  for (auto &call : callbacks)
    call();
  return count != 0;
}

uint64_t durable_log::next_wake_ns() const {
  const auto &own = *parts_;
  if (!own.io.idle() || !own.writing->idle() || !own.compacting->idle() ||
      !own.state->callbacks.empty())
    return 0;
  uint64_t const mark_ns = own.needs_mark() ? own.mark_at_ns() : ~uint64_t{0};
  uint64_t const now_ns = own.clock.now_ns();
  uint64_t const retry_ns =
      own.compacting->retry_ns() > now_ns ? own.compacting->retry_ns() : ~uint64_t{0};
  return std::min(mark_ns, retry_ns);
}

status durable_log::drain(uint64_t deadline_ns) {
  auto &own = *parts_;
  uint64_t const mark_delay_ns = std::exchange(own.options.mark_delay_ns, 0);
  own.mark_retry_ns = 0;
  status code = status::ok;
  for (bool marked = false;;) {
    bool const moved = poll();
    bool const waits = !own.writing->idle() || !own.state->callbacks.empty();
    if (!waits && (marked || !own.needs_mark()))
      break;
    marked = marked || !own.needs_mark() || own.mark_retry_ns != 0;
    if (own.clock.now_ns() >= deadline_ns) {
      code = status::timed_out;
      break;
    }
    if (!moved)
      own.clock.sleep_ns(nap_ns);
  }
  own.options.mark_delay_ns = mark_delay_ns;
  return code;
}

void durable_log::visit(const std::function<void(const live_object &)> &visitor) const {
  parts_->state->live.visit(visitor);
}
const live_object *durable_log::find(uint64_t version) const {
  return parts_->state->live.find(version);
}
uint64_t durable_log::highest_version() const {
  return parts_->state->live.highest_version();
}
const pool_identity &durable_log::identity() const {
  return parts_->state->identity;
}

log_counters durable_log::counters() const {
  const auto &own = *parts_;
  return {.stored_size = own.state->stored_size,
          .file_count = own.state->files.size(),
          .object_count = own.state->live.count(),
          .moved_size = own.state->moved_size,
          .sync_count = own.writing->sync_count(),
          .waiting_count = own.writing->queue_count(),
          .waiting_size = own.writing->queue_size()};
}

}  // namespace tanada::pool
