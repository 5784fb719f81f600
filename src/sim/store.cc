#include "sim/store.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "seams/store/handle_table.hpp"
#include "seams/store/store_op_check.hpp"
#include "sim/store_object.hpp"

namespace tanada::sim {
namespace {

using port::store_completion;
using port::store_file;
using port::store_op;
using port::store_op_kind;

using object = store_object;

struct open_file {
  std::shared_ptr<object> what;
  bool writable;
};

// A queue's end of the operations on their way; they hold it, so that it may go before them.
struct inbox {
  std::deque<store_completion> done;
  size_t pending = 0;
  bool gone = false;
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
  name_map objects, safe_names;  // safe_names: those that a crash may go back to
  using open_files = port::handle_table<open_file>;
  std::unique_ptr<open_files> files = std::make_unique<open_files>();
  std::deque<std::shared_ptr<operation>> held;  // due while stalled
  bool stalled = false;

  status resize(object &what, uint64_t size);
  void changed(object &what);
  port::store_stat stat_of(const object &what);
  status open(const store_op &op, store_completion &done);
  void read(const object &what, const store_op &op, store_completion &done);
  status write(object &what, const store_op &op, uint64_t offset, uint64_t size,
               store_completion &done);
  status write_elsewhere(const store_op &op, uint64_t size, store_completion &done);
  status perform(const store_op &op, store_completion &done);
  status perform_on_file(const store_op &op, store_completion &done);
  status perform_faulty(const store_op &op, store_completion &done);
  void deliver(operation &which);
  void expire(operation &which);
  void complete(operation &which, store_completion done);
  std::vector<std::string> list(std::string_view prefix) const;
  void sync_names(std::string_view url);
  void crash();
};

status store::state::resize(object &what, uint64_t size) {
  uint64_t const others = used - what.bytes().size();
  if (size > what.bytes().size() && (size > faults.capacity || others > faults.capacity - size))
    return status::no_space;
  what.resize(size, faults.volatile_cache);
  return status::ok;
}

void store::state::changed(object &what) {
  what.change_count++;
  what.changed_ns = owner.now_ns();
}

port::store_stat store::state::stat_of(const object &what) {
  port::store_stat stat{.size = what.bytes().size(), .version = 0, .version_settled = true};
  uint64_t const grain = faults.version_grain_ns;
  if (grain == 0) {
    stat.version = (what.id() << 40) + what.change_count;
  } else {
    stat.version = (what.id() << 40) + what.changed_ns / grain;
    stat.version_settled = what.changed_ns / grain != owner.now_ns() / grain;
  }
  return stat;
}

void store::state::read(const object &what, const store_op &op, store_completion &done) {
  for (const auto &buffer : op.buffers) {
    uint64_t const at = op.offset + done.size;
    if (at >= what.bytes().size())
      break;
    size_t const part = std::min<size_t>(buffer.size, what.bytes().size() - size_t(at));
    auto const from = what.bytes().begin() + std::ptrdiff_t(at);
    std::copy_n(from, part, reinterpret_cast<char *>(buffer.addr));
    done.size += part;
  }
}

status store::state::open(const store_op &op, store_completion &done) {
  auto at = objects.find(op.url);
  if (at != objects.end() && op.open_flags.exclusive)
    return status::exists;
  if (at == objects.end()) {
    if (!op.open_flags.create)
      return status::no_entry;
    auto made = std::make_shared<object>(next_object_id++, used);
    changed(*made);
    at = objects.emplace(op.url, std::move(made)).first;
  } else if (op.open_flags.truncate) {
    TND_TRY(resize(*at->second, 0));
    changed(*at->second);
  }
  done.stat = stat_of(*at->second);
  bool const fits = !op.buffers.empty() && done.stat.size <= port::buffers_size(op.buffers);
  if (fits && owner.random.chance(70))
    read(*at->second, op, done);
  done.file =
      files->insert(std::make_shared<open_file>(open_file{at->second, op.open_flags.write}));
  return status::ok;
}

// The first `size` bytes of the operation's, at `offset`.
status store::state::write(object &what, const store_op &op, uint64_t offset, uint64_t size,
                           store_completion &done) {
  if (size == 0)
    return status::ok;
  TND_TRY(resize(what, std::max<uint64_t>(what.bytes().size(), offset + size)));
  uint64_t left = size;
  for (const auto &buffer : op.buffers) {
    size_t const part = size_t(std::min<uint64_t>(buffer.size, left));
    what.write(offset + (size - left), reinterpret_cast<const char *>(buffer.addr), part,
               faults.volatile_cache);
    left -= part;
  }
  changed(what);
  done.size = size;
  return status::ok;
}

status store::state::perform_on_file(const store_op &op, store_completion &done) {
  auto const file = op.kind == store_op_kind::close ? files->remove(op.file) : files->find(op.file);
  if (!file)
    return status::bad_file;
  bool const changes = op.kind == store_op_kind::write || op.kind == store_op_kind::truncate;
  if (changes && !file->writable)
    return status::bad_file;
  auto &what = *file->what;
  switch (op.kind) {
    case store_op_kind::read: read(what, op, done); return status::ok;
    case store_op_kind::write:
      return write(what, op, op.offset, port::buffers_size(op.buffers), done);
    case store_op_kind::truncate:
      TND_TRY(resize(what, op.size));
      changed(what);
      return status::ok;
    case store_op_kind::stat:
    case store_op_kind::close: done.stat = stat_of(what); return status::ok;
    case store_op_kind::sync: what.synced(); return status::ok;
    default: return status::ok;
  }
}

void store::state::sync_names(std::string_view url) {
  auto const folder = url.substr(0, url.rfind('/') + 1);
  std::erase_if(safe_names, [&](const auto &entry) { return entry.first.starts_with(folder); });
  for (auto at = objects.lower_bound(folder); at != objects.end() && at->first.starts_with(folder);
       ++at)
    safe_names.insert(*at);
}

status store::state::perform(const store_op &op, store_completion &done) {
  switch (op.kind) {
    case store_op_kind::open: return open(op, done);
    case store_op_kind::unlink: {
      auto const at = objects.find(op.url);
      if (at == objects.end())
        return status::no_entry;
      objects.erase(at);
      return status::ok;
    }
    case store_op_kind::list: done.names = list(op.url); return status::ok;
    case store_op_kind::sync_names: sync_names(op.url); return status::ok;
    default: return perform_on_file(op, done);
  }
}

status store::state::perform_faulty(const store_op &op, store_completion &done) {
  auto &random = owner.random;
  auto const &error = faults.errors[size_t(op.kind)];
  if (random.chance(error.percent)) {
    if (op.kind == store_op_kind::close)
      files->remove(op.file);  // a failed close closes nonetheless
    if (auto const file = op.kind == store_op_kind::sync ? files->find(op.file) : nullptr)
      file->what->sync_failed();
    return error.code;
  }
  if (op.kind != store_op_kind::write)
    return perform(op, done);
  uint64_t const size = port::buffers_size(op.buffers);
  if (random.chance(faults.lost_write_percent)) {
    done.size = size;
    return status::ok;
  }
  if (faults.misdirected_write_percent != 0 && random.chance(faults.misdirected_write_percent)) {
    return write_elsewhere(op, size, done);
  }
  if (!random.chance(faults.torn_write_percent) || size == 0)
    return perform(op, done);
  auto const file = files->find(op.file);
  if (!file || !file->writable)
    return status::bad_file;
  TND_TRY(write(*file->what, op, op.offset, random.below(size), done));
  return faults.torn_write_code;
}

status store::state::write_elsewhere(const store_op &op, uint64_t size, store_completion &done) {
  constexpr uint64_t grain = 4096;
  auto at = objects.begin();
  std::advance(at, std::ptrdiff_t(owner.random.below(objects.size() + 1)));
  auto const file = files->find(op.file);
  if (!file || !file->writable)
    return status::bad_file;
  object &what = at == objects.end() ? *file->what : *at->second;
  return write(what, op,
               owner.random.below(what.bytes().size() / grain + 1) * grain + op.offset % grain,
               size, done);
}

void store::state::crash() {
  files = std::make_unique<open_files>();
  held.clear();
  if (!faults.volatile_cache)
    return;
  name_map left;
  auto const keep = [&](const name_map &names, const std::string &url) {
    if (auto const at = names.find(url); at != names.end())
      left.insert(*at);
  };
  name_map all = objects;
  all.insert(safe_names.begin(), safe_names.end());
  for (const auto &[url, what] : all)
    keep(owner.random.chance(50) ? objects : safe_names, url);
  for (const auto &[url, what] : left)
    what->crash(owner.random);
  safe_names = left;
  objects = std::move(left);
}

void store::state::complete(operation &which, store_completion done) {
  which.complete = true;
  done.op_id = which.op.op_id;
  owner.note(done.op_id ^ uint64_t(uint32_t(int(done.code))) << 32 ^ done.size);
  which.target->done.push_back(std::move(done));
}

void store::state::deliver(operation &which) {
  store_completion done;
  done.code = perform_faulty(which.op, done);
  complete(which, std::move(done));
}

void store::state::expire(operation &which) {
  store_completion done;
  done.code = status::timed_out;
  auto const file = which.op.kind == store_op_kind::write ? files->find(which.op.file) : nullptr;
  uint64_t const size = port::buffers_size(which.op.buffers);
  if (file && file->writable && size != 0 && owner.random.chance(50)) {
    // As much as has reached the store when the operation was given up. A full store takes nothing.
    if (write(*file->what, which.op, which.op.offset, owner.random.below(size + 1), done) !=
        status::ok)
      done.size = 0;
  }
  complete(which, std::move(done));
}

std::vector<std::string> store::state::list(std::string_view prefix) const {
  std::vector<std::string> names;
  for (auto at = objects.lower_bound(prefix); at != objects.end(); ++at) {
    auto const name = port::listed_name(at->first, prefix);
    if (name.empty())
      break;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class store::queue final : public port::store_queue {
 public:
  queue(std::shared_ptr<state> owner, uint32_t depth) : state_{std::move(owner)}, depth_{depth} {}

  ~queue() override {
    std::lock_guard lock{state_->owner.mutex()};
    inbox_->gone = true;
  }

  status post(store_op op) override {
    std::lock_guard lock{state_->owner.mutex()};
    if (inbox_->pending >= depth_)
      return status::again;
    TND_TRY(port::op_check(op, state_->scheme));
    inbox_->pending++;
    auto const which = std::make_shared<operation>(operation{std::move(op), inbox_});
    auto &world = state_->owner;
    auto const &faults = state_->faults;
    uint64_t due_ns =
        world.now_ns() + world.random.between(faults.delay_ns_min, faults.delay_ns_max);
    if (!faults.reorder)
      due_ns = std::max(due_ns, state_->last_due_ns);
    state_->last_due_ns = std::max(due_ns, state_->last_due_ns);
    world.at(due_ns, [state = state_, which] {
      if (which->complete || which->target->gone)
        return;
      if (state->stalled)
        state->held.push_back(which);
      else
        state->deliver(*which);
    });
    if (which->op.deadline_ns != ~uint64_t{0}) {
      world.at(which->op.deadline_ns, [state = state_, which] {
        if (!which->complete && !which->target->gone)
          state->expire(*which);
      });
    }
    return status::ok;
  }

  size_t poll(std::span<store_completion> completions) override {
    std::lock_guard lock{state_->owner.mutex()};
    if (inbox_->done.empty() && inbox_->pending != 0 && state_->faults.poll_advances)
      state_->owner.step();
    size_t count = 0;
    for (; count < completions.size() && !inbox_->done.empty(); count++) {
      completions[count] = std::move(inbox_->done.front());
      inbox_->done.pop_front();
    }
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

result<std::unique_ptr<port::store_queue>> store::queue_create(uint32_t depth) {
  if (auto const code = port::queue_depth_check(depth); code != status::ok)
    return code;
  return std::unique_ptr<port::store_queue>{std::make_unique<queue>(state_, depth)};
}

void store::faults_set(const store_faults &faults) {
  std::lock_guard lock{state_->owner.mutex()};
  state_->faults = faults;
}

void store::stall() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->stalled = true;
}

void store::heal() {
  std::lock_guard lock{state_->owner.mutex()};
  state_->stalled = false;
  for (const auto &which : std::exchange(state_->held, {})) {
    state_->owner.at(state_->owner.now_ns() + 1, [state = state_, which] {
      if (which->complete || which->target->gone)
        return;
      if (state->stalled)
        state->held.push_back(which);
      else
        state->deliver(*which);
    });
  }
}

result<std::string> store::contents(const std::string &url) const {
  std::lock_guard lock{state_->owner.mutex()};
  auto const at = state_->objects.find(url);
  if (at == state_->objects.end())
    return status::no_entry;
  return at->second->bytes();
}

void store::contents_set(const std::string &url, std::string_view bytes) {
  std::lock_guard lock{state_->owner.mutex()};
  auto &what = state_->objects[url];
  if (!what)
    what = std::make_shared<object>(state_->next_object_id++, state_->used);
  what->resize(bytes.size(), false);
  what->write(0, bytes.data(), bytes.size(), false);
  what->synced();
  state_->changed(*what);
  state_->safe_names[url] = what;
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
