#include "products/pool/client/client.hpp"

#include <sys/mman.h>

#include "backends/sockets/socket_stream.hpp"
#include "products/pool/checksum.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t tell_period_ns = 1'000'000'000;
constexpr int try_count_max = 3;                                        // of a handshake
constexpr uint64_t retry_ns = 20'000'000;                               // before the second one
constexpr uint64_t untold_count_max = 64, untold_size_max = 256 << 10;  // reads, bytes of one

}  // namespace

client::client(address where, client_settings settings)
    : where_{std::move(where)}, settings_{std::move(settings)}, segments_{[this](uint32_t number) {
        return borrow(number);
      }} {}

client::~client() {
  drop_connection();
  fabric_.reset();
  clear_segments();
}

result<std::unique_ptr<client>> client::connect(const address &where, client_settings settings) {
  std::unique_ptr<client> made{new client{where, std::move(settings)}};
  TND_TRY(made->connect_once(made->deadline()));
  return made;
}

uint64_t client::deadline() const {
  return port::deadline_after(port::monotonic_clock().now_ns(), settings_.timeout_ns);
}

// Over the UNIX socket where the daemon is on this node.
result<std::unique_ptr<port::stream>> client::dial(uint64_t deadline_ns, bool &is_closed) {
  dial_reason_.clear();
  if (settings_.dial)
    return settings_.dial(deadline_ns);
  auto connection = port::tcp_connect(where_.host, where_.port, deadline_ns);
  if (!connection.ok() || !settings_.shared_memory || !port::is_to_this_node(*connection.value()))
    return connection;
  // The socket's name has the port's number, and that port may be one that leads to another node's
  // daemon. A daemon with one place left takes the socket's connection in place of this one, so
  // that its id has to be known before.
  auto id = channel::identify(connection.value(), deadline_ns);
  is_closed = id.error() == status::peer_lost;
  if (!id.ok())
    return id.error();
  auto local = port::unix_connect(unix_name(where_.port), deadline_ns);
  if (!local.ok())
    return connection;
  auto local_id = channel::identify(local.value(), deadline_ns);
  if (local_id.ok() && id.value() == local_id.value())
    return local;
  dial_reason_ = "port " + std::to_string(where_.port) +
                 " leads to another pool than this node's socket of that number";
  return connection;
}

// A daemon that gets very many connections at a time closes some whose handshake is not done: then
// another try is worth it.
result<std::unique_ptr<channel>> client::greet(uint64_t deadline_ns) {
  const key *const with = settings_.with ? &*settings_.with : nullptr;
  for (int tries = 1;; tries++) {
    bool is_closed = false;
    auto connection = dial(deadline_ns, is_closed);
    if (!connection.ok() && !is_closed)
      return connection.error();
    if (connection.ok()) {
      auto opened = channel::open(std::move(connection).value(), where_.space, with, deadline_ns);
      if (opened.error() != status::peer_lost)
        return opened;
    }
    if (settings_.dial || tries == try_count_max)
      return status::peer_lost;
    port::monotonic_clock().sleep_ns(retry_ns * uint64_t(tries));
  }
}

status client::connect_once(uint64_t deadline_ns) {
  auto opened = greet(deadline_ns);
  if (!opened.ok())
    return opened.error();
  channel_ = std::move(opened).value();
  epoch_++;
  shared_ = channel_->terms().shares_memory != 0;
  reason_ = settings_.shared_memory ? channel_->terms().reason : "shared memory is turned off";
  if (!dial_reason_.empty())
    reason_ = dial_reason_;
  if (!shared_) {
    join_fabric();
    return status::ok;
  }
  descriptor const counters{channel_->take_descriptor()};
  void *const addr = mmap(nullptr, sizeof(name_counters), PROT_READ, MAP_SHARED, counters.get(), 0);
  shared_ = addr != MAP_FAILED;
  if (shared_)
    counters_ = static_cast<const name_counters *>(addr);
  else
    reason_ = "the daemon's counters cannot be mapped";
  prepare_device();
  return status::ok;
}

void client::drop_connection() {
  // The memory of requests that were never reaped may be gone: then nothing more is said.
  if (channel_ != nullptr && !channel_->is_broken() && channel_->is_idle()) {
    tell_reads(true);
    (void)channel_->progress(0);
  }
  cache_.clear();
  cached_.clear();
  cached_size_ = 0;
  if (counters_ != nullptr)
    munmap(const_cast<name_counters *>(counters_), sizeof(name_counters));
  counters_ = nullptr;
  if (channel_ != nullptr)
    channel_->end(status::peer_lost);
  channel_.reset();
}

void client::clear_segments() {
  if (device_ != nullptr)
    device_->release(segments_.take_device_mappings());
  segments_.clear();
  ahead_.clear();
  ahead_used_ = 0;
}

status client::ready() {
  if (channel_ != nullptr && !channel_->is_broken())
    return status::ok;
  drop_connection();
  // Mappings of a daemon that has gone are nobody's: views that the caller still holds keep their
  // memory.
  clear_segments();
  return connect_once(deadline());
}

