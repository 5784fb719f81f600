// Endpoints of the provider: setup, options, and completions from the engine to queues and
// counters.
#include <tanada/o2g_driver.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "core/base/assert.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/base/settings.hpp"
#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

endpoint &of_fid(fid *id) {
  return endpoint::from_fid(reinterpret_cast<fid_ep *>(id));
}

// Releases a queue or counter, which can be closed once it has no users.
template <class T>
void release(T *object, engine *bound_engine) {
  if (object == nullptr)
    return;
  if (bound_engine != nullptr)
    object->waiting.detach(bound_engine);
  remove_user(*object);
}

template <class T>
void bind_slot(T *&slot, T &object) {
  if (slot != nullptr)
    remove_user(*slot);
  slot = &object;
  object.users++;
}

int endpoint_close(fid *id) {
  endpoint *const closed = &of_fid(id);
  closed->stage = endpoint::lifecycle::closed;
  if (address_vector *const address_table = closed->addresses; address_table != nullptr) {
    lock_guard const lock{address_table->mutex};
    std::erase(address_table->endpoints, closed);
    remove_user(*address_table);
  }
  release(closed->tx_queue, closed->o2g_engine.get());
  release(closed->rx_queue, closed->o2g_engine.get());
  for (counter *const bound : closed->counters())
    release(bound, closed->o2g_engine.get());
  remove_user(*closed->parent);
  delete closed;
  return 0;
}

int bind_queue(endpoint &target, completion_queue &queue, uint64_t flags) {
  bool const is_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & (FI_TRANSMIT | FI_RECV)) == 0)
    return -FI_EINVAL;
  if ((flags & FI_TRANSMIT) != 0) {
    bind_slot(target.tx_queue, queue);
    target.tx_selective = is_selective;
  }
  if ((flags & FI_RECV) != 0) {
    bind_slot(target.rx_queue, queue);
    target.rx_selective = is_selective;
  }
  return 0;
}

int bind_counter(endpoint &target, counter &bound, uint64_t flags) {
  if ((flags & FI_SEND) != 0)
    bind_slot(target.sends, bound);
  if ((flags & FI_RECV) != 0)
    bind_slot(target.receives, bound);
  if ((flags & FI_READ) != 0)
    bind_slot(target.reads, bound);
  if ((flags & FI_WRITE) != 0)
    bind_slot(target.writes, bound);
  if ((flags & FI_REMOTE_READ) != 0)
    bind_slot(target.remote_reads, bound);
  if ((flags & FI_REMOTE_WRITE) != 0)
    bind_slot(target.remote_writes, bound);
  return 0;
}

int endpoint_bind(fid *id, fid *object, uint64_t flags) {
  endpoint &target = of_fid(id);
  if (target.o2g_engine != nullptr)
    return -FI_EOPBADSTATE;
  switch (object->fclass) {
    case FI_CLASS_CQ:
      return bind_queue(target, *reinterpret_cast<completion_queue *>(object), flags);
    case FI_CLASS_CNTR:
      return bind_counter(target, *reinterpret_cast<counter *>(object), flags);
    case FI_CLASS_EQ:
      return 0;  // connectionless endpoints report no events
    case FI_CLASS_AV:
      bind_slot(target.addresses, *reinterpret_cast<address_vector *>(object));
      return 0;
    default:
      return -FI_EINVAL;
  }
}

// Read the settings of all endpoints (docs/o2g.md).
status read_settings(engine_options &options, seams::stream_set_options &streams) {
  TND_TRY(settings_check());
  TND_TRY(environment_size("TND_O2G_DUMP_SOFT", options.unexpected_size_soft));
  TND_TRY(environment_size("TND_O2G_DUMP_HARD", options.unexpected_size_hard));
  TND_TRY(environment_size("TND_O2G_SEND_QUEUE", options.send_queue_size));
  TND_TRY(environment_duration_ns("TND_O2G_CONNECT_TIMEOUT", options.connect_timeout_ns));
  TND_TRY(environment_duration_ns("TND_O2G_LOST_AFTER", streams.peer_timeout_ns));
  TND_TRY(environment_duration_ns("TND_O2G_TICK", options.tick_ns));
  TND_TRY(environment_duration_ns("TND_O2G_SLEEP_MAX", options.sleep_ns_max));
  if (const char *const cookie = std::getenv("TND_O2G_COOKIE"); cookie != nullptr)
    options.cookie = cookie;
  return status::ok;
}

