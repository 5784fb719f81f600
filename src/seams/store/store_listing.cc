// seams/store/store_listing.cc: lists a folder by one operation, and opens its files for their
// sizes, several at a time.
#include "seams/store/store_listing.hpp"

#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

constexpr size_t open_count_max = 64;
constexpr uint32_t queue_depth = 4 * open_count_max;
constexpr uint64_t poll_interval_ns = 50'000;
constexpr uint64_t close_id = ~uint64_t{0};

class lister {
 public:
  lister(store_queue &queue, clock &time, const store_list_limits &limits)
      : queue_{queue}, time_{time}, limits_{limits} {}

  status list(const std::string &folder, std::vector<store_entry> &entries);
  status find_sizes(std::vector<store_entry> &entries);

 private:
  status post(store_op op);
  status wait(std::vector<store_completion> &done);
  status post_open(std::vector<store_entry> &entries, size_t index);
  status take(std::vector<store_entry> &entries, const store_completion &done);

  store_queue &queue_;
  clock &time_;
  store_list_limits limits_;
};

status lister::post(store_op op) {
  op.deadline_ns = limits_.deadline_ns;
  return queue_.post(std::move(op));
}

// Wait for a completion at least. The store ends an operation at its deadline, unless it hangs.
status lister::wait(std::vector<store_completion> &done) {
  done.resize(open_count_max);
  for (;;) {
    size_t const count = queue_.poll(done);
    done.resize(count == 0 ? done.size() : count);
    if (count != 0)
      return status::ok;
    if (time_.now_ns() > limits_.deadline_ns)
      return status::timed_out;
    time_.sleep_ns(poll_interval_ns);
  }
}

status lister::list(const std::string &folder, std::vector<store_entry> &entries) {
  store_op op;
  op.kind = store_op_kind::list;
  op.url = folder;
  TND_TRY(post(std::move(op)));
  std::vector<store_completion> done;
  TND_TRY(wait(done));
  TND_TRY(done[0].code);
  if (done[0].names.size() > limits_.entry_count_max)
    return fail(status::overflow,
                "{}: {} names; at most {} were requested",
                folder,
                done[0].names.size(),
                limits_.entry_count_max);
  for (std::string &name : done[0].names) {
    bool const is_folder = name.ends_with('/');
    if (name.size() > folder.size())
      entries.push_back({std::move(name), is_folder});
  }
  return status::ok;
}

status lister::post_open(std::vector<store_entry> &entries, size_t index) {
  store_op op;
  op.kind = store_op_kind::open;
  op.op_id = index;
  op.url = entries[index].url;
  op.open_flags.read = true;
  return post(std::move(op));
}

// A file that cannot be opened keeps its name. The size of one that has just been deleted is
// unknown, too.
status lister::take(std::vector<store_entry> &entries, const store_completion &done) {
  if (done.op_id == close_id)
    return status::ok;
  TND_ASSERT(done.op_id < entries.size());
  if (done.code == status::timed_out)
    return done.code;
  if (done.code != status::ok)
    return status::ok;
  entries[done.op_id].size = done.stat.size;
  store_op op;
  op.kind = store_op_kind::close;
  op.op_id = close_id;
  op.file = done.file;
  return post(std::move(op));
}

status lister::find_sizes(std::vector<store_entry> &entries) {
  std::vector<store_completion> done;
  size_t next = 0;
  while (next < entries.size() || queue_.pending_count() > 0) {
    for (; next < entries.size() && queue_.pending_count() < open_count_max; next++)
      if (!entries[next].is_folder)
        TND_TRY(post_open(entries, next));
    if (queue_.pending_count() == 0)
      continue;
    TND_TRY(wait(done));
    for (store_completion const &completion : done)
      TND_TRY(take(entries, completion));
  }
  return status::ok;
}

}  // namespace

result<std::vector<store_entry>> store_list(store &source,
                                            clock &time,
                                            const std::string &folder,
                                            const store_list_limits &limits) {
  TND_ASSERT(folder.ends_with('/'));
  auto queue = source.queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  lister work{*queue.value(), time, limits};
  std::vector<store_entry> entries;
  status code = work.list(folder, entries);
  if (code == status::ok && limits.has_sizes)
    code = work.find_sizes(entries);
  if (code != status::ok)
    return code;
  return entries;
}

}  // namespace tanada::seams
