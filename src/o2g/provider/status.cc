#include "o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

int error_of(status code) noexcept {
  switch (code) {
    case status::peer_lost: return -FI_ENOTCONN;
    case status::bad_state: return -FI_EOPBADSTATE;
    case status::too_many_files: return -FI_EMFILE;
    default: return int(code) > -256 ? int(code) : -FI_EOTHER;  // the rest are errno's numbers, as libfabric's
  }
}

int completion_error_of(status code) noexcept {
  switch (code) {
    case status::overflow: return FI_ETRUNC;
    case status::no_entry: return FI_ENOMSG;
    case status::peer_lost: return FI_ECONNRESET;
    default: return -error_of(code);
  }
}

int no_close(fid *) { return -FI_ENOSYS; }
int no_bind(fid *, fid *, uint64_t) { return -FI_ENOSYS; }
int no_control(fid *, int, void *) { return -FI_ENOSYS; }
int no_ops_open(fid *, const char *, uint64_t, void **, void *) { return -FI_ENOSYS; }

}  // namespace tanada::o2g::provider