// TND_O2G_RECEIVE=select: receive only in the calls of the program, by select. settings_check() has
// refused other words.
bool receives_by_select() {
  const char *const setting = std::getenv("TND_O2G_RECEIVE");
  return setting != nullptr && std::string_view{setting} == "select";
}

result<std::unique_ptr<seams::stream_set>> create_streams(
    const seams::stream_set_options &options) {
  return receives_by_select() ? seams::select_stream_set_create(options)
                              : seams::stream_set_create(options);
}

// Add the address vector's current addresses, and subscribe to those inserted later.
status add_all_peers(endpoint &self) {
  lock_guard const lock{self.addresses->mutex};
  auto const &entries = self.addresses->entries;
  for (size_t i = 0; i < entries.size(); i++)
    if (entries[i].count != 0)
      TND_TRY(self.add_peer(i, entries[i].address));
  self.addresses->endpoints.push_back(&self);
  return status::ok;
}

// Log that a program uses o2g, and with which settings.
void log_opened(const endpoint &self,
                const engine_options &options,
                const std::string &engine_name) {
  log(log_level::info,
      "o2g: the endpoint {} is open, driven by {}; unexpected messages: credit for {} bytes, "
      "limit {} bytes; {} cookie; {}",
      to_text(self.source),
      engine_name,
      options.unexpected_size_soft,
      options.unexpected_size_hard,
      options.cookie.empty() ? "no" : "a",
      options.sleep_ns_max == 0 ? "polls do not sleep" : "polls may sleep");
}

// Only sets on epoll lend their sockets to the driver.
result<message_driver_choice> choose_driver(const seams::stream_set_options &streams,
                                            const std::string &engine_name) {
  char const *const setting = std::getenv("TND_O2G_DRIVER");
  if (engine_name == "epoll")
    return message_driver_create(streams.connection_count_max, setting, O2G_DRIVER_PATH);
  if (setting != nullptr && std::string_view{setting} == "required")
    return fail(status::not_supported,
                "TND_O2G_DRIVER=required: connections driven by {} cannot use the driver",
                engine_name);
  return message_driver_choice{nullptr, "connections are driven by " + engine_name};
}

engine_options options_of(const endpoint &self) {
  engine_options options;
  options.listen_address = self.source;
  options.reports_remote = (self.caps & FI_RMA_EVENT) != 0 || self.remote_reads != nullptr ||
                           self.remote_writes != nullptr;
  return options;
}

// Threads that read the bound queues and counters make the engine's progress from now on.
void attach_waiters(endpoint &self) {
  TND_ASSERT(self.o2g_engine != nullptr);
  for (completion_queue *const queue : {self.tx_queue, self.rx_queue})
    if (queue != nullptr)
      queue->waiting.attach(self.o2g_engine.get());
  for (counter *const bound : self.counters())
    if (bound != nullptr)
      bound->waiting.attach(self.o2g_engine.get());
}

// Create the engine, with the driver if it can be used.
status create_engine(endpoint &self) {
  engine_options options = options_of(self);
  seams::stream_set_options streams;
  streams.may_skip_idle = !self.has_automatic_progress;
  TND_TRY(read_settings(options, streams));
  options.has_thread = !receives_by_select();
  TND_ASSIGN(std::unique_ptr<seams::stream_set> set, create_streams(streams));
  std::string const engine_name = set->name();
  TND_ASSIGN(message_driver_choice choice, choose_driver(streams, engine_name));
  bool const has_driver = choice.driver != nullptr;
  TND_ASSIGN(
      self.o2g_engine,
      engine::create(std::move(set), options, self, self.parent->memory, std::move(choice.driver)));
  self.source = self.o2g_engine->address();
  log_opened(self, options, engine_name);
  log(log_level::info,
      "o2g: {} matches tagged messages{}",
      has_driver ? "the driver " O2G_DRIVER_PATH : "this process",
      has_driver ? "" : ", and not the driver: " + choice.reason);
  return status::ok;
}

int open_engine(endpoint &self) {
  TND_ASSERT(self.o2g_engine == nullptr && self.addresses != nullptr);
  TND_ASSERT(self.stage == endpoint::lifecycle::created);
  if (status const created = create_engine(self); created != status::ok)
    return error_of(created);
  self.stage = endpoint::lifecycle::open;
  self.stage.notify_all();
  if (status const peer_status = add_all_peers(self); peer_status != status::ok) {
    self.destroy_engine();
    return error_of(peer_status);
  }
  attach_waiters(self);
  return 0;
}

