// The simulated store: operations on objects in memory, with faults, stalls and crashes.
#include "sim/store.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "core/base/assert.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_op_check.hpp"
#include "sim/store_object.hpp"

namespace tanada::sim {
namespace {

using seams::store_completion;
using seams::store_file;
using seams::store_op;
using seams::store_op_kind;

using object = store_object;

struct open_file {
  std::shared_ptr<object> stored;
  bool writable;
};

// The completions of a queue. Operations in flight share ownership, so that the queue may be
// destroyed before them.
struct inbox {
  std::deque<store_completion> completions;
  size_t pending = 0;
  bool is_destroyed = false;
};

struct operation {
  store_op op;
  std::shared_ptr<inbox> target;
  bool complete = false;
};

}  // namespace

struct store::state {
  explicit state(world &owner_) : owner{owner_} {}

  world &owner;
  store_faults faults;
  std::string scheme;
  uint64_t used = 0, next_object_id = 1, last_due_ns = 0;
  using name_map = std::map<std::string, std::shared_ptr<object>, std::less<>>;
  name_map objects, safe_names;  // safe_names: the names that a crash may restore
  using open_files = seams::handle_table<open_file>;
  std::unique_ptr<open_files> files = std::make_unique<open_files>();
  std::deque<std::shared_ptr<operation>> held_operations;  // due while stalled
  bool is_stalled = false;

