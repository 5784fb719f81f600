#include "onesided/swap/swap_object.hpp"

#include <sys/random.h>
#include <tanada/status.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::comex::swap {

using port::store_completion;
using port::store_op;
using port::store_op_kind;

namespace {

// A name nobody else has: the process's, and what nobody guesses.
std::string unique_name() {
  uint64_t number = port::monotonic_clock().now_ns();
  (void)!getrandom(&number, sizeof number, 0);
  char text[64];
  std::snprintf(text, sizeof text, "tanada-swap-%d-%016llx", int(getpid()),
                static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

result<std::unique_ptr<swap_objects>> swap_objects::create(port::store &from,
                                                           const std::string &url, uint32_t count,
                                                           uint32_t queue_depth,
                                                           uint64_t timeout_ns) {
  std::unique_ptr<swap_objects> made{new swap_objects};
  made->url_ = url;
  made->timeout_ns_ = timeout_ns;
  auto queue = from.queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  made->queue_ = std::move(queue).value();
  std::string const base = (url.ends_with('/') ? url : url + '/') + unique_name();
  for (uint32_t i = 0; i < count; i++) {
    std::string const name = base + '-' + std::to_string(i);
    if (status const code = made->open(name); code != status::ok) {
      return fail(code, "no swap object can be made in %s: %s", url.c_str(),
                  tnd_status_text(tnd_status(code)));
    }
  }
  return made;
}

// A pool's object has its bytes apart from its name once they are changed: hence the truncation
// before the name goes.
status swap_objects::open(const std::string &name) {
  store_op op;
  op.kind = store_op_kind::open;
  op.url = name;
  op.open_flags = {.read = true,
                   .write = true,
                   .create = true,
                   .exclusive = true,
                   .direct = true,
                   .owner_only = true};
  auto const opened = perform(op);
  if (opened.code != status::ok)
    return opened.code;
  files_.push_back(opened.file);
  names_.push_back(name);
  op.kind = store_op_kind::truncate;
  op.file = opened.file;
  TND_TRY(perform(op).code);
  op.kind = store_op_kind::unlink;
  return perform(op).code;
}

store_completion swap_objects::perform(store_op op) {
  auto &time = port::monotonic_clock();
  // A deadline tells those that have not begun; one that has may take as long as it likes.
  uint64_t const limit_ns = time.now_ns() + timeout_ns_;
  store_completion done[1];
  done[0].code = queue_->post(std::move(op));
  if (done[0].code != status::ok)
    return done[0];
  while (queue_->poll(done) == 0) {
    if (time.now_ns() > limit_ns) {
      is_stuck_ = true;
      done[0].code = status::timed_out;
      return done[0];
    }
    time.sleep_ns(20'000);
  }
  return done[0];
}

// A pool publishes what is closed: nothing, and that is not to stay.
void swap_objects::close(uint32_t index) {
  store_op op;
  op.file = files_[index];
  for (auto const kind : {store_op_kind::truncate, store_op_kind::close, store_op_kind::unlink}) {
    op.kind = kind;
    op.url = names_[index];
    if (!is_stuck_)
      (void)perform(op);
  }
}

swap_objects::~swap_objects() {
  if (queue_ == nullptr)
    return;
  is_stuck_ = is_stuck_ || queue_->pending_count() != 0;
  for (uint32_t i = 0; i < count(); i++)
    close(i);
}

}  // namespace tanada::comex::swap
