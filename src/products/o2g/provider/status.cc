// Conversion of statuses and timeouts to those of libfabric, and table entries without an
// implementation.
#include "products/o2g/provider/objects.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

int error_of(status code) noexcept {
  switch (code) {
    case status::peer_lost:
      return -FI_ENOTCONN;
    case status::bad_state:
      return -FI_EOPBADSTATE;
    case status::too_many_files:
      return -FI_EMFILE;
    default:
      // other statuses are errno values, which libfabric shares
      return int(code) > -256 ? int(code) : -FI_EOTHER;
  }
}

int completion_error_of(completion_kind kind, status code) noexcept {
  switch (code) {
    case status::overflow:
      return FI_ETRUNC;
    case status::no_entry:
      // a peek found no message; or an unknown region key
      return kind == completion_kind::receive ? FI_ENOMSG : FI_ENOENT;
    case status::peer_lost:
      return FI_ECONNRESET;
    default:
      return -error_of(code);
  }
}

bool can_wait(fi_wait_obj wait_object) {
  return wait_object == FI_WAIT_NONE || wait_object == FI_WAIT_UNSPEC ||
         wait_object == FI_WAIT_FD || wait_object == FI_WAIT_YIELD;
}

uint64_t deadline_of(int timeout_ms) noexcept {
  if (timeout_ms < 0)
    return ~uint64_t{0};
  return seams::deadline_after(seams::monotonic_clock().now_ns(), uint64_t(timeout_ms) * 1'000'000);
}

int wait_control(const wait_set &waiting, int command, void *argument) {
  if (command != FI_GETWAIT || waiting.descriptor() < 0)
    return -FI_ENOSYS;
  *static_cast<int *>(argument) = waiting.descriptor();
  return 0;
}

int no_close(fid *) {
  return -FI_ENOSYS;
}
int no_bind(fid *, fid *, uint64_t) {
  return -FI_ENOSYS;
}
int no_control(fid *, int, void *) {
  return -FI_ENOSYS;
}
int no_ops_open(fid *, const char *, uint64_t, void **, void *) {
  return -FI_ENOSYS;
}

}  // namespace tanada::o2g::provider
