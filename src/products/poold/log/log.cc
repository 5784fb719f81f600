// The pool's log: validation of transactions, and the interplay of writer and compactor.
#include "products/poold/log/log.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/log/compactor.hpp"

namespace tanada::pool {
namespace {

constexpr uint32_t queue_depth = 64;        // store operations in flight
constexpr uint64_t idle_pause_ns = 20'000;  // between two polls of drain()
constexpr uint64_t size_limit = uint64_t{1}
                                << 60;  // bytes of an object, so that sums do not overflow

bool text_fits(const std::string &text, size_t size_max) {
  return text.size() <= size_max && text.find('\0') == std::string::npos;
}

status check_put(const change &update, bool with_data) {
  const auto &meta = update.meta;
  if (meta.name.empty() || meta.size > size_limit || meta.kind > checksum_kind::xxh3)
    return status::invalid;
  if (!text_fits(meta.namespace_name, namespace_size_max) || !text_fits(meta.name, name_size_max))
    return status::too_big;
  uint64_t size = 0;
  for (const auto &part : update.data) {
    if (!checked_add<uint64_t>(size, part.size(), size))
      return status::invalid;
  }
  for (const auto &part : update.extents) {
    if (!checked_add(size, part.size, size))
      return status::invalid;
  }
  // After a crash, only a checksum can show whether data is intact.
  bool const fitting =
      with_data ? update.extents.empty() && meta.kind != checksum_kind::none : update.data.empty();
  return fitting && size == meta.size ? status::ok : status::invalid;
}

status check_change(const change &update, bool with_data) {
  if (update.meta.version == 0)
    return status::invalid;
  switch (update.kind) {
    case change_kind::put:
      return check_put(update, with_data);
    case change_kind::rename:
      if (update.new_name.empty())
        return status::invalid;
      return text_fits(update.new_name, name_size_max) ? status::ok : status::too_big;
    case change_kind::remove:
    case change_kind::flags:
      return status::ok;
  }
  return status::invalid;
}

struct outgoing_parts {
  std::vector<log_entry> entries;
  byte_spans data;
};

log_entry make_entry(const change &update) {
  log_entry entry;
  entry.meta.version = update.meta.version;
  switch (update.kind) {
    case change_kind::put:
      entry.meta = update.meta;
      entry.extents = update.extents;
      break;
    case change_kind::remove:
      entry.kind = entry_kind::remove;
      break;
    case change_kind::rename:
      entry.kind = entry_kind::amend;
      entry.has_name = true;
      entry.meta.name = update.new_name;
      break;
    case change_kind::flags:
      entry.kind = entry_kind::amend;
      entry.has_flags = true;
      entry.meta.flags = update.meta.flags;
      break;
  }
  return entry;
}

// Check a transaction, and translate it to entries and their data.
status make_entries(const transaction &changes,
                    const log_options &options,
                    const live_set &live,
                    outgoing_parts &outgoing) {
  for (const auto &update : changes) {
    TND_TRY(check_change(update, options.with_data));
    if (update.kind == change_kind::put && live.contains(update.meta.version))
      return status::exists;
    outgoing.entries.push_back(make_entry(update));
    for (const auto &part : update.data)
      if (!part.empty())
        outgoing.data.push_back(part);
  }
  return status::ok;
}

// overflow: the sizes exceed the largest number.
result<uint64_t> size_of(std::span<const seams::store_buffer> buffers) {
  uint64_t size = 0;
  for (const auto &buffer : buffers)
    if (!checked_add<uint64_t>(size, buffer.size, size))
      return status::overflow;
  return size;
}

}  // namespace

struct durable_log::parts {
  parts(log_options options_, std::unique_ptr<seams::store_queue> queue, seams::clock &clock_)
      : options{std::move(options_)},
        clock{clock_},
        io{std::move(queue), clock_, options.io_timeout_ns} {}

  // Called after recovery.
  void start(recovered_log recovered) {
    has_losses = recovered.has_losses;
    state.emplace(options, io, std::move(recovered));
    acquire_first_reserve();
    log_writer.emplace(*state, clock);
    log_compactor.emplace(*state, *log_writer, clock);
  }

  void acquire_first_reserve() {
    if (options.reserve == nullptr)
      return;
    auto const code = options.reserve->acquire();
    state->is_full = code == status::no_space;
    if (code == status::ok)
      return;
    log(log_level::warning,
        "{}: {} bytes cannot be reserved for removals ({}){}",
        options.url,
        options.reserve->size(),
        tnd_status_name(tnd_status(code)),
        state->is_full ? ": puts are refused until there is space; remove objects" : "");
    if (!state->is_full)
      options.reserve = nullptr;
  }