status client::usable(const open_object &object) const {
  bool const same = object.epoch == epoch_ && channel_ != nullptr && !channel_->is_broken();
  return same ? status::ok
              : fail(status::stale, "the connection that this handle was opened on has ended");
}

tnd_pool_path client::path() const {
  if (shared_)
    return TND_POOL_PATH_SHARED_MEMORY;
  return fabric_ != nullptr ? fabric_path() : stream_path();
}

tnd_pool_path client::stream_path() const {
  return channel_ != nullptr && channel_->connection().is_local() ? TND_POOL_PATH_UNIX
                                                                  : TND_POOL_PATH_TCP;
}

tnd_pool_path client::fabric_path() const {
  return fabric_->path() == port::fabric_path::rdma ? TND_POOL_PATH_RDMA : TND_POOL_PATH_FABRIC;
}

transfer_path client::mapping_path(bool on_device, bool is_staged) {
  bool const is_direct = on_device && !is_staged;
  return {is_direct ? TND_POOL_PATH_GPU_DIRECT : TND_POOL_PATH_SHARED_MEMORY, is_staged};
}

void client::count_mapped(transfer_path by, uint64_t size, bool to_pool) {
  traffic_.add(by, size, to_pool);
  if (to_pool)
    return;
  (by.path == TND_POOL_PATH_GPU_DIRECT ? untold_.device_size : untold_.host_size) += size;
  // A look at the clock costs as much as a small copy.
  if (++untold_count_ % untold_count_max == 0 || size >= untold_size_max)
    tell_reads(false);
}

void client::tell_reads(bool at_once) {
  if (untold_.host_size + untold_.device_size == 0)
    return;
  uint64_t const now_ns = port::monotonic_clock().now_ns();
  if (!at_once && now_ns < told_ns_ + tell_period_ns)
    return;
  channel_->post(kind::mapped_reads, std::exchange(untold_, {}), {}, {}, {});
  (void)channel_->progress(0);
  told_ns_ = now_ns;
}

// Without a fabric bytes go by the stream; the reason says why.
void client::join_fabric() {
  if (settings_.fabric.empty())
    return;
  status code = status::ok;
  if (fabric_ == nullptr) {
    auto opened = fabric_link::open(settings_.fabric);
    if (opened.ok())
      fabric_ = std::move(opened).value();
    else
      code = opened.error();
  }
  fabric_request out;
  fabric_reply in;
  if (code == status::ok) {
    out.provider = settings_.fabric;
    out.address = fabric_->address();
    code = call(kind::fabric, out, in);
  }
  if (code == status::ok)
    code = prove_endpoint(in.tag);
  if (code == status::ok) {
    bool const is_rdma = fabric_path() == TND_POOL_PATH_RDMA;
    reason_ = is_rdma ? "" : settings_.fabric + " copies in software";
    return;
  }
  fabric_.reset();
  reason_ = last_message();
}

status client::prove_endpoint(const bytes32 &tag) {
  uint64_t const deadline_ns = port::deadline_after(
      port::monotonic_clock().now_ns(), std::min(settings_.timeout_ns, fabric_proof_ns));
  auto secret = fabric_->await_secret(tag, deadline_ns);
  if (!secret.ok())
    return secret.error();
  empty_message in;
  return call(kind::fabric_proof, fabric_proof{secret.value()}, in);
}

status client::keep_registered(void *addr, uint64_t size, bool on_device) {
  TND_TRY(ready());
  if (fabric_ == nullptr || (on_device && !fabric_->reaches_devices()))
    return status::ok;
  status const code = fabric_->keep(static_cast<std::byte *>(addr), size, on_device);
  return on_device && code == status::not_supported ? status::ok : code;  // its bytes are staged
}

status client::forget_registered(void *addr) {
  if (fabric_ == nullptr)
    return status::ok;
  status const code = fabric_->forget(static_cast<std::byte *>(addr));
  return code == status::no_entry ? status::ok : code;
}

result<lent_segment> client::borrow(uint32_t segment) {
  lent_segment lent;
  TND_TRY(call(kind::segment, segment_request{segment}, lent.about));
  lent.file = descriptor{channel_->take_descriptor()};
  if (lent.file.get() < 0)
    return status::protocol;
  return lent;
}

status client::named(status code, const std::string &name) const {
  // What is no answer has no words.
  if (code == status::ok || code == status::protocol)
    return code;
  std::string const said = last_message();
  set_last_message(space_url(where_) + (name.empty() ? "" : "/" + name) + ": " + said);
  return code;
}

status client::device_ready() {
  if (device_ != nullptr)
    return status::ok;
  auto opened = settings_.open_device(settings_.device_index);
  if (!opened.ok())
    return opened.error();
  device_ = std::move(opened).value();
  return status::ok;
}

// Handles that only this library's cache has are given back before a caller is refused one.
template <class Request>
status client::call_for_handle(kind what, const Request &request, object_reply &in) {
  status const code = call(what, request, in);
  if (code != status::too_many_files || cache_.empty())
    return code;
  while (!cache_.empty())
    forget(cache_.begin());
  return call(what, request, in);
}

