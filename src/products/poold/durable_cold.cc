// The journal's cold objects: their readers, and what the log has of each object.
#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/poold/durable.hpp"

namespace tanada::poold {
namespace {

// Objects may take three quarters of the log. A sixteenth is kept for compaction, so the emptiest
// file then has at least a fifth of dead bytes, which compaction can always gain.
constexpr uint64_t spare_share = 4;

}  // namespace

// Claims the object's place in the log when it is created, and gives it up at its end. All that
// concerns the log is done by the thread that drives it.
class durable_journal::log_reader final : public cold_reader,
                                          public std::enable_shared_from_this<log_reader> {
 public:
  log_reader(durable_journal &owner, uint64_t version) : owner_{owner}, version_{version} {}
  ~log_reader() override {
    if (place_.file == nullptr || source_ != nullptr)
      return;
    owner_.post_work([&owner = owner_, place = place_]() mutable { owner.log_->unpin(place); });
  }

  void claim() {
    owner_.post_work([self = shared_from_this()] { self->find_place(); });
  }

  void read(uint64_t offset,
            std::vector<seams::store_buffer> buffers,
            std::function<void(status)> done) override {
    owner_.post_work([self = shared_from_this(),
                      offset,
                      buffers = std::move(buffers),
                      done = std::move(done)]() mutable {
      self->start_read(offset, std::move(buffers), std::move(done));
    });
  }

  logged_checksum checksum() const override {
    return {place_.kind, place_.checksum};
  }

 private:
  void find_place() {
    auto const held = owner_.held_readers_.find(version_);
    auto pinned = owner_.log_->pin(version_);
    if (pinned.ok()) {
      place_ = std::move(pinned).value();
    } else if (held != owner_.held_readers_.end()) {
      source_ = held->second;
      place_ = source_->place_;
    } else {
      failure_ = pinned.error();
    }
  }

  void start_read(uint64_t offset,
                  std::vector<seams::store_buffer> buffers,
                  std::function<void(status)> done) {
    if (failure_ != status::ok)
      return done(failure_);
    status const code = owner_.log_->read_pinned(
        place_, offset, std::move(buffers), [self = shared_from_this(), done](status outcome) {
          done(outcome);
        });
    if (code != status::ok)
      done(code);
  }

  durable_journal &owner_;
  uint64_t const version_;
  // Written before the first read completes.
  pool::pinned_object place_;
  std::shared_ptr<const log_reader> source_;  // has the claim, if not null
  status failure_ = status::ok;
};

std::shared_ptr<cold_reader> durable_journal::open_reader(uint64_t logged_version) {
  TND_ASSERT(options_.is_tiered && logged_version != 0);
  auto reader = std::make_shared<log_reader>(*this, logged_version);
  reader->claim();
  return reader;
}

bool durable_journal::is_writing() const {
  lock_guard lock{mutex_};
  return pending_count_ > 0;
}

uint64_t durable_journal::capacity() const {
  if (options_.size_max == ~uint64_t{0})
    return options_.size_max;
  return options_.size_max - options_.size_max / spare_share;
}

// Have the thread that drives the log call `work`, before it submits further changes.
void durable_journal::post_work(std::function<void()> work) {
  {
    lock_guard lock{mutex_};
    if (has_ended_work_)
      return;
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
}

bool durable_journal::run_work() {
  std::vector<std::function<void()>> due;
  {
    lock_guard lock{mutex_};
    due.swap(work_);
  }
  for (auto const &work : due)
    work();
  return !due.empty();
}

// Drop what was not begun. Readers that still exist do nothing from now on.
void durable_journal::end_work() {
  std::vector<std::function<void()>> dropped;
  {
    lock_guard lock{mutex_};
    has_ended_work_ = true;
    dropped.swap(work_);
  }
  held_readers_.clear();
}

void durable_journal::note_outcome(const entry &item, bool is_kept) {
  if (!options_.is_tiered)
    return;
  if (is_kept)
    note_logged(item);
  else
    hold_unmoved(item);
}

// From now on these objects may leave memory.
void durable_journal::note_logged(const entry &item) {
  for (size_t i = 0; i < item.changes.size() && i < item.transaction.size(); i++) {
    const change &update = item.changes[i];
    uint64_t const logged = item.transaction[i].meta.version;
    bool const is_there = update.type == change::kind::put && log_->find(logged).has_value();
    if (is_there)
      update.object->logged_version = logged;
    if (update.type == change::kind::remove)
      held_readers_.erase(logged);
  }
}

// The log has these objects under their previous names, and removes them with the next object that
// gets such a name. They stay in memory, or in their place in the log.
void durable_journal::hold_unmoved(const entry &item) {
  for (const change &update : item.changes) {
    if (update.type != change::kind::rename || update.object == nullptr)
      continue;
    if (update.reader != nullptr)
      held_readers_[update.object->logged_version] =
          std::static_pointer_cast<const log_reader>(update.reader);
    else
      update.object->logged_version = 0;
  }
}

}  // namespace tanada::poold
