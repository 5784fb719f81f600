// Address vectors: a peer's number is its place in the order of insertion.

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

using family_kind = port::socket_address::family_kind;

address_vector &of_id(fid_av *id) { return *reinterpret_cast<address_vector *>(id); }

int av_close(fid *id) {
  auto *const closed = reinterpret_cast<address_vector *>(id);
  if (!closed->endpoints.empty()) return -FI_EBUSY;
  closed->in->users--;
  delete closed;
  return 0;
}

int av_bind(fid *id, fid *to, uint64_t) {
  if (to->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  reinterpret_cast<address_vector *>(id)->events = reinterpret_cast<event_queue *>(to);
  return 0;
}

// The same address twice has the same number: a message's sender must have one.
fi_addr_t insert_one(address_vector &into, const port::socket_address &address) {
  auto const known = std::ranges::find(into.addresses, address);
  if (known != into.addresses.end()) return fi_addr_t(known - into.addresses.begin());
  if (into.addresses.size() == peer_count_max) return FI_ADDR_NOTAVAIL;
  into.addresses.push_back(address);
  fi_addr_t const number = into.addresses.size() - 1;
  for (endpoint *const each : into.endpoints) each->know(number, address);
  return number;
}

// The number that went in; where insertion is asynchronous an event says it.
int finish_insert(address_vector &into, size_t good, void *context) {
  if (!into.is_asynchronous || into.events == nullptr) return int(good);
  fi_eq_entry const event{&into.id.fid, context, good};
  fi_eq_write(&into.events->id, FI_AV_COMPLETE, &event, sizeof event, 0);
  return 0;
}

int av_insert(fid_av *id, const void *addresses, size_t count, fi_addr_t *numbers, uint64_t flags, void *context) {
  address_vector &into = of_id(id);
  auto *const errors = (flags & FI_SYNC_ERR) != 0 ? static_cast<int *>(context) : nullptr;
  std::lock_guard const lock{into.mutex};
  auto const *at = static_cast<const std::byte *>(addresses);
  size_t good = 0;
  for (size_t i = 0; i < count; i++) {
    auto address = port::socket_address_from(at, port::system_size_max);
    if (!address.ok()) return -FI_EINVAL;  // where the next one begins cannot be told
    at += port::system_size_of(result<port::socket_address>{address}.value());
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    number = insert_one(into, std::move(address).value());
    good += number != FI_ADDR_NOTAVAIL;
    if (numbers != nullptr) numbers[i] = number;
    if (errors != nullptr) errors[i] = number == FI_ADDR_NOTAVAIL ? FI_EINVAL : 0;
  }
  return finish_insert(into, good, context);
}

int av_insert_service(fid_av *id, const char *node, const char *service, fi_addr_t *number, uint64_t flags, void *context) {
  auto const found = node == nullptr || service == nullptr
                         ? result<port::socket_address>{status::invalid}
                         : port::socket_address_resolve(node, service, family_kind::none, false);
  if (!found.ok()) return -FI_EINVAL;
  std::array<std::byte, port::system_size_max> system{};
  port::socket_address_to(result<port::socket_address>{found}.value(), system.data(), system.size());
  return av_insert(id, system.data(), 1, number, flags, context);
}

// Names and services that count up from the given ones: "node7", "4711".
int av_insert_symmetric(fid_av *id, const char *node, size_t node_count, const char *service, size_t service_count,
                        fi_addr_t *numbers, uint64_t flags, void *context) {
  std::string const text{node == nullptr ? "" : node};
  size_t const digits = text.find_last_not_of("0123456789");
  size_t const begin = digits == std::string::npos ? 0 : digits + 1;
  bool const counts = node_count <= 1 || begin < text.size();
  if (text.empty() || service == nullptr || !counts) return -FI_EINVAL;
  uint64_t const first = begin < text.size() ? std::stoull(text.substr(begin)) : 0, first_service = std::stoull(service);
  int inserted = 0;
  for (size_t i = 0; i < node_count; i++)
    for (size_t k = 0; k < service_count; k++) {
      std::string const one = node_count <= 1 ? text : text.substr(0, begin) + std::to_string(first + i);
      fi_addr_t *const number = numbers == nullptr ? nullptr : &numbers[i * service_count + k];
      inserted += av_insert_service(id, one.c_str(), std::to_string(first_service + k).c_str(), number, flags, context) == 1;
    }
  return inserted;
}

int av_remove(fid_av *id, fi_addr_t *numbers, size_t count, uint64_t) {
  address_vector &from = of_id(id);
  std::lock_guard const lock{from.mutex};
  for (size_t i = 0; i < count; i++) {
    if (numbers[i] >= from.addresses.size()) return -FI_EINVAL;
    from.addresses[numbers[i]] = {};
    for (endpoint *const each : from.endpoints) each->forget(numbers[i]);
  }
  return 0;
}

int av_lookup(fid_av *id, fi_addr_t number, void *address, size_t *size) {
  address_vector &in = of_id(id);
  std::lock_guard const lock{in.mutex};
  if (number >= in.addresses.size() || in.addresses[number].family == family_kind::none) return -FI_EINVAL;
  std::array<std::byte, port::system_size_max> system{};
  size_t const needed = port::socket_address_to(in.addresses[number], system.data(), system.size());
  std::memcpy(address, system.data(), std::min(*size, needed));
  *size = needed;
  return 0;
}

const char *av_text(fid_av *, const void *address, char *text, size_t *size) {
  auto const given = port::socket_address_from(address, port::system_size_max);
  std::string full;
  if (given.ok()) {
    auto const known = result<port::socket_address>{given}.value();
    full = (known.family == family_kind::ipv6 ? "fi_sockaddr_in6://" : "fi_sockaddr_in://") + port::to_text(known);
  }
  if (*size > 0) {
    size_t const copied = std::min(full.size(), *size - 1);
    std::memcpy(text, full.data(), copied);
    text[copied] = '\0';
  }
  *size = full.size() + 1;
  return text;
}

fi_ops av_id_ops = {sizeof(fi_ops), av_close, av_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_av av_ops = {sizeof(fi_ops_av), av_insert, av_insert_service, av_insert_symmetric, av_remove, av_lookup, av_text, nullptr};

}  // namespace

int address_vector_open(fid_domain *in, fi_av_attr *attr, fid_av **made, void *context) {
  if (attr != nullptr && (attr->name != nullptr || attr->rx_ctx_bits != 0)) return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) address_vector;
  if (opened == nullptr) return -FI_ENOMEM;
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_AV, context, &av_id_ops};
  opened->id.ops = &av_ops;
  if (attr != nullptr && attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  opened->is_asynchronous = attr != nullptr && (attr->flags & FI_EVENT) != 0;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
