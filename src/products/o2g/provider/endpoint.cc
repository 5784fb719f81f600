#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/base/settings.hpp"
#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

endpoint &of_fid(fid *id) {
  return endpoint::of(reinterpret_cast<fid_ep *>(id));
}

// The queue, counter or address vector can be closed when nobody uses it any more.
template <class T>
void release(T *used, engine *speaker) {
  if (used == nullptr)
    return;
  if (speaker != nullptr)
    used->waiting.leave(speaker);
  used->users--;
}

template <class T>
void bind_one(T *&slot, T &what) {
  if (slot != nullptr)
    slot->users--;
  slot = &what;
  what.users++;
}

int endpoint_close(fid *id) {
  endpoint *const closed = &of_fid(id);
  closed->stage = endpoint::life::closed;
  if (address_vector *const known = closed->addresses; known != nullptr) {
    lock_guard const lock{known->mutex};
    std::erase(known->endpoints, closed);
    known->users--;
  }
  release(closed->tx_queue, closed->speaker.get());
  release(closed->rx_queue, closed->speaker.get());
  for (counter *const each : closed->counters())
    release(each, closed->speaker.get());
  closed->in->users--;
  delete closed;
  return 0;
}

int bind_queue(endpoint &to, completion_queue &queue, uint64_t flags) {
  bool const is_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & (FI_TRANSMIT | FI_RECV)) == 0)
    return -FI_EINVAL;
  if ((flags & FI_TRANSMIT) != 0) {
    bind_one(to.tx_queue, queue);
    to.tx_selective = is_selective;
  }
  if ((flags & FI_RECV) != 0) {
    bind_one(to.rx_queue, queue);
    to.rx_selective = is_selective;
  }
  return 0;
}

int bind_counter(endpoint &to, counter &which, uint64_t flags) {
  if ((flags & FI_SEND) != 0)
    bind_one(to.sends, which);
  if ((flags & FI_RECV) != 0)
    bind_one(to.receives, which);
  if ((flags & FI_READ) != 0)
    bind_one(to.reads, which);
  if ((flags & FI_WRITE) != 0)
    bind_one(to.writes, which);
  if ((flags & FI_REMOTE_READ) != 0)
    bind_one(to.remote_reads, which);
  if ((flags & FI_REMOTE_WRITE) != 0)
    bind_one(to.remote_writes, which);
  return 0;
}

int endpoint_bind(fid *id, fid *what, uint64_t flags) {
  endpoint &to = of_fid(id);
  if (to.speaker != nullptr)
    return -FI_EOPBADSTATE;
  switch (what->fclass) {
    case FI_CLASS_CQ: return bind_queue(to, *reinterpret_cast<completion_queue *>(what), flags);
    case FI_CLASS_CNTR: return bind_counter(to, *reinterpret_cast<counter *>(what), flags);
    case FI_CLASS_EQ: return 0;  // endpoints without connections have no events
    case FI_CLASS_AV: bind_one(to.addresses, *reinterpret_cast<address_vector *>(what)); return 0;
    default: return -FI_EINVAL;
  }
}

// Settings of all endpoints, see docs/o2g.md.
status read_settings(engine_options &options, port::stream_set_options &streams) {
  TND_TRY(settings_check());
  TND_TRY(environment_size("TND_O2G_DUMP_SOFT", options.dump_size_soft));
  TND_TRY(environment_size("TND_O2G_DUMP_HARD", options.dump_size_hard));
  TND_TRY(environment_size("TND_O2G_SEND_QUEUE", options.send_queue_size));
  TND_TRY(environment_duration_ns("TND_O2G_CONNECT_TIMEOUT", options.connect_timeout_ns));
  TND_TRY(environment_duration_ns("TND_O2G_LOST_AFTER", streams.lost_after_ns));
  TND_TRY(environment_duration_ns("TND_O2G_TICK", options.tick_ns));
  TND_TRY(environment_duration_ns("TND_O2G_SLEEP_MAX", options.sleep_ns_max));
  if (const char *const cookie = std::getenv("TND_O2G_COOKIE"); cookie != nullptr)
    options.cookie = cookie;
  return status::ok;
}