status client::create(const std::string &name, uint64_t size, uint32_t flags,
                      const std::string &set, open_object &made) {
  object_reply in;
  create_request out;
  out.name = name;
  out.set = set;
  out.size = size;
  out.flags = flags;
  TND_TRY(call_for_handle(kind::create, out, in));
  made = {.epoch = epoch_,
          .handle = in.handle,
          .name = name,
          .is_writer = true,
          .in_set = !set.empty(),
          .about = in.about,
          .pieces = std::move(in.pieces),
          .written = {}};
  return status::ok;
}

status client::open(const std::string &name, uint64_t version, open_object &made) {
  object_reply in;
  open_request out;
  out.name = name;
  out.version = version;
  TND_TRY(call_for_handle(kind::open, out, in));
  made = {.epoch = epoch_,
          .handle = in.handle,
          .name = name,
          .about = in.about,
          .pieces = std::move(in.pieces),
          .written = {}};
  return status::ok;
}

void client::close(open_object &object) {
  if (object.view_size > 0)
    munmap(object.view, object.view_size);
  object.view = nullptr;
  object.view_size = 0;
  object.hold.reset();
  if (object.handle == 0 || object.epoch != epoch_ || channel_ == nullptr || channel_->is_broken())
    return;
  channel_->post(kind::close, handle_request{object.handle}, {}, {}, {});
  (void)channel_->progress(0);
  object.handle = 0;
}

status client::resize(open_object &object, uint64_t size) {
  TND_TRY(usable(object));
  if (!object.is_writer)
    return status::bad_file;
  TND_TRY(tell_written(object));
  object_reply in;
  TND_TRY(named(call(kind::resize, resize_request{object.handle, size}, in), object.name));
  object.pieces = std::move(in.pieces);
  object.about.size = in.about.size;
  object.covered_size = std::min(object.covered_size, size);
  return status::ok;
}

status client::tell_written(open_object &object) {
  if (object.written.empty())
    return status::ok;
  channel_->post(kind::note, ranges_request{object.handle, std::exchange(object.written, {})}, {},
                 {}, {});
  return status::ok;
}

status client::commit(open_object &object, commit_terms terms, uint64_t &version) {
  TND_TRY(usable(object));
  if (!object.is_writer)
    return status::bad_file;
  TND_TRY(sum_written(object, terms));
  TND_TRY(tell_written(object));
  info_reply in;
  TND_TRY(named(call(kind::commit, commit_request{object.handle, terms}, in), object.name));
  object.is_writer = false;
  object.about = in.about;
  version = in.about.version;
  return status::ok;
}

status client::map(open_object &object, const void *&addr, uint64_t &size) {
  TND_TRY(usable(object));
  if (!shared_)
    return fail(status::not_supported, "no shared memory with the pool: %s", reason_.c_str());
  if (object.is_writer)
    return status::bad_file;
  if (object.view == nullptr && object.about.size > 0) {
    bool own = false;
    auto view = segments_.contiguous(object.pieces, object.about.size, own, object.hold);
    if (!view.ok())
      return view.error();
    object.view = view.value();
    if (own) {
      for (const piece &one : object.pieces)
        object.view_size += one.size;
      object.view_size = (object.view_size + 4095) & ~uint64_t{4095};
    }
  }
  addr = object.view;
  size = object.about.size;
  traffic_.add_map(size);
  return status::ok;
}

status client::set_commit(const std::string &set, uint64_t count, uint32_t flags) {
  empty_message in;
  set_commit_request out;
  out.set = set;
  out.count = count;
  out.flags = flags;
  return call(kind::set_commit, out, in);
}

status client::stat(const std::string &name, uint64_t version, info &about) {
  info_reply in;
  open_request out;
  out.name = name;
  out.version = version;
  TND_TRY(call(kind::stat, out, in));
  about = in.about;
  return status::ok;
}

status client::list_some(const std::string &prefix, const std::string &after, list_reply &found) {
  list_request out;
  out.prefix = prefix;
  out.after = after;
  return call(kind::list, out, found);
}

status client::rename(const std::string &name, const std::string &new_name, uint32_t flags) {
  empty_message in;
  rename_request out;
  out.name = name;
  out.new_name = new_name;
  out.flags = flags;
  return call(kind::rename, out, in);
}

status client::remove(const std::string &name, uint32_t flags) {
  empty_message in;
  flags_request out;
  out.name = name;
  out.flags = flags;
  return call(kind::remove, out, in);
}

status client::set_flags(const std::string &name, uint32_t flags) {
  empty_message in;
  flags_request out;
  out.name = name;
  out.flags = flags;
  return call(kind::set_flags, out, in);
}

status client::statistics(statistics_reply &found) {
  return call(kind::statistics, empty_message{}, found);
}

status client::spaces_some(const std::string &only, const std::string &after, spaces_reply &found) {
  spaces_request out;
  out.only = only;
  out.after = after;
  return call(kind::spaces, out, found);
}

}  // namespace tanada::pool
