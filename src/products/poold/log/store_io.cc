// Store operations: queueing, timeouts and callbacks.
#include "products/poold/log/store_io.hpp"

#include <array>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t poll_pause_ns = 20'000;  // between two polls of perform()

}  // namespace

void store_io::post(seams::store_op op, done_function done) {
  waiting_.emplace_back(std::move(op), std::move(done));
  post_waiting();
}

void store_io::post_waiting() {
  while (!waiting_.empty()) {
    auto &[op, done] = waiting_.front();
    op.op_id = next_id_;
    op.deadline_ns = seams::deadline_after(clock_.now_ns(), timeout_ns_);
    auto const code = queue_->post(op);
    if (code == status::again)
      return;
    uint64_t const id = next_id_++;
    if (code != status::ok) {
      // Callbacks are not run inside post(), so a later poll() reports the rejection.
      rejected_.push_back({id, code});
    }
    bool const is_new = running_.emplace(id, std::move(done)).second;
    TND_ASSERT(is_new);
    waiting_.pop_front();
  }
}

size_t store_io::poll() {
  std::array<completion, 32> completions;
  size_t count = queue_->poll(completions);
  while (!rejected_.empty() && count < completions.size()) {
    completions[count] = {};
    completions[count].op_id = rejected_.front().first;
    completions[count++].code = rejected_.front().second;
    rejected_.pop_front();
  }
  for (size_t i = 0; i < count; i++) {
    auto node = running_.extract(completions[i].op_id);
    if (node)
      node.mapped()(completions[i]);
  }
  post_waiting();
  return count;
}

store_io::completion store_io::perform(seams::store_op op) {
  completion answer;
  if (op.kind == seams::store_op_kind::read && queue_->try_perform(op, answer))
    return answer;
  bool complete = false;
  post(std::move(op), [&](const completion &done) {
    answer = done;
    complete = true;
  });
  while (!complete) {
    if (poll() == 0)
      clock_.sleep_ns(poll_pause_ns);
  }
  return answer;
}

seams::store_op make_url_op(seams::store_op_kind kind,
                            std::string url,
                            seams::store_open_flags flags) {
  seams::store_op op;
  op.kind = kind;
  op.url = std::move(url);
  op.open_flags = flags;
  return op;
}

seams::store_op make_file_op(seams::store_op_kind kind, seams::store_file file, uint64_t size) {
  seams::store_op op;
  op.kind = kind;
  op.file = file;
  op.size = size;
  return op;
}

seams::store_op make_transfer_op(seams::store_op_kind kind,
                                 seams::store_file file,
                                 uint64_t offset,
                                 std::vector<seams::store_buffer> buffers) {
  seams::store_op op;
  op.kind = kind;
  op.file = file;
  op.offset = offset;
  op.buffers = std::move(buffers);
  return op;
}

}  // namespace tanada::pool
