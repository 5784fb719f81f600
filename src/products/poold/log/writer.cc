#include "products/poold/log/writer.hpp"

#include <algorithm>
#include <array>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr size_t group_count_max = 2;                 // one is synced while the next is written
constexpr size_t buffer_count_max = 512;              // of one write
constexpr uint64_t write_size_max = 4u << 20;         // bytes
constexpr size_t record_count_max = 1024;             // of a group
constexpr uint64_t compaction_room = 8 * block_size;  // bytes that removals leave in a full store

alignas(block_size) constexpr std::array<std::byte, block_size> zeros{};

port::store_buffer buffer_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte *>(bytes.data()), bytes.size()};  // a write reads it
}

std::vector<port::store_buffer> buffers_of(const outgoing_record &record) {
  std::vector<port::store_buffer> buffers{{record.head.data(), record.head_size}};
  auto at = record.data.begin();
  for (const auto &each : record.facts) {
    if (each.data_offset == 0)
      continue;
    for (uint64_t left = each.meta.size; left != 0; ++at) {
      TND_ASSERT(at != record.data.end() && at->size() <= left);
      left -= at->size();
      if (!at->empty())
        buffers.push_back(buffer_of(*at));
    }
    uint64_t const padding = whole_blocks(each.meta.size) - each.meta.size;
    if (padding != 0)
      buffers.push_back(buffer_of(std::span{zeros}.first(padding)));
  }
  return buffers;
}

}  // namespace

log_state::log_state(const log_options &options_, store_io &io_, recovered_log recovered)
    : options{options_},
      io{io_},
      files{std::move(recovered.files)},
      live{std::move(recovered.live)},
      names{std::move(recovered.names)},
      identity{recovered.identity},
      next_sequence{recovered.next_sequence},
      next_file_sequence{recovered.next_file_sequence},
      durable_sequence{recovered.next_sequence - 1},
      marked_sequence{recovered.durable_sequence},
      content_sequence{recovered.content_sequence} {
  for (const auto &[file_sequence, file] : files)
    stored_size += file->size;
}

void log_state::queue_callback(std::function<void(status)> done, status code) {
  callbacks.push_back([done = std::move(done), code] { done(code); });
}

result<std::unique_ptr<outgoing_record>> make_record(std::vector<fact> facts, bool with_data) {
  auto head_size = record_head_size(facts);
  if (!head_size.ok())
    return head_size.error();
  auto made = std::make_unique<outgoing_record>();
  made->facts = std::move(facts);
  made->head_size = head_size.value();
  made->size = record_layout(made->head_size, with_data, made->facts);
  made->grows = std::any_of(made->facts.begin(), made->facts.end(),
                            [](const fact &each) { return each.kind == fact_kind::put; });
  return made;
}

void writer::submit(std::unique_ptr<outgoing_record> record) {
  queue_size_ += record->size;
  queue_.push_back(std::move(record));
}

void writer::submit_first(std::unique_ptr<outgoing_record> record) {
  queue_size_ += record->size;
  queue_.push_front(std::move(record));
}

bool writer::writes_to(const log_file &file) const {
  return head_.get() == &file || std::any_of(groups_.begin(), groups_.end(), [&](const auto &each) {
           return each->file.get() == &file;
         });
}

void writer::advance(const std::function<bool()> &may_wait) {
  if (failed_) {
    if (operations_left_ == 0)
      clean_up();
    return;
  }
  while (!groups_.empty() && groups_.front()->synced)
    acknowledge();
  if (!groups_.empty() && groups_.front()->writes_left == 0 && !groups_.front()->syncing)
    sync(groups_.front());
  form(may_wait);
}

// Whether the record has a place in the file that is written to.
bool writer::fits_head(const outgoing_record &record) const {
  if (head_state_ != head::ready)
    return false;
  return head_offset_ == block_size || head_offset_ + record.size <= state_.options.file_size;
}

// Room is what compaction does not need for itself. Removals and the like may use half of that.
bool writer::has_room(const outgoing_record &record, const std::function<bool()> &may_wait) {
  const auto &options = state_.options;
  if (record.internal)
    return true;
  if (record.grows && !acquire_reserve(state_, clock_.now_ns()))
    return wait_or_refuse(may_wait);
  if (!record.grows && !leaves_room(record))
    return wait_or_refuse(may_wait);
  if (options.size_max == ~uint64_t{0})
    return true;
  uint64_t kept = std::min(options.size_max / 8, options.file_size);
  if (!record.grows)
    kept /= 2;
  uint64_t planned = state_.stored_size + record.size +
                     (fits_head(record) ? 0 : block_size);  // of another file's header
  for (const auto &each : groups_) {
    for (const auto &other : each->records)
      planned += other->size;
  }
  if (planned <= options.size_max - kept)
    return true;
  return wait_or_refuse(may_wait);
}

// Whether a full store still has room for compaction after this record: without that it stays full.
bool writer::leaves_room(const outgoing_record &record) const {
  if (!state_.is_full)
    return true;
  uint64_t needed = record.size + compaction_room;
  for (const auto &each : groups_) {
    for (const auto &other : each->records)
      needed += other->size;
  }
  return needed <= state_.options.reserve->free_size();
}