// All addresses that its address vector has, and those that it will have.
status know_all(endpoint &what) {
  lock_guard const lock{what.addresses->mutex};
  auto const &entries = what.addresses->entries;
  for (size_t i = 0; i < entries.size(); i++)
    if (entries[i].count != 0)
      TND_TRY(what.know(i, entries[i].address));
  what.addresses->endpoints.push_back(&what);
  return status::ok;
}

// The line by which an operator sees that a program uses o2g, and with which settings.
void log_opened(const endpoint &what, const engine_options &options,
                const std::string &engine_name) {
  auto const number = [](uint64_t value) {
    return static_cast<unsigned long long>(value);
  };
  log(log_level::info,
      "o2g: the endpoint %s is open, driven by %s; unexpected messages: announced above %llu "
      "bytes, at most %llu; %s cookie; %s",
      to_text(what.source).c_str(), engine_name.c_str(), number(options.dump_size_soft),
      number(options.dump_size_hard), options.cookie.empty() ? "no" : "a",
      options.sleep_ns_max == 0 ? "polls do not sleep" : "polls may sleep");
}

int open_speaker(endpoint &what) {
  engine_options options;
  options.at = what.source;
  options.hears_remote = (what.caps & FI_RMA_EVENT) != 0 || what.remote_reads != nullptr ||
                         what.remote_writes != nullptr;
  port::stream_set_options streams;
  streams.may_look_seldom = !what.has_automatic_progress;
  if (status const read = read_settings(options, streams); read != status::ok)
    return error_of(read);
  auto created = port::stream_set_create(streams);
  if (!created.ok())
    return error_of(created.error());
  std::unique_ptr<port::stream_set> set = std::move(created).value();
  std::string const engine_name = set->name();
  auto made = engine::create(std::move(set), options, what, what.in->memory);
  if (!made.ok())
    return error_of(made.error());
  what.speaker = std::move(made).value();
  what.source = what.speaker->address();
  what.stage = endpoint::life::heard;
  what.stage.notify_all();
  log_opened(what, options, engine_name);
  if (status const known = know_all(what); known != status::ok) {
    what.end_speaker();
    return error_of(known);
  }
  for (completion_queue *const each : {what.tx_queue, what.rx_queue})
    if (each != nullptr)
      each->waiting.enter(what.speaker.get());
  for (counter *const each : what.counters())
    if (each != nullptr)
      each->waiting.enter(what.speaker.get());
  return 0;
}

int enable(endpoint &what) {
  if (what.speaker != nullptr)
    return 0;
  if (what.addresses == nullptr)
    return -FI_ENOAV;
  bool const can_hear =
      what.tx_queue != nullptr || what.rx_queue != nullptr ||
      std::ranges::any_of(what.counters(), [](const counter *each) { return each != nullptr; });
  if (!can_hear)
    return -FI_ENOCQ;
  set_last_message({});
  int const code = open_speaker(what);
  if (code != 0)
    log(log_level::error, "o2g: fi_enable cannot open the endpoint at %s: %s%s%s",
        to_text(what.source).c_str(), std::strerror(-code), last_message().empty() ? "" : ": ",
        last_message().c_str());
  return code;
}

int endpoint_control(fid *id, int command, void *argument) {
  endpoint &what = of_fid(id);
  switch (command) {
    case FI_ENABLE: return enable(what);
    case FI_GETOPSFLAG: {
      auto *const flags = static_cast<uint64_t *>(argument);
      if ((*flags & FI_TRANSMIT) != 0) {
        *flags = what.tx_flags;
        return 0;
      }
      if ((*flags & FI_RECV) != 0) {
        *flags = what.rx_flags;
        return 0;
      }
      return -FI_EINVAL;
    }
    case FI_SETOPSFLAG: {
      uint64_t const flags = *static_cast<uint64_t *>(argument);
      if ((flags & FI_TRANSMIT) != 0) {
        what.tx_flags = flags & ~FI_TRANSMIT;
        return 0;
      }
      if ((flags & FI_RECV) != 0) {
        what.rx_flags = flags & ~FI_RECV;
        return 0;
      }
      return -FI_EINVAL;
    }
    default: return -FI_ENOSYS;
  }
}

ssize_t cancel(fid *id, void *context) {
  endpoint &what = of_fid(id);
  if (what.speaker == nullptr)
    return -FI_EOPBADSTATE;
  status const code = what.speaker->cancel(context);
  return code == status::no_entry ? -FI_ENOENT : error_of(code);
}