int enable(endpoint &self) {
  if (self.o2g_engine != nullptr)
    return 0;
  if (self.addresses == nullptr)
    return -FI_ENOAV;
  bool const has_sink =
      self.tx_queue != nullptr || self.rx_queue != nullptr ||
      std::ranges::any_of(self.counters(), [](const counter *bound) { return bound != nullptr; });
  if (!has_sink)
    return -FI_ENOCQ;
  set_last_message({});
  int const code = open_engine(self);
  if (code != 0)
    log(log_level::error,
        "o2g: fi_enable cannot open the endpoint at {}: {}{}{}",
        to_text(self.source),
        std::strerror(-code),
        last_message().empty() ? "" : ": ",
        last_message());
  return code;
}

int endpoint_control(fid *id, int command, void *argument) {
  endpoint &self = of_fid(id);
  switch (command) {
    case FI_ENABLE:
      return enable(self);
    case FI_GETOPSFLAG: {
      auto *const flags = static_cast<uint64_t *>(argument);
      if ((*flags & FI_TRANSMIT) != 0) {
        *flags = self.tx_flags;
        return 0;
      }
      if ((*flags & FI_RECV) != 0) {
        *flags = self.rx_flags;
        return 0;
      }
      return -FI_EINVAL;
    }
    case FI_SETOPSFLAG: {
      uint64_t const flags = *static_cast<uint64_t *>(argument);
      if ((flags & FI_TRANSMIT) != 0) {
        self.tx_flags = flags & ~FI_TRANSMIT;
        return 0;
      }
      if ((flags & FI_RECV) != 0) {
        self.rx_flags = flags & ~FI_RECV;
        return 0;
      }
      return -FI_EINVAL;
    }
    default:
      return -FI_ENOSYS;
  }
}

ssize_t cancel(fid *id, void *context) {
  endpoint &self = of_fid(id);
  if (self.o2g_engine == nullptr)
    return -FI_EOPBADSTATE;
  status const code = self.o2g_engine->cancel(context);
  return code == status::no_entry ? -FI_ENOENT : error_of(code);
}

int get_option(fid *id, int level, int option, void *value, size_t *size) {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
    return -FI_ENOPROTOOPT;
  if (*size < sizeof(size_t))
    return -FI_ETOOSMALL;
  std::memcpy(value, &of_fid(id).multi_receive_size_min, sizeof(size_t));
  *size = sizeof(size_t);
  return 0;
}

int set_option(fid *id, int level, int option, const void *value, size_t size) {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
    return -FI_ENOPROTOOPT;
  if (size != sizeof(size_t))
    return -FI_EINVAL;
  std::memcpy(&of_fid(id).multi_receive_size_min, value, size);
  return 0;
}

int no_context(fid_ep *, int, fi_tx_attr *, fid_ep **, void *) {
  return -FI_ENOSYS;
}
int no_rx_context(fid_ep *, int, fi_rx_attr *, fid_ep **, void *) {
  return -FI_ENOSYS;
}
ssize_t no_size_left(fid_ep *) {
  return -FI_ENOSYS;
}

int set_name(fid *id, void *address, size_t size) {
  endpoint &self = of_fid(id);
  if (self.o2g_engine != nullptr)
    return -FI_EOPBADSTATE;
  auto parsed = seams::socket_address_from(address, size);
  if (!parsed.ok())
    return -FI_EINVAL;
  self.source = std::move(parsed).value();
  return 0;
}

int get_name(fid *id, void *address, size_t *size) {
  endpoint const &self = of_fid(id);
  std::array<std::byte, seams::system_size_max> system{};
  size_t const needed = seams::socket_address_to(self.source, system.data(), system.size());
  size_t const capacity = *size;
  std::memcpy(address, system.data(), std::min(capacity, needed));
  *size = needed;
  return capacity < needed ? -FI_ETOOSMALL : 0;
}

int no_peer(fid_ep *, void *, size_t *) {
  return -FI_ENOSYS;
}
int no_connect(fid_ep *, const void *, const void *, size_t) {
  return -FI_ENOSYS;
}
int no_listen(fid_pep *) {
  return -FI_ENOSYS;
}
int no_accept(fid_ep *, const void *, size_t) {
  return -FI_ENOSYS;
}
int no_reject(fid_pep *, fid_t, const void *, size_t) {
  return -FI_ENOSYS;
}
int no_shutdown(fid_ep *, uint64_t) {
  return -FI_ENOSYS;
}
int no_join(fid_ep *, const void *, uint64_t, fid_mc **, void *) {
  return -FI_ENOSYS;
}