  // The file stays open until the read has completed.
  void post_read(const std::shared_ptr<log_file> &file,
                 uint64_t offset,
                 std::vector<seams::store_buffer> buffers,
                 status_function done) {
    uint64_t size = 0;
    for (const auto &buffer : buffers)
      size += buffer.size;
    file->user_count++;
    io.post(make_transfer_op(seams::store_op_kind::read, file->handle, offset, std::move(buffers)),
            [this, file, size, done = std::move(done)](const auto &read) {
              TND_ASSERT(file->user_count > 0);
              file->user_count--;
              close_unused(*state, *file);
              bool const cut = read.code == status::ok && read.size != size;
              state->queue_callback(done, cut ? status::corrupt : read.code);
            });
  }

  bool needs_mark() const {
    return log_writer->is_idle() && state->content_sequence > state->marked_sequence;
  }
  uint64_t mark_due_ns() const {
    return std::max(mark_retry_ns,
                    seams::deadline_after(log_writer->last_durable_ns(), options.mark_delay_ns));
  }

  log_options options;
  seams::clock &clock;
  std::optional<log_state> state;
  std::optional<writer> log_writer;
  std::optional<compactor> log_compactor;
  uint64_t mark_retry_ns = 0;
  bool has_losses = false;
  store_io io;  // destroyed first, so that no operation uses destroyed members
};

durable_log::durable_log(std::unique_ptr<parts> new_parts) : parts_{std::move(new_parts)} {}

// Does not wait for operations in flight: files then stay open in the store.
durable_log::~durable_log() {
  if (!parts_ || !parts_->io.is_idle())
    return;
  for (const auto &[file_sequence, file] : parts_->state->files) {
    if (file->handle != seams::no_store_file)
      (void)parts_->io.perform(make_file_op(seams::store_op_kind::close, file->handle)).code;
  }
}

result<std::unique_ptr<durable_log>> durable_log::open(seams::store &store,
                                                       seams::clock &clock,
                                                       log_options options) {
  if (!options.url.ends_with('/'))
    return fail(status::invalid, "{}: the URL of a folder ends in '/'", options.url);
  if (options.file_size < 2 * block_size || options.group_size_max == 0 ||
      options.queue_count_max == 0) {
    return fail(
        status::invalid,
        "{}: file_size must be at least two blocks, group_size_max and queue_count_max positive",
        options.url);
  }
  auto queue = store.queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  auto new_parts = std::make_unique<parts>(std::move(options), std::move(queue).value(), clock);
  recovered_log recovered;
  if (auto const code = recover(new_parts->io, new_parts->options, recovered); code != status::ok)
    return code;
  new_parts->start(std::move(recovered));
  return std::unique_ptr<durable_log>{new durable_log{std::move(new_parts)}};
}

status durable_log::append(const transaction &changes, status_function done) {
  auto &self = *parts_;
  const auto &options = self.options;
  if (changes.empty())
    return status::invalid;
  if (self.log_writer->queue_count() >= options.queue_count_max)
    return status::again;
  outgoing_parts outgoing;
  TND_TRY(make_entries(changes, options, self.state->live, outgoing));
  auto new_record = make_record(std::move(outgoing.entries), options.with_data);
  if (!new_record.ok())
    return new_record.error();
  auto record = std::move(new_record).value();
  if (record->size > options.size_max)
    return status::too_big;
  uint64_t const waiting = self.log_writer->queue_size();
  if (waiting != 0 && waiting + record->size > options.queue_size_max)
    return status::again;
  record->data = std::move(outgoing.data);
  record->callbacks.push_back(std::move(done));
  self.log_writer->submit(std::move(record));
  return status::ok;
}

status durable_log::read(uint64_t version,
                         uint64_t offset,
                         std::vector<seams::store_buffer> buffers,
                         status_function done) {
  auto &state = *parts_->state;
  auto const object = state.live.find(version);
  if (!object || object->offset == 0)
    return status::no_entry;
  auto const size = size_of(buffers);
  if (!size.ok() || !range_fits(offset, size.value(), object->meta.size))
    return status::range;
  return read_file(
      object->file_sequence, object->offset + offset, std::move(buffers), std::move(done));
}

status durable_log::read_file(uint64_t file_sequence,
                              uint64_t offset,
                              std::vector<seams::store_buffer> buffers,
                              status_function done) {
  auto &state = *parts_->state;
  auto const it = state.files.find(file_sequence);
  if (it == state.files.end())
    return status::no_entry;
  parts_->post_read(it->second, offset, std::move(buffers), std::move(done));
  return status::ok;
}

result<pinned_object> durable_log::pin(uint64_t version) {
  auto &state = *parts_->state;
  auto const object = state.live.find(version);
  if (!object || object->offset == 0)
    return status::no_entry;
  auto const it = state.files.find(object->file_sequence);
  TND_ASSERT(it != state.files.end());
  it->second->user_count++;
  return pinned_object{
      it->second, object->offset, object->meta.size, object->meta.kind, object->meta.checksum};
}

void durable_log::unpin(pinned_object &object) {
  auto const file = std::exchange(object.file, nullptr);
  TND_ASSERT(file != nullptr && file->user_count > 0);
  file->user_count--;
  close_unused(*parts_->state, *file);
}

status durable_log::read_pinned(const pinned_object &object,
                                uint64_t offset,
                                std::vector<seams::store_buffer> buffers,
                                status_function done) {
  TND_ASSERT(object.file != nullptr && object.file->user_count > 0);
  auto const size = size_of(buffers);
  if (!size.ok() || !range_fits(offset, size.value(), object.size))
    return status::range;
  parts_->post_read(object.file, object.offset + offset, std::move(buffers), std::move(done));
  return status::ok;
}

bool durable_log::poll() {
  auto &self = *parts_;
  size_t count = self.io.poll();
  self.log_writer->advance([&self] { return self.log_compactor->can_gain(); });
  self.log_compactor->advance();
  if (self.needs_mark() && self.clock.now_ns() >= self.mark_due_ns()) {
    self.mark_retry_ns = seams::deadline_after(self.clock.now_ns(), self.options.retry_delay_ns);
    auto record = make_record({}, self.options.with_data);
    TND_ASSERT(record.ok());
    record.value()->is_internal = true;
    self.log_writer->submit(std::move(record).value());
    self.log_writer->advance([] { return false; });
  }
  auto callbacks = std::exchange(self.state->callbacks, {});
  count += callbacks.size();
  for (auto &call : callbacks)
    call();
  return count != 0;
}

uint64_t durable_log::next_wake_ns() const {
  const auto &self = *parts_;
  if (!self.io.is_idle() || !self.log_writer->is_idle() || !self.log_compactor->is_idle() ||
      !self.state->callbacks.empty())
    return 0;
  uint64_t const mark_ns = self.needs_mark() ? self.mark_due_ns() : ~uint64_t{0};
  uint64_t const now_ns = self.clock.now_ns();
  uint64_t const retry_ns =
      self.log_compactor->retry_ns() > now_ns ? self.log_compactor->retry_ns() : ~uint64_t{0};
  return std::min(mark_ns, retry_ns);
}

status durable_log::drain(uint64_t deadline_ns) {
  auto &self = *parts_;
  uint64_t const mark_delay_ns = std::exchange(self.options.mark_delay_ns, 0);
  self.mark_retry_ns = 0;
  status code = status::ok;
  for (bool marked = false;;) {
    bool const moved = poll();
    bool const waits = !self.log_writer->is_idle() || !self.state->callbacks.empty();
    if (!waits && (marked || !self.needs_mark()))
      break;
    marked = marked || !self.needs_mark() || self.mark_retry_ns != 0;
    if (self.clock.now_ns() >= deadline_ns) {
      code = status::timed_out;
      break;
    }
    if (!moved)
      self.clock.sleep_ns(idle_pause_ns);
  }
  self.options.mark_delay_ns = mark_delay_ns;
  return code;
}

void durable_log::visit(const std::function<void(const live_object &)> &visitor) const {
  parts_->state->live.visit(visitor);
}
std::optional<live_object> durable_log::find(uint64_t version) const {
  return parts_->state->live.find(version);
}
bool durable_log::contains(uint64_t version) const {
  return parts_->state->live.contains(version);
}
uint64_t durable_log::highest_version() const {
  return parts_->state->live.highest_version();
}
bool durable_log::has_losses() const {
  return parts_->has_losses;
}
const pool_identity &durable_log::identity() const {
  return parts_->state->identity;
}

log_counters durable_log::counters() const {
  const auto &self = *parts_;
  return {.stored_size = self.state->stored_size,
          .file_count = self.state->files.size(),
          .object_count = self.state->live.count(),
          .moved_size = self.state->moved_size,
          .sync_count = self.log_writer->sync_count(),
          .queued_count = self.log_writer->queue_count(),
          .queued_size = self.log_writer->queue_size()};
}

}  // namespace tanada::pool