int get_option(fid *id, int level, int option, void *value, size_t *size) {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
    return -FI_ENOPROTOOPT;
  if (*size < sizeof(size_t))
    return -FI_ETOOSMALL;
  std::memcpy(value, &of_fid(id).many_size_min, sizeof(size_t));
  *size = sizeof(size_t);
  return 0;
}

int set_option(fid *id, int level, int option, const void *value, size_t size) {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
    return -FI_ENOPROTOOPT;
  if (size != sizeof(size_t))
    return -FI_EINVAL;
  std::memcpy(&of_fid(id).many_size_min, value, size);
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
  endpoint &what = of_fid(id);
  if (what.speaker != nullptr)
    return -FI_EOPBADSTATE;
  auto given = port::socket_address_from(address, size);
  if (!given.ok())
    return -FI_EINVAL;
  what.source = std::move(given).value();
  return 0;
}

int get_name(fid *id, void *address, size_t *size) {
  endpoint const &what = of_fid(id);
  std::array<std::byte, port::system_size_max> system{};
  size_t const needed = port::socket_address_to(what.source, system.data(), system.size());
  size_t const room = *size;
  std::memcpy(address, system.data(), std::min(room, needed));
  *size = needed;
  return room < needed ? -FI_ETOOSMALL : 0;
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
                          fenced<endpoint_close>,
                          fenced<endpoint_bind>,
                          fenced<endpoint_control>,
                          no_ops_open,
                          nullptr,
                          nullptr};
fi_ops_ep endpoint_ops = {sizeof(fi_ops_ep), fenced<cancel>, fenced<get_option>, fenced<set_option>,
                          no_context,        no_rx_context,  no_size_left,       no_size_left};
fi_ops_cm connection_ops = {sizeof(fi_ops_cm), fenced<set_name>, fenced<get_name>, no_peer,
                            no_connect,        no_listen,        no_accept,        no_reject,
                            no_shutdown,       no_join};

uint64_t flags_of(const completion &what) {
  uint64_t const kind = what.tagged ? FI_TAGGED : FI_MSG;
  switch (what.kind) {
    case completion_kind::send: return kind | FI_SEND;
    case completion_kind::receive: return kind | FI_RECV | (what.has_data ? FI_REMOTE_CQ_DATA : 0);
    case completion_kind::buffer: return FI_MULTI_RECV;
    case completion_kind::put: return FI_RMA | FI_WRITE;
    case completion_kind::get: return FI_RMA | FI_READ;
    case completion_kind::atomic: return FI_ATOMIC | FI_WRITE;
    case completion_kind::fetch: return FI_ATOMIC | FI_READ;
    case completion_kind::remote_put: return FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    case completion_kind::remote_get: return FI_RMA | FI_REMOTE_READ;
  }
  return 0;
}

}  // namespace

endpoint::~endpoint() {
  end_speaker();
  for (auto const &each : blocks)
    delete each.load();
}

void endpoint::end_speaker() {
  stage = life::closed;
  delete speaker.get();  // not reset(): its thread may be in complete(), which uses the pointer
  (void)speaker.release();
  stage = life::made;  // where a failed FI_ENABLE leaves it
}

peer_index endpoint::peer_of(fi_addr_t address) const noexcept {
  if (address >= peer_count_max)
    return any_peer;
  block const *const found = blocks[address / block_size].load(std::memory_order_acquire);
  return found == nullptr ? any_peer
                          : (*found)[address % block_size].load(std::memory_order_acquire);
}

// Under the address vector's mutex.
status endpoint::know(fi_addr_t address, const port::socket_address &at) {
  auto const peer = speaker->peer_of(at);
  if (!peer.ok())
    return peer.error();
  peer_index const index = result<peer_index>{peer}.value();
  speaker->set_peer_word(index, address);
  auto &slot = blocks[address / block_size];
  if (slot.load() == nullptr) {
    auto *const made = new (std::nothrow) block;
    if (made == nullptr)
      return status::no_memory;
    for (auto &each : *made)
      each.store(any_peer);
    slot.store(made);
  }
  (*slot.load())[address % block_size].store(index, std::memory_order_release);
  return status::ok;
}

