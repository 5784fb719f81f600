// Address vectors: a peer's number is its place in the order of insertion.

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "core/base/config.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

using family_kind = port::socket_address::family_kind;

constexpr size_t system_size_ipv4 =
    16;  // bytes of a sockaddr_in; a sockaddr_in6 is the largest there is

address_vector &of_id(fid_av *id) {
  return *reinterpret_cast<address_vector *>(id);
}

int av_close(fid *id) {
  auto *const closed = reinterpret_cast<address_vector *>(id);
  if (closed->users != 0)
    return -FI_EBUSY;
  if (closed->events != nullptr)
    closed->events->users--;
  closed->in->users--;
  delete closed;
  return 0;
}

int av_bind(fid *id, fid *to, uint64_t) {
  if (to->fclass != FI_CLASS_EQ)
    return -FI_EINVAL;
  address_vector &bound = *reinterpret_cast<address_vector *>(id);
  if (bound.events != nullptr)
    return -FI_EINVAL;
  bound.events = reinterpret_cast<event_queue *>(to);
  bound.events->users++;
  return 0;
}

// The number is free again, and no endpoint knows whose it was.
void drop(address_vector &from, fi_addr_t number) {
  from.by_address.erase(from.entries[number].address);
  from.entries[number] = {};
  from.free.push_back(number);
  for (endpoint *const each : from.endpoints)
    each->forget(number);
}

// The same address twice has the same number: a message's sender must have one. A number is free
// again when it was removed as often as it was inserted.
fi_addr_t insert_one(address_vector &into, const port::socket_address &address) {
  if (auto const known = into.by_address.find(address); known != into.by_address.end()) {
    into.entries[known->second].count++;
    return known->second;
  }
  if (into.free.empty() && into.entries.size() == peer_count_max)
    return FI_ADDR_NOTAVAIL;
  fi_addr_t number = into.entries.size();
  if (into.free.empty()) {
    into.entries.emplace_back();
  } else {
    number = into.free.back();
    into.free.pop_back();
  }
  into.entries[number] = {address, 1};
  into.by_address.emplace(address, number);
  for (endpoint *const each : into.endpoints)
    if (each->know(number, address) != status::ok) {
      drop(into, number);
      return FI_ADDR_NOTAVAIL;
    }
  return number;
}

// How many bytes the address at `at` has. 0: that cannot be told, because addresses of both
// families are mixed in this domain and it is of neither.
size_t size_at(const address_vector &of, const void *at) {
  switch (of.in->address_format) {
    case FI_SOCKADDR_IN: return system_size_ipv4;
    case FI_SOCKADDR_IN6: return port::system_size_max;
    default: {
      auto const address = port::socket_address_from(at, port::system_size_max);
      return address.ok() ? port::system_size_of(result<port::socket_address>{address}.value()) : 0;
    }
  }
}

// What became of one call, told as the program asked to hear of it.
struct insertion {
  address_vector &into;
  void *context;
  int *errors;  // of FI_SYNC_ERR; null: none
  size_t good = 0;

  bool is_told_by_events() const {
    return into.is_asynchronous && into.events != nullptr;
  }
  void bad(size_t index) {
    if (errors != nullptr)
      errors[index] = FI_EINVAL;
    if (!is_told_by_events())
      return;
    fi_eq_err_entry const event{&into.id.fid, context, index, FI_EINVAL, FI_EINVAL, nullptr, 0};
    into.events->push(FI_AV_COMPLETE, FI_EINVAL, &event, sizeof event);
  }
  int finish() {
    if (!is_told_by_events())
      return int(good);
    fi_eq_entry const event{&into.id.fid, context, good};
    into.events->push(FI_AV_COMPLETE, 0, &event, sizeof event);
    return 0;
  }
};

int av_insert(fid_av *id, const void *addresses, size_t count, fi_addr_t *numbers, uint64_t flags,
              void *context) {
  address_vector &into = of_id(id);
  if (into.is_asynchronous && into.events == nullptr)
    return -FI_ENOEQ;
  if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0)
    return -FI_ENOSYS;
  insertion now{into, context, (flags & FI_SYNC_ERR) != 0 ? static_cast<int *>(context) : nullptr};
  lock_guard const lock{into.mutex};
  auto const *at = static_cast<const std::byte *>(addresses);
  for (size_t i = 0; i < count; i++) {
    size_t const size = at == nullptr ? 0 : size_at(into, at);
    auto address = size == 0 ? result<port::socket_address>{status::invalid}
                             : port::socket_address_from(at, size);
    fi_addr_t const number =
        address.ok() ? insert_one(into, std::move(address).value()) : FI_ADDR_NOTAVAIL;
    if (numbers != nullptr)
      numbers[i] = number;
    if (now.errors != nullptr)
      now.errors[i] = 0;
    if (number == FI_ADDR_NOTAVAIL)
      now.bad(i);
    else
      now.good++;
    at = size == 0 ? nullptr : at + size;  // where the next one begins cannot be told
  }
  return now.finish();
}

