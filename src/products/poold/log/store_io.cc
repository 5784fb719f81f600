#include "products/poold/log/store_io.hpp"

#include <array>

namespace tanada::pool {
namespace {

constexpr uint64_t io_nap_ns = 20'000;  // of whoever waits for one operation

}  // namespace

void store_io::post(port::store_op op, done_function done) {
  waiting_.emplace_back(std::move(op), std::move(done));
  post_waiting();
}

void store_io::post_waiting() {
  while (!waiting_.empty()) {
    auto &[op, done] = waiting_.front();
    op.op_id = next_id_;
    op.deadline_ns = port::deadline_after(clock_.now_ns(), timeout_ns_);
    auto const code = queue_->post(op);
    if (code == status::again)
      return;
    uint64_t const id = next_id_++;
    if (code != status::ok) {
      // Refused for good. Nothing is told from inside a post, so it waits as a completion of ours.
      refused_.push_back({id, code});
    }
    running_.emplace(id, std::move(done));
    waiting_.pop_front();
  }
}

size_t store_io::poll() {
  std::array<completion, 32> completions;
  size_t count = queue_->poll(completions);
  while (!refused_.empty() && count < completions.size()) {
    completions[count] = {};
    completions[count].op_id = refused_.front().first;
    completions[count++].code = refused_.front().second;
    refused_.pop_front();
  }
  for (size_t i = 0; i < count; i++) {
    auto node = running_.extract(completions[i].op_id);
    if (node)
      node.mapped()(completions[i]);
  }
  post_waiting();
  return count;
}

store_io::completion store_io::perform(port::store_op op) {
  completion answer;
  if (op.kind == port::store_op_kind::read && queue_->try_perform(op, answer))
    return answer;
  bool complete = false;
  post(std::move(op), [&](const completion &done) {
    answer = done;
    complete = true;
  });
  while (!complete) {
    if (poll() == 0)
      clock_.sleep_ns(io_nap_ns);
  }
  return answer;
}

port::store_op on_url(port::store_op_kind kind, std::string url, port::store_open_flags flags) {
  port::store_op op;
  op.kind = kind;
  op.url = std::move(url);
  op.open_flags = flags;
  return op;
}

port::store_op on_file(port::store_op_kind kind, port::store_file file, uint64_t size) {
  port::store_op op;
  op.kind = kind;
  op.file = file;
  op.size = size;
  return op;
}

port::store_op transfer(port::store_op_kind kind, port::store_file file, uint64_t offset,
                        std::vector<port::store_buffer> buffers) {
  port::store_op op;
  op.kind = kind;
  op.file = file;
  op.offset = offset;
  op.buffers = std::move(buffers);
  return op;
}

}  // namespace tanada::pool