void endpoint::forget(fi_addr_t address) {
  if (peer_of(address) == any_peer)
    return;
  speaker->set_peer_word(peer_of(address), FI_ADDR_NOTAVAIL);
  (*blocks[address / block_size].load())[address % block_size].store(any_peer);
}

counter *endpoint::counter_of(completion_kind kind) const {
  switch (kind) {
    case completion_kind::send: return sends;
    case completion_kind::receive: return receives;
    case completion_kind::buffer: return nullptr;  // its messages were counted
    case completion_kind::put:
    case completion_kind::atomic: return writes;
    case completion_kind::get:
    case completion_kind::fetch: return reads;
    case completion_kind::remote_put: return remote_writes;
    case completion_kind::remote_get: return remote_reads;
  }
  return nullptr;
}

void endpoint::complete(const completion &what) {
  auto const owner = reinterpret_cast<uintptr_t>(what.owner);
  stage.wait(life::made);
  if (stage != life::heard || (owner & owner_is_part) != 0)
    return;
  bool const is_remote =
      what.kind == completion_kind::remote_put || what.kind == completion_kind::remote_get;
  bool const is_receive =
      what.kind == completion_kind::receive || what.kind == completion_kind::buffer || is_remote;
  completion_queue *const queue = is_receive ? rx_queue : tx_queue;
  counter *const counted = (owner & owner_is_peek) != 0 ? nullptr : counter_of(what.kind);
  bool const is_good = what.code == status::ok;
  bool const wants_entry = is_remote ? what.has_data
                                     : what.kind == completion_kind::buffer || !is_good ||
                                           (owner & owner_wants_entry) != 0;
  bool is_told = true;
  // The entry first: whoever sees the counter may look for it.
  if (queue != nullptr && wants_entry) {
    queue_entry entry;
    entry.context = what.context;
    entry.flags = flags_of(what);
    bool const was_for_many = (owner & owner_takes_many) != 0;
    if (what.kind == completion_kind::receive && was_for_many && what.buffer_done)
      entry.flags |= FI_MULTI_RECV;
    entry.size = what.size;
    entry.buffer = what.buffer;
    entry.data = what.data;
    entry.tag = is_remote ? 0 : what.tag;
    if (is_receive && what.source != any_peer && what.kind != completion_kind::buffer)
      entry.source = speaker->peer_word(what.source);
    entry.error = is_good ? 0 : completion_error_of(what.kind, what.code);
    entry.lost = what.lost;
    is_told = queue->push(entry, *speaker);
  }
  if (counted != nullptr)
    counted->count(is_good, *speaker);
  if (is_remote)
    in->counted.count(what.tag, what.kind == completion_kind::remote_get, *speaker);
  if (!is_told)
    throw std::bad_alloc{};  // ends the engine: an endpoint that loses completions is of no use
}

int endpoint_open(fid_domain *in, fi_info *info, fid_ep **made, void *context) {
  bool const is_rdm = info->ep_attr == nullptr || info->ep_attr->type == FI_EP_RDM ||
                      info->ep_attr->type == FI_EP_UNSPEC;
  if (!is_rdm)
    return -FI_EINVAL;
  auto given =
      port::socket_address_from(info->src_addr, info->src_addr == nullptr ? 0 : info->src_addrlen);
  if (!given.ok())
    given = port::socket_address_parse("127.0.0.1", 0);
  auto *const opened = new (std::nothrow) endpoint;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->source = std::move(given).value();
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->caps = info->caps;
  if (info->domain_attr != nullptr)
    opened->has_automatic_progress = info->domain_attr->data_progress == FI_PROGRESS_AUTO ||
                                     info->domain_attr->data_progress == FI_PROGRESS_UNSPEC;
  opened->tx_flags = info->tx_attr == nullptr ? 0 : info->tx_attr->op_flags;
  opened->rx_flags = info->rx_attr == nullptr ? 0 : info->rx_attr->op_flags;
  opened->handle.id.fid = {FI_CLASS_EP, context, &endpoint_id_ops};
  opened->handle.id.ops = &endpoint_ops;
  opened->handle.id.cm = &connection_ops;
  opened->handle.id.msg = &message_ops;
  opened->handle.id.tagged = &tagged_ops;
  opened->handle.id.rma = &remote_ops;
  opened->handle.id.atomic = &atomic_ops;
  *made = &opened->handle.id;
  return 0;
}

}  // namespace tanada::o2g::provider