// Returns false: the first record of the queue is not placed now.
bool writer::wait_or_refuse(const std::function<bool()> &may_wait) {
  const auto &options = state_.options;
  short_of_room_ = true;
  if (may_wait())
    return false;
  auto refused = std::move(queue_.front());
  queue_.pop_front();
  queue_size_ -= refused->size;
  // That the store is full was logged when it happened.
  if (!state_.is_full) {
    log(log_level::warning, "%s: no room for %llu bytes: %llu of %llu are in use",
        options.url.c_str(), static_cast<unsigned long long>(refused->size),
        static_cast<unsigned long long>(state_.stored_size),
        static_cast<unsigned long long>(options.size_max));
  }
  state_.queue_callback(std::move(refused->done), status::no_space);
  return false;
}

void writer::form(const std::function<bool()> &may_wait) {
  short_of_room_ = false;
  if (groups_.size() >= group_count_max || queue_.empty() || head_state_ == head::opening)
    return;
  uint64_t size = 0;
  auto made = std::make_shared<group>();
  // In a full store the room is looked at before each record.
  size_t const count_max = state_.is_full ? 1 : record_count_max;
  while (!queue_.empty() && made->records.size() < count_max) {
    auto &next = queue_.front();
    if (!has_room(*next, may_wait))
      break;
    if (head_state_ == head::ready && !fits_head(*next)) {
      head_.reset();
      head_state_ = head::none;
    }
    if (head_state_ == head::none) {
      // Its header names the next sequence, which must not rise before that is said.
      if (made->records.empty())
        open_head();
      break;
    }
    if (!made->records.empty() && size + next->size > state_.options.group_size_max)
      break;
    size += next->size;
    queue_size_ -= next->size;
    place(*made, std::exchange(next, nullptr));
    queue_.pop_front();
  }
  if (made->records.empty())
    return;
  groups_.push_back(made);
  write(made);
}

void writer::place(group &target, std::unique_ptr<outgoing_record> record) {
  target.file = head_;
  auto &header = record->header;
  header.file = head_->identity;
  header.offset = head_offset_;
  header.sequence = state_.next_sequence++;
  header.durable_sequence = state_.durable_sequence;
  for (auto &each : record->facts) {
    // Compaction says again what the names know already, but for objects that it drops.
    if (!record->internal || each.kind == fact_kind::remove)
      state_.names.place(each);
  }
  record->head = block_buffer{record->head_size};
  encode_record(header, record->size, record->facts, record->head.span());
  head_offset_ += record->size;
  target.records.push_back(std::move(record));
}

// The group's bytes lie in a row; they go in parts of a bounded size.
void writer::write(const std::shared_ptr<group> &target) {
  uint64_t offset = target->records.front()->header.offset, size = 0;
  std::vector<port::store_buffer> part;
  auto const flush = [&] {
    if (part.empty())
      return;
    write_part(target, offset, std::move(part));
    part.clear();
    offset += std::exchange(size, 0);
  };
  for (const auto &record : target->records) {
    for (auto buffer : buffers_of(*record)) {
      while (buffer.size != 0) {
        size_t const taken = std::min<uint64_t>(buffer.size, write_size_max - size);
        part.push_back({buffer.addr, taken});
        size += taken;
        buffer = {buffer.addr + taken, buffer.size - taken};
        if (size == write_size_max || part.size() == buffer_count_max)
          flush();
      }
    }
  }
  flush();
}

void writer::write_part(const std::shared_ptr<group> &target, uint64_t offset,
                        std::vector<port::store_buffer> buffers) {
  target->writes_left++;
  operations_left_++;
  state_.io.post(
      transfer(port::store_op_kind::write, target->file->handle, offset, std::move(buffers)),
      [this, target](const auto &done) {
        target->writes_left--;
        operations_left_--;
        if (done.code != status::ok)
          fail_all(done.code, *target->file, "a write");
      });
}

void writer::sync(const std::shared_ptr<group> &target) {
  target->syncing = true;
  operations_left_++;
  state_.io.post(on_file(port::store_op_kind::sync, target->file->handle),
                 [this, target](const auto &done) {
                   operations_left_--;
                   if (done.code != status::ok)
                     return fail_all(done.code, *target->file, "a sync");
                   target->synced = true;
                 });
}

void writer::acknowledge() {
  auto const target = std::move(groups_.front());
  groups_.pop_front();
  finish(*target);
  sync_count_++;
  last_durable_ns_ = clock_.now_ns();
}

void writer::finish(const group &target) {
  auto &file = *target.file;
  for (const auto &record : target.records) {
    const auto &header = record->header;
    TND_ASSERT(header.sequence == state_.durable_sequence + 1);
    state_.durable_sequence = header.sequence;
    state_.marked_sequence = std::max(state_.marked_sequence, header.durable_sequence);
    if (!record->facts.empty())
      state_.content_sequence = header.sequence;
    if (!record->internal)
      state_.content_count++;
    for (size_t i = 0; i < record->facts.size(); i++) {
      auto &each = record->facts[i];
      if (each.order == 0)
        each.order = order_of(header.sequence, i);
      state_.live.apply(each, file.identity.file_sequence, header.offset);
    }
    state_.stored_size += record->size;
    file.size = header.offset + record->size;
    file.last_sequence = header.sequence;
    state_.queue_callback(std::move(record->done), status::ok);
  }
}

}  // namespace tanada::pool