fi_ops endpoint_id_ops = {sizeof(fi_ops),
                          no_throw<endpoint_close>,
                          no_throw<endpoint_bind>,
                          no_throw<endpoint_control>,
                          no_ops_open,
                          nullptr,
                          nullptr};
fi_ops_ep endpoint_ops = {sizeof(fi_ops_ep),
                          no_throw<cancel>,
                          no_throw<get_option>,
                          no_throw<set_option>,
                          no_context,
                          no_rx_context,
                          no_size_left,
                          no_size_left};
fi_ops_cm connection_ops = {sizeof(fi_ops_cm),
                            no_throw<set_name>,
                            no_throw<get_name>,
                            no_peer,
                            no_connect,
                            no_listen,
                            no_accept,
                            no_reject,
                            no_shutdown,
                            no_join};

bool is_remote_access(completion_kind kind) {
  return kind == completion_kind::remote_put || kind == completion_kind::remote_get;
}

bool is_multi_receive_end(const completion &event) {
  bool const is_multi_receive =
      (reinterpret_cast<uintptr_t>(event.owner) & owner_is_multi_receive) != 0;
  return event.kind == completion_kind::receive && is_multi_receive && event.buffer_done;
}

// Whether the completion has an entry in its queue, if there is one.
bool has_entry(const completion &event) {
  if (is_remote_access(event.kind))
    return event.has_data;
  return event.kind == completion_kind::buffer || event.code != status::ok ||
         (reinterpret_cast<uintptr_t>(event.owner) & owner_wants_entry) != 0;
}

uint64_t flags_of(const completion &event) {
  uint64_t const kind = event.tagged ? FI_TAGGED : FI_MSG;
  switch (event.kind) {
    case completion_kind::send:
      return kind | FI_SEND;
    case completion_kind::receive:
      return kind | FI_RECV | (event.has_data ? FI_REMOTE_CQ_DATA : 0);
    case completion_kind::buffer:
      return FI_MULTI_RECV;
    case completion_kind::put:
      return FI_RMA | FI_WRITE;
    case completion_kind::get:
      return FI_RMA | FI_READ;
    case completion_kind::atomic:
      return FI_ATOMIC | FI_WRITE;
    case completion_kind::fetch:
      return FI_ATOMIC | FI_READ;
    case completion_kind::remote_put:
      return FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    case completion_kind::remote_get:
      return FI_RMA | FI_REMOTE_READ;
  }
  return 0;
}

void set_tables(fid_ep &id, void *context) {
  id.fid = {FI_CLASS_EP, context, &endpoint_id_ops};
  id.ops = &endpoint_ops;
  id.cm = &connection_ops;
  id.msg = &message_ops;
  id.tagged = &tagged_ops;
  id.rma = &remote_ops;
  id.atomic = &atomic_ops;
}

bool has_automatic_progress(const fi_domain_attr *attr) {
  return attr == nullptr || attr->data_progress == FI_PROGRESS_AUTO ||
         attr->data_progress == FI_PROGRESS_UNSPEC;
}

queue_entry entry_of(const completion &event) {
  queue_entry entry;
  entry.context = event.context;
  entry.flags = flags_of(event) | (is_multi_receive_end(event) ? FI_MULTI_RECV : 0);
  entry.size = event.size;
  entry.buffer = event.buffer;
  entry.data = event.data;
  entry.tag = is_remote_access(event.kind) ? 0 : event.tag;
  entry.error = event.code == status::ok ? 0 : completion_error_of(event.kind, event.code);
  entry.overflow_size = event.truncated_size;
  return entry;
}

}  // namespace

endpoint::~endpoint() {
  destroy_engine();
  for (auto const &block_ptr : blocks)
    delete block_ptr.load();
}

void endpoint::destroy_engine() {
  stage = lifecycle::closed;
  // not reset(): the engine's thread may be in complete(), which uses the pointer
  delete o2g_engine.get();
  (void)o2g_engine.release();
  stage = lifecycle::created;  // the state after a failed FI_ENABLE, which may be retried
}

peer_index endpoint::peer_of(fi_addr_t address) const noexcept {
  if (address >= peer_count_max)
    return any_peer;
  block const *const entries = blocks[address / block_size].load(std::memory_order_acquire);
  return entries == nullptr ? any_peer
                            : (*entries)[address % block_size].load(std::memory_order_acquire);
}