  status resize(object &target, uint64_t size);
  void mark_changed(object &target);
  seams::store_stat stat_of(const object &target);
  status open(const store_op &op, store_completion &completion);
  void read(const object &target, const store_op &op, store_completion &completion);
  status write(object &target,
               const store_op &op,
               uint64_t offset,
               uint64_t size,
               store_completion &completion);
  status write_elsewhere(const store_op &op, uint64_t size, store_completion &completion);
  status perform(const store_op &op, store_completion &completion);
  status perform_on_file(const store_op &op, store_completion &completion);
  status perform_faulty(const store_op &op, store_completion &completion);
  void deliver(operation &pending);
  void expire(operation &pending);
  void complete(operation &pending, store_completion completion);
  std::vector<std::string> list(std::string_view prefix) const;
  void sync_names(std::string_view url);
  void crash();
};

status store::state::resize(object &target, uint64_t size) {
  TND_ASSERT(used >= target.bytes().size());
  uint64_t const others = used - target.bytes().size();
  if (size > target.bytes().size() && (size > faults.capacity || others > faults.capacity - size))
    return status::no_space;
  target.resize(size, faults.volatile_cache);
  return status::ok;
}

void store::state::mark_changed(object &target) {
  target.change_count++;
  target.changed_ns = owner.now_ns();
}

seams::store_stat store::state::stat_of(const object &target) {
  seams::store_stat stat{.size = target.bytes().size(), .version = 0, .is_version_stable = true};
  uint64_t const grain = faults.version_grain_ns;
  if (grain == 0) {
    stat.version = (target.id() << 40) + target.change_count;
  } else {
    stat.version = (target.id() << 40) + target.changed_ns / grain;
    stat.is_version_stable = target.changed_ns / grain != owner.now_ns() / grain;
  }
  return stat;
}

void store::state::read(const object &target, const store_op &op, store_completion &completion) {
  for (const auto &buffer : op.buffers) {
    uint64_t const position = op.offset + completion.size;
    if (position >= target.bytes().size())
      break;
    size_t const part = std::min<size_t>(buffer.size, target.bytes().size() - size_t(position));
    auto const begin = target.bytes().begin() + std::ptrdiff_t(position);
    std::copy_n(begin, part, reinterpret_cast<char *>(buffer.addr));
    completion.size += part;
  }
}

status store::state::open(const store_op &op, store_completion &completion) {
  auto it = objects.find(op.url);
  if (it != objects.end() && op.open_flags.exclusive)
    return status::exists;
  if (it == objects.end()) {
    if (!op.open_flags.create)
      return status::no_entry;
    auto created = std::make_shared<object>(next_object_id++, used);
    mark_changed(*created);
    it = objects.emplace(op.url, std::move(created)).first;
  } else if (op.open_flags.truncate) {
    TND_TRY(resize(*it->second, 0));
    mark_changed(*it->second);
  }
  completion.stat = stat_of(*it->second);
  bool const fits = !op.buffers.empty() && completion.stat.size <= seams::buffers_size(op.buffers);
  if (fits && owner.random.chance(70))
    read(*it->second, op, completion);
  completion.file =
      files->insert(std::make_shared<open_file>(open_file{it->second, op.open_flags.write}));
  return status::ok;
}

// Writes the first `size` bytes of the operation's data at `offset`.
status store::state::write(object &target,
                           const store_op &op,
                           uint64_t offset,
                           uint64_t size,
                           store_completion &completion) {
  if (size == 0)
    return status::ok;
  TND_TRY(resize(target, std::max<uint64_t>(target.bytes().size(), offset + size)));
  uint64_t remaining = size;
  for (const auto &buffer : op.buffers) {
    size_t const part = size_t(std::min<uint64_t>(buffer.size, remaining));
    target.write(offset + (size - remaining),
                 reinterpret_cast<const char *>(buffer.addr),
                 part,
                 faults.volatile_cache);
    remaining -= part;
  }
  mark_changed(target);
  completion.size = size;
  return status::ok;
}

status store::state::perform_on_file(const store_op &op, store_completion &completion) {
  auto const file = op.kind == store_op_kind::close ? files->remove(op.file) : files->find(op.file);
  if (!file)
    return status::bad_file;
  bool const changes = op.kind == store_op_kind::write || op.kind == store_op_kind::truncate;
  if (changes && !file->writable)
    return status::bad_file;
  auto &target = *file->stored;
  switch (op.kind) {
    case store_op_kind::read:
      read(target, op, completion);
      return status::ok;
    case store_op_kind::write:
      return write(target, op, op.offset, seams::buffers_size(op.buffers), completion);
    case store_op_kind::truncate:
      TND_TRY(resize(target, op.size));
      mark_changed(target);
      return status::ok;
    case store_op_kind::stat:
    case store_op_kind::close:
      completion.stat = stat_of(target);
      return status::ok;
    case store_op_kind::sync:
      target.mark_synced();
      return status::ok;
    default:
      return status::ok;
  }
}

void store::state::sync_names(std::string_view url) {
  auto const folder = url.substr(0, url.rfind('/') + 1);
  std::erase_if(safe_names, [&](const auto &entry) { return entry.first.starts_with(folder); });
  for (auto it = objects.lower_bound(folder); it != objects.end() && it->first.starts_with(folder);
       ++it)
    safe_names.insert(*it);
}

status store::state::perform(const store_op &op, store_completion &completion) {
  switch (op.kind) {
    case store_op_kind::open:
      return open(op, completion);
    case store_op_kind::unlink: {
      auto const it = objects.find(op.url);
      if (it == objects.end())
        return status::no_entry;
      objects.erase(it);
      return status::ok;
    }
    case store_op_kind::list:
      completion.names = list(op.url);
      return status::ok;
    case store_op_kind::sync_names:
      sync_names(op.url);
      return status::ok;
    default:
      return perform_on_file(op, completion);
  }
}

status store::state::perform_faulty(const store_op &op, store_completion &completion) {
  auto &random = owner.random;
  auto const &error = faults.errors[size_t(op.kind)];
  if (random.chance(error.percent)) {
    if (op.kind == store_op_kind::close)
      files->remove(op.file);  // a failed close still closes the file
    if (auto const file = op.kind == store_op_kind::sync ? files->find(op.file) : nullptr)
      file->stored->mark_sync_failed();
    return error.code;
  }
  if (op.kind != store_op_kind::write)
    return perform(op, completion);
  uint64_t const size = seams::buffers_size(op.buffers);
  if (random.chance(faults.lost_write_percent)) {
    completion.size = size;
    return status::ok;
  }
  if (faults.misdirected_write_percent != 0 && random.chance(faults.misdirected_write_percent)) {
    return write_elsewhere(op, size, completion);
  }
  if (!random.chance(faults.torn_write_percent) || size == 0)
    return perform(op, completion);
  auto const file = files->find(op.file);
  if (!file || !file->writable)
    return status::bad_file;
  TND_TRY(write(*file->stored, op, op.offset, random.below(size), completion));
  return faults.torn_write_code;
}

status store::state::write_elsewhere(const store_op &op,
                                     uint64_t size,
                                     store_completion &completion) {
  constexpr uint64_t grain = 4096;
  auto it = objects.begin();
  std::advance(it, std::ptrdiff_t(owner.random.below(objects.size() + 1)));
  auto const file = files->find(op.file);
  if (!file || !file->writable)
    return status::bad_file;
  object &target = it == objects.end() ? *file->stored : *it->second;
  return write(target,
               op,
               owner.random.below(target.bytes().size() / grain + 1) * grain + op.offset % grain,
               size,
               completion);
}

void store::state::crash() {
  files = std::make_unique<open_files>();
  held_operations.clear();
  if (!faults.volatile_cache)
    return;
  name_map surviving;
  auto const keep = [&](const name_map &names, const std::string &url) {
    if (auto const it = names.find(url); it != names.end())
      surviving.insert(*it);
  };
  name_map names = objects;
  names.insert(safe_names.begin(), safe_names.end());
  for (const auto &[url, entry] : names)
    keep(owner.random.chance(50) ? objects : safe_names, url);
  for (const auto &[url, entry] : surviving)
    entry->crash(owner.random);
  safe_names = surviving;
  objects = std::move(surviving);
}

void store::state::complete(operation &pending, store_completion completion) {
  TND_ASSERT(!pending.complete && pending.target->pending > pending.target->completions.size());
  pending.complete = true;
  completion.op_id = pending.op.op_id;
  owner.note(completion.op_id ^ uint64_t(uint32_t(int(completion.code))) << 32 ^ completion.size);
  pending.target->completions.push_back(std::move(completion));
}

void store::state::deliver(operation &pending) {
  store_completion completion;
  completion.code = perform_faulty(pending.op, completion);
  complete(pending, std::move(completion));
}

void store::state::expire(operation &pending) {
  store_completion completion;
  completion.code = status::timed_out;
  auto const file =
      pending.op.kind == store_op_kind::write ? files->find(pending.op.file) : nullptr;
  uint64_t const size = seams::buffers_size(pending.op.buffers);
  if (file && file->writable && size != 0 && owner.random.chance(50)) {
    // The part that had reached the store at the deadline. A full store takes nothing.
    if (write(*file->stored,
              pending.op,
              pending.op.offset,
              owner.random.below(size + 1),
              completion) != status::ok)
      completion.size = 0;
  }
  complete(pending, std::move(completion));
}

std::vector<std::string> store::state::list(std::string_view prefix) const {
  std::vector<std::string> names;
  for (auto it = objects.lower_bound(prefix); it != objects.end(); ++it) {
    auto const name = seams::listed_name(it->first, prefix);
    if (name.empty())
      break;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class store::queue final : public seams::store_queue {
 public:
  queue(std::shared_ptr<state> owner, uint32_t depth) : state_{std::move(owner)}, depth_{depth} {}

  ~queue() override {
    std::lock_guard lock{state_->owner.mutex()};
    inbox_->is_destroyed = true;
  }

  status post(store_op op) override {
    std::lock_guard lock{state_->owner.mutex()};
    if (inbox_->pending >= depth_)
      return status::again;
    TND_TRY(seams::op_check(op, state_->scheme));
    inbox_->pending++;
    auto const pending = std::make_shared<operation>(operation{std::move(op), inbox_});
    auto &world = state_->owner;
    auto const &faults = state_->faults;
    uint64_t due_ns =
        world.now_ns() + world.random.between(faults.delay_ns_min, faults.delay_ns_max);
    if (!faults.reorder)
      due_ns = std::max(due_ns, state_->last_due_ns);
    state_->last_due_ns = std::max(due_ns, state_->last_due_ns);
    world.schedule(due_ns, [state = state_, pending] {
      if (pending->complete || pending->target->is_destroyed)
        return;
      if (state->is_stalled)
        state->held_operations.push_back(pending);
      else
        state->deliver(*pending);
    });
    if (pending->op.deadline_ns != ~uint64_t{0}) {
      world.schedule(pending->op.deadline_ns, [state = state_, pending] {
        if (!pending->complete && !pending->target->is_destroyed)
          state->expire(*pending);
      });
    }
    return status::ok;
  }

  size_t poll(std::span<store_completion> completions) override {
    std::lock_guard lock{state_->owner.mutex()};
    if (inbox_->completions.empty() && inbox_->pending != 0 && state_->faults.poll_advances)
      state_->owner.step();
    size_t count = 0;
    for (; count < completions.size() && !inbox_->completions.empty(); count++) {
      completions[count] = std::move(inbox_->completions.front());
      inbox_->completions.pop_front();
    }
    TND_ASSERT(inbox_->pending >= count);
    inbox_->pending -= count;
    return count;
  }

  size_t pending_count() const noexcept override {
    std::lock_guard lock{state_->owner.mutex()};
    return inbox_->pending;
  }

 private:
  std::shared_ptr<state> state_;
  std::shared_ptr<inbox> inbox_ = std::make_shared<inbox>();
  size_t depth_;
};

store::store(world &owner, store_faults faults, std::string scheme)
    : state_{std::make_shared<state>(owner)} {
  state_->faults = faults;
  state_->scheme = std::move(scheme);
}

store::~store() = default;

std::string_view store::scheme() const noexcept {
  return state_->scheme;
}

result<std::unique_ptr<seams::store_queue>> store::queue_create(uint32_t depth) {
  if (auto const code = seams::queue_depth_check(depth); code != status::ok)
    return code;
  return std::unique_ptr<seams::store_queue>{std::make_unique<queue>(state_, depth)};
}

void store::faults_set(const store_faults &faults) {
  std::lock_guard lock{state_->owner.mutex()};
  state_->faults = faults;
}

void store::stall() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->is_stalled = true;
}

void store::heal() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->is_stalled = false;
  for (const auto &pending : std::exchange(state_->held_operations, {})) {
    state_->owner.schedule(state_->owner.now_ns() + 1, [state = state_, pending] {
      if (pending->complete || pending->target->is_destroyed)
        return;
      if (state->is_stalled)
        state->held_operations.push_back(pending);
      else
        state->deliver(*pending);
    });
  }
}

result<std::string> store::contents(const std::string &url) const {
  std::lock_guard lock{state_->owner.mutex()};
  auto const it = state_->objects.find(url);
  if (it == state_->objects.end())
    return status::no_entry;
  return it->second->bytes();
}

void store::contents_set(const std::string &url, std::string_view bytes) {
  std::lock_guard lock{state_->owner.mutex()};
  auto &target = state_->objects[url];
  if (!target)
    target = std::make_shared<object>(state_->next_object_id++, state_->used);
  target->resize(bytes.size(), false);
  target->write(0, bytes.data(), bytes.size(), false);
  target->mark_synced();
  state_->mark_changed(*target);
  state_->safe_names[url] = target;
}

uint64_t store::used_size() const {
  std::lock_guard lock{state_->owner.mutex()};
  return state_->used;
}

void store::close_files() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->files = std::make_unique<state::open_files>();
}

void store::crash() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->crash();
}

}  // namespace tanada::sim