// A host and a service as the system writes them; what cannot be resolved becomes an address of no
// family.
void append_resolved(std::vector<std::byte> &to, const address_vector &of, const char *node,
                     const char *service) {
  uint32_t const format = of.in->address_format;
  auto const wanted = format == FI_SOCKADDR_IN    ? family_kind::ipv4
                      : format == FI_SOCKADDR_IN6 ? family_kind::ipv6
                                                  : family_kind::none;
  auto found = port::socket_address_resolve(node, service, wanted, false);
  port::socket_address const address =
      found.ok() ? std::move(found).value() : port::socket_address{};
  size_t const size = found.ok()                    ? port::system_size_of(address)
                      : wanted == family_kind::ipv4 ? system_size_ipv4
                                                    : port::system_size_max;
  size_t const begin = to.size();
  to.resize(begin + size);
  (void)port::socket_address_to(address, to.data() + begin, size);
}

int av_insert_service(fid_av *id, const char *node, const char *service, fi_addr_t *number,
                      uint64_t flags, void *context) {
  if (node == nullptr || service == nullptr)
    return -FI_EINVAL;
  std::vector<std::byte> system;
  append_resolved(system, of_id(id), node, service);
  return av_insert(id, system.data(), 1, number, flags, context);
}

// Names and services that count up from the given ones: "node7", "4711".
int av_insert_symmetric(fid_av *id, const char *node, size_t node_count, const char *service,
                        size_t service_count, fi_addr_t *numbers, uint64_t flags, void *context) {
  if (node == nullptr || service == nullptr || node_count == 0 || service_count == 0)
    return -FI_EINVAL;
  std::string const text{node};
  size_t const begin =
      node_count == 1 ? text.size() : text.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  auto const first =
      node_count == 1 ? result<uint64_t>{0} : parse_count(text.substr(begin), 0, ~uint32_t{0});
  auto const first_service = parse_count(service, 0, 65535);
  if (!first.ok() || !first_service.ok() || node_count > peer_count_max ||
      service_count > peer_count_max / node_count)
    return -FI_EINVAL;
  std::vector<std::byte> system;
  for (size_t i = 0; i < node_count; i++)
    for (size_t k = 0; k < service_count; k++) {
      uint64_t const named = result<uint64_t>{first}.value() + i,
                     served = result<uint64_t>{first_service}.value() + k;
      std::string const one =
          node_count == 1 ? text : text.substr(0, begin) + std::to_string(named);
      append_resolved(system, of_id(id), one.c_str(), std::to_string(served).c_str());
    }
  return av_insert(id, system.data(), node_count * service_count, numbers, flags, context);
}

int av_remove(fid_av *id, fi_addr_t *numbers, size_t count, uint64_t) {
  address_vector &from = of_id(id);
  lock_guard const lock{from.mutex};
  for (size_t i = 0; i < count; i++) {
    fi_addr_t const number = numbers[i];
    if (number >= from.entries.size() || from.entries[number].count == 0)
      return -FI_EINVAL;
    if (--from.entries[number].count == 0)
      drop(from, number);
  }
  return 0;
}

int av_lookup(fid_av *id, fi_addr_t number, void *address, size_t *size) {
  address_vector &in = of_id(id);
  lock_guard const lock{in.mutex};
  if (number >= in.entries.size() || in.entries[number].count == 0)
    return -FI_EINVAL;
  std::array<std::byte, port::system_size_max> system{};
  size_t const needed =
      port::socket_address_to(in.entries[number].address, system.data(), system.size());
  std::memcpy(address, system.data(), std::min(*size, needed));
  *size = needed;
  return 0;
}

const char *av_text(fid_av *id, const void *address, char *text, size_t *size) {
  size_t const size_given = size_at(of_id(id), address);
  auto const given = port::socket_address_from(address, size_given);
  std::string full;
  if (given.ok()) {
    auto const known = result<port::socket_address>{given}.value();
    full = (known.family == family_kind::ipv6 ? "fi_sockaddr_in6://" : "fi_sockaddr_in://") +
           port::to_text(known);
  }
  if (*size > 0) {
    size_t const copied = std::min(full.size(), *size - 1);
    std::memcpy(text, full.data(), copied);
    text[copied] = '\0';
  }
  *size = full.size() + 1;
  return text;
}

fi_ops av_id_ops = {sizeof(fi_ops), fenced<av_close>, fenced<av_bind>, no_control,
                    no_ops_open,    nullptr,          nullptr};
fi_ops_av av_ops = {
    sizeof(fi_ops_av), fenced<av_insert>, fenced<av_insert_service>, fenced<av_insert_symmetric>,
    fenced<av_remove>, fenced<av_lookup>, fenced<av_text>,           nullptr};

}  // namespace

int address_vector_open(fid_domain *in, fi_av_attr *attr, fid_av **made, void *context) {
  if (attr != nullptr && (attr->name != nullptr || attr->rx_ctx_bits != 0))
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) address_vector;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_AV, context, &av_id_ops};
  opened->id.ops = &av_ops;
  if (attr != nullptr && attr->type == FI_AV_UNSPEC)
    attr->type = FI_AV_TABLE;
  opened->is_asynchronous = attr != nullptr && (attr->flags & FI_EVENT) != 0;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
