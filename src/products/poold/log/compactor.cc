#include "products/poold/log/compactor.hpp"

#include <tanada/status.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t batch_size = 8u
                                << 20;   // bytes of data moved at once, if not one object is bigger
constexpr size_t batch_count_max = 512;  // changes
constexpr uint64_t urgent_retry_share = 64;  // of the delay after a failure
constexpr uint64_t mark_overhead =
    3 * block_size;  // a file's header, a mark, and the block of what is carried
constexpr uint64_t copy_overhead =
    4 * block_size;  // of records and a new file's header, where the store is full

}  // namespace

// A file whose copy would be almost as big is left alone.
bool compactor::worth_it(const log_file &file, uint64_t room) const {
  if (file.void_tail)
    return true;  // the files behind it wait for that
  uint64_t const live = state_.live.live_size(file.identity.file_sequence);
  uint64_t const needed = live + state_.live.carry_size(file.identity.file_sequence);
  if (needed > room || room - needed < copy_overhead)
    return false;
  bool const gains = barren_content_ != state_.content_count;
  // The mark that lets a small file go may need a file of its own, and that file another mark, for
  // ever.
  bool const outweighs_mark = file.size - std::min(file.size, needed) > mark_overhead;
  if (live == 0 && needed <= file.size / 2 && (gains || outweighs_mark))
    return true;
  // Little is gained for much work, until the reserve fits again.
  bool const fits_reserve = !state_.is_full || room / 2 >= state_.options.reserve->size();
  if (!fits_reserve && gains && needed <= file.size / 8 * 7)
    return true;
  // Where most of the log lives, moving it about would cost more than the room is worth.
  bool const loose = state_.stored_size > state_.live.live_size() / 2 * 3;
  bool const asked =
      (loose && state_.stored_size > state_.options.compact_above) || writer_.short_of_room();
  bool const crowded = asked && gains;
  return crowded && needed <= file.size / 4 * 3;
}

std::shared_ptr<log_file> compactor::choose() const {
  std::shared_ptr<log_file> best;
  double best_share = 2;  // also of a file that all lives in, where its tail is void
  bool after_void = false;
  uint64_t const room = state_.is_full ? state_.options.reserve->free_size() : ~uint64_t{0};
  for (const auto &[file_sequence, file] : state_.files) {
    // That a tail is void is known by a later file's header.
    bool const held = std::exchange(after_void, after_void || file->void_tail);
    uint64_t const live = state_.live.live_size(file_sequence);
    if (held || (file->unreadable && live != 0) || writer_.writes_to(*file) ||
        !worth_it(*file, room))
      continue;
    double const needed = double(live + state_.live.carry_size(file_sequence));
    if (needed / double(file->size) >= best_share)
      continue;
    best_share = needed / double(file->size);
    best = file;
  }
  return best;
}

uint64_t compactor::retry_ns() const noexcept {
  return state_.is_full ? urgent_retry_ns_ : retry_ns_;
}

bool compactor::can_gain() const {
  return phase_ != phase::idle || (clock_.now_ns() >= retry_ns() && choose() != nullptr);
}

// Looks through the files, but not again while nothing has changed.
void compactor::begin() {
  bool const same =
      looked_sequence_ == state_.durable_sequence && looked_size_ == state_.stored_size;
  if (clock_.now_ns() < retry_ns() || (same && !writer_.short_of_room()))
    return;
  victim_ = choose();
  if (victim_)
    phase_ = phase::ready;
  looked_sequence_ = state_.durable_sequence;
  looked_size_ = state_.stored_size;
}

void compactor::advance() {
  if (phase_ == phase::idle)
    begin();
  if (phase_ != phase::ready)
    return;
  auto facts = state_.live.carry(victim_->identity.file_sequence, batch_size, batch_count_max);
  if (!facts.empty())
    return copy(std::move(facts));
  if (victim_->last_sequence > state_.marked_sequence)
    mark();
  else
    remove();
}

void compactor::fail(status code, const char *what) {
  log(log_level::warning, "%s: compaction cannot %s (%s), it tries again later",
      victim_->url.c_str(), what, tnd_status_name(tnd_status(code)));
  uint64_t const now_ns = clock_.now_ns(), delay_ns = state_.options.retry_delay_ns;
  retry_ns_ = port::deadline_after(now_ns, delay_ns);
  urgent_retry_ns_ = code == status::no_space
                         ? port::deadline_after(now_ns, delay_ns / urgent_retry_share)
                         : retry_ns_;
  looked_sequence_ = ~uint64_t{0};
  victim_.reset();
  phase_ = phase::idle;
}

void compactor::copy(std::vector<fact> facts) {
  phase_ = phase::copying;
  auto const what = std::make_shared<batch>();
  what->facts = std::move(facts);
  uint64_t size = 0;
  for (const auto &each : what->facts) {
    what->offsets.push_back(size);
    auto const *const object =
        each.kind == fact_kind::put ? state_.live.find(each.meta.version) : nullptr;
    if (object == nullptr || object->offset == 0)
      continue;
    size += whole_blocks(each.meta.size);
  }
  if (size > state_.options.copy_size_max && size > batch_size) {
    victim_->unreadable = true;
    return fail(status::too_big, "move an object bigger than its memory");
  }
  what->buffer = block_buffer{size};
  what->offsets.push_back(size);
  read(what);
}