status endpoint::add_peer(fi_addr_t address, const seams::socket_address &peer_address) {
  TND_ASSERT(addresses->mutex.is_held());
  TND_ASSERT(o2g_engine != nullptr && address < peer_count_max);
  auto const peer = o2g_engine->register_peer(peer_address);
  if (!peer.ok())
    return peer.error();
  peer_index const index = result<peer_index>{peer}.value();
  o2g_engine->set_peer_user_data(index, address);
  TND_ASSERT(index != any_peer);
  auto &slot = blocks[address / block_size];
  if (slot.load() == nullptr) {
    auto *const new_block = new (std::nothrow) block;
    if (new_block == nullptr)
      return status::no_memory;
    for (auto &peer_slot : *new_block)
      peer_slot.store(any_peer);
    slot.store(new_block);
  }
  (*slot.load())[address % block_size].store(index, std::memory_order_release);
  return status::ok;
}

void endpoint::remove_peer(fi_addr_t address) {
  TND_ASSERT(addresses->mutex.is_held());
  if (peer_of(address) == any_peer)
    return;
  o2g_engine->set_peer_user_data(peer_of(address), FI_ADDR_NOTAVAIL);
  (*blocks[address / block_size].load())[address % block_size].store(any_peer);
}

counter *endpoint::counter_of(completion_kind kind) const {
  switch (kind) {
    case completion_kind::send:
      return sends;
    case completion_kind::receive:
      return receives;
    case completion_kind::buffer:
      return nullptr;  // its messages have been counted
    case completion_kind::put:
    case completion_kind::atomic:
      return writes;
    case completion_kind::get:
    case completion_kind::fetch:
      return reads;
    case completion_kind::remote_put:
      return remote_writes;
    case completion_kind::remote_get:
      return remote_reads;
  }
  return nullptr;
}

void endpoint::complete(const completion &event) {
  auto const owner = reinterpret_cast<uintptr_t>(event.owner);
  stage.wait(lifecycle::created);
  if (stage != lifecycle::open || (owner & owner_is_part) != 0)
    return;
  TND_ASSERT(o2g_engine != nullptr);
  bool const is_remote = is_remote_access(event.kind);
  bool const is_receive =
      event.kind == completion_kind::receive || event.kind == completion_kind::buffer || is_remote;
  completion_queue *const queue = is_receive ? rx_queue : tx_queue;
  counter *const bound_counter = (owner & owner_is_peek) != 0 ? nullptr : counter_of(event.kind);
  bool is_pushed = true;
  // Write the entry first: a program that sees the counter may look for its entry.
  if (queue != nullptr && has_entry(event)) {
    queue_entry entry = entry_of(event);
    if (is_receive && event.source != any_peer && event.kind != completion_kind::buffer)
      entry.source = o2g_engine->peer_user_data(event.source);
    is_pushed = queue->push(entry, *o2g_engine);
  }
  if (bound_counter != nullptr)
    bound_counter->count(event.code == status::ok, *o2g_engine);
  if (is_remote)
    parent->region_counts.count(event.tag, event.kind == completion_kind::remote_get, *o2g_engine);
  // makes the engine fail: an endpoint that loses completions is unusable
  if (!is_pushed)
    throw std::bad_alloc{};
}

int endpoint_open(fid_domain *parent, fi_info *info, fid_ep **handle, void *context) {
  bool const is_rdm = info->ep_attr == nullptr || info->ep_attr->type == FI_EP_RDM ||
                      info->ep_attr->type == FI_EP_UNSPEC;
  if (!is_rdm)
    return -FI_EINVAL;
  auto source_address =
      seams::socket_address_from(info->src_addr, info->src_addr == nullptr ? 0 : info->src_addrlen);
  if (!source_address.ok())
    source_address = seams::socket_address_parse("127.0.0.1", 0);
  auto *const opened = new (std::nothrow) endpoint;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->source = std::move(source_address).value();
  opened->parent = reinterpret_cast<domain *>(parent);
  opened->parent->users++;
  opened->caps = info->caps;
  opened->has_automatic_progress = has_automatic_progress(info->domain_attr);
  opened->tx_flags = info->tx_attr == nullptr ? 0 : info->tx_attr->op_flags;
  opened->rx_flags = info->rx_attr == nullptr ? 0 : info->rx_attr->op_flags;
  set_tables(opened->handle.id, context);
  *handle = &opened->handle.id;
  return 0;
}

}  // namespace tanada::o2g::provider