void compactor::read(const std::shared_ptr<batch> &what) {
  auto const done = [this, what](const auto &read) {
    if (read.code != status::ok)
      what->code = read.code;
    if (--what->reads_left != 0)
      return;
    victim_->user_count--;
    if (what->code == status::ok)
      return write(what);
    victim_->unreadable = true;
    fail(what->code, "read it");
  };
  for (size_t i = 0; i < what->facts.size(); i++)
    what->reads_left += what->offsets[i + 1] != what->offsets[i];
  if (what->reads_left == 0)
    return write(what);
  victim_->user_count++;
  for (size_t i = 0; i < what->facts.size(); i++) {
    if (what->offsets[i + 1] == what->offsets[i])
      continue;
    auto const *const object = state_.live.find(what->facts[i].meta.version);
    state_.io.post(
        transfer(port::store_op_kind::read, victim_->handle, object->offset,
                 {{what->buffer.data() + what->offsets[i], size_t(what->facts[i].meta.size)}}),
        done);
  }
}

// Bytes that are not the object's must not be moved: with a new record around them they would look
// whole.
void compactor::drop_damaged(batch &what) {
  for (size_t i = 0; i < what.facts.size(); i++) {
    auto &each = what.facts[i];
    uint64_t const size = each.meta.size;
    if (what.offsets[i + 1] == what.offsets[i] || each.meta.kind == checksum_kind::none)
      continue;
    if (checksum_of(each.meta.kind, what.buffer.span().subspan(what.offsets[i], size)) ==
        each.meta.checksum)
      continue;
    log(log_level::error,
        "%s: the data of %s in %s (%llu bytes) does not match its checksum: it is lost",
        victim_->url.c_str(), each.meta.name.c_str(), each.meta.space.c_str(),
        static_cast<unsigned long long>(size));
    if (state_.options.lost) {
      state_.callbacks.push_back([lost = state_.options.lost, meta = each.meta] { lost(meta); });
    }
    fact removal;
    removal.kind = fact_kind::remove;
    removal.meta.version = each.meta.version;
    each = std::move(removal);
  }
}

// Records of one block of metadata: a block that goes bad later takes no more than those with it.
void compactor::write(const std::shared_ptr<batch> &what) {
  drop_damaged(*what);
  what->records_left = 1;
  size_t begin = 0;
  uint64_t size = record_header_size;
  for (size_t i = 0; i < what->facts.size(); i++) {
    uint64_t const more = stored_size(what->facts[i]);
    if (i != begin && size + more > block_size) {
      submit(what, begin, i);
      begin = i;
      size = record_header_size;
    }
    size += more;
  }
  submit(what, begin, what->facts.size());
  what->records_left--;
}

void compactor::submit(const std::shared_ptr<batch> &what, size_t begin, size_t end) {
  std::vector<fact> facts(what->facts.begin() + std::ptrdiff_t(begin),
                          what->facts.begin() + std::ptrdiff_t(end));
  byte_spans data;
  for (size_t i = begin; i < end; i++) {
    bool const moved =
        facts[i - begin].kind == fact_kind::put && what->offsets[i + 1] != what->offsets[i];
    if (moved)
      data.push_back(what->buffer.span().subspan(what->offsets[i], facts[i - begin].meta.size));
  }
  auto made = make_record(std::move(facts), state_.options.with_data);
  TND_ASSERT(made.ok());
  auto record = std::move(made).value();
  record->data = std::move(data);
  record->internal = true;
  state_.moved_size += record->size;
  record->done = [this, what](status code) {
    if (code != status::ok)
      what->code = code;
    if (--what->records_left != 0)
      return;
    if (what->code == status::ok)
      phase_ = phase::ready;
    else
      fail(what->code, "write what lives in it");
  };
  what->records_left++;
  writer_.submit_first(std::move(record));
}

void compactor::mark() {
  phase_ = phase::copying;
  auto made = make_record({}, state_.options.with_data);
  auto record = std::move(made).value();
  record->internal = true;
  record->done = [this](status code) {
    if (code == status::ok)
      phase_ = phase::ready;
    else
      fail(code, "write a mark");
  };
  writer_.submit_first(std::move(record));
}

void compactor::remove() {
  phase_ = phase::removing;
  remove_file(state_, victim_, [this](status code) {
    if (code != status::ok)
      return fail(code, "unlink it");
    auto const file = std::exchange(victim_, nullptr);
    phase_ = phase::idle;
    state_.live.file_removed(file->identity.file_sequence);
    state_.files.erase(file->identity.file_sequence);
    state_.stored_size -= file->size;
    note_gain();
    state_.reserve_retry_ns = 0;
    file->gone = true;
    close_unused(state_, *file);
  });
}

// The records of a copy take whole blocks: it may need as much room as the file had, and so would
// the copy of that, for ever.
void compactor::note_gain() {
  if (std::exchange(compared_content_, state_.content_count) != state_.content_count) {
    lowest_size_ = ~uint64_t{0};
  }
  if (state_.stored_size >= lowest_size_)
    barren_content_ = state_.content_count;
  lowest_size_ = std::min(lowest_size_, state_.stored_size);
}

}  // namespace tanada::pool
