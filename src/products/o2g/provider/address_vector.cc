// Address vectors: a peer's fi_addr_t is its index in the vector.

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "core/base/assert.hpp"
#include "core/base/config.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

using family_kind = seams::socket_address::family_kind;

// Bytes of a sockaddr_in. A sockaddr_in6 is the largest supported address.
constexpr size_t system_size_ipv4 = 16;
static_assert(system_size_ipv4 < seams::system_size_max);

address_vector &of_id(fid_av *id) {
  return *reinterpret_cast<address_vector *>(id);
}

int av_close(fid *id) {
  auto *const closed = reinterpret_cast<address_vector *>(id);
  if (closed->users != 0)
    return -FI_EBUSY;
  if (closed->events != nullptr)
    remove_user(*closed->events);
  remove_user(*closed->parent);
  delete closed;
  return 0;
}

int av_bind(fid *id, fid *target, uint64_t) {
  if (target->fclass != FI_CLASS_EQ)
    return -FI_EINVAL;
  address_vector &bound = *reinterpret_cast<address_vector *>(id);
  if (bound.events != nullptr)
    return -FI_EINVAL;
  bound.events = reinterpret_cast<event_queue *>(target);
  bound.events->users++;
  return 0;
}

// Free the number and remove the peer from every endpoint.
void remove_entry(address_vector &vector, fi_addr_t number) TND_REQUIRES(vector.mutex) {
  TND_ASSERT(vector.mutex.is_held());
  TND_ASSERT(number < vector.entries.size());
  vector.by_address.erase(vector.entries[number].address);
  vector.entries[number] = {};
  vector.free_numbers.push_back(number);
  for (endpoint *const bound_endpoint : vector.endpoints)
    bound_endpoint->remove_peer(number);
}

// Inserting an address again returns the same number, because the source of a message must be
// unique. A number is freed after as many removals as insertions.
fi_addr_t insert_address(address_vector &vector, const seams::socket_address &address)
    TND_REQUIRES(vector.mutex) {
  TND_ASSERT(vector.mutex.is_held());
  if (auto const existing = vector.by_address.find(address); existing != vector.by_address.end()) {
    vector.entries[existing->second].count++;
    return existing->second;
  }
  if (vector.free_numbers.empty() && vector.entries.size() == peer_count_max)
    return FI_ADDR_NOTAVAIL;
  fi_addr_t number = vector.entries.size();
  if (vector.free_numbers.empty()) {
    vector.entries.emplace_back();
  } else {
    number = vector.free_numbers.back();
    vector.free_numbers.pop_back();
  }
  TND_ASSERT(number < peer_count_max && vector.entries[number].count == 0);
  vector.entries[number] = {address, 1};
  vector.by_address.emplace(address, number);
  for (endpoint *const bound_endpoint : vector.endpoints)
    if (bound_endpoint->add_peer(number, address) != status::ok) {
      remove_entry(vector, number);
      return FI_ADDR_NOTAVAIL;
    }
  return number;
}

// The size in bytes of the address at `bytes`. 0: unknown, because the domain mixes both families
// and the address has neither.
size_t size_at(const address_vector &vector, const void *bytes) {
  switch (vector.parent->address_format) {
    case FI_SOCKADDR_IN:
      return system_size_ipv4;
    case FI_SOCKADDR_IN6:
      return seams::system_size_max;
    default: {
      auto const address = seams::socket_address_from(bytes, seams::system_size_max);
      return address.ok() ? seams::system_size_of(result<seams::socket_address>{address}.value())
                          : 0;
    }
  }
}

// The result of one call, reported in the form that the program requested.
struct insertion {
  address_vector &vector;
  void *context;
  int *errors;  // for FI_SYNC_ERR; otherwise null
  size_t inserted_count = 0;

  bool reports_by_event() const {
    return vector.is_asynchronous && vector.events != nullptr;
  }
  void report_failure(size_t index) {
    if (errors != nullptr)
      errors[index] = FI_EINVAL;
    if (!reports_by_event())
      return;
    fi_eq_err_entry const event{&vector.id.fid, context, index, FI_EINVAL, FI_EINVAL, nullptr, 0};
    vector.events->push(FI_AV_COMPLETE, FI_EINVAL, &event, sizeof event);
  }
  int finish() {
    if (!reports_by_event())
      return int(inserted_count);
    fi_eq_entry const event{&vector.id.fid, context, inserted_count};
    vector.events->push(FI_AV_COMPLETE, 0, &event, sizeof event);
    return 0;
  }
};

int av_insert(fid_av *id,
              const void *addresses,
              size_t count,
              fi_addr_t *numbers,
              uint64_t flags,
              void *context) {
  address_vector &vector = of_id(id);
  if (vector.is_asynchronous && vector.events == nullptr)
    return -FI_ENOEQ;
  if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0)
    return -FI_ENOSYS;
  insertion insertion_report{
      vector, context, (flags & FI_SYNC_ERR) != 0 ? static_cast<int *>(context) : nullptr};
  lock_guard const lock{vector.mutex};
  auto const *position = static_cast<const std::byte *>(addresses);
  for (size_t i = 0; i < count; i++) {
    size_t const size = position == nullptr ? 0 : size_at(vector, position);
    auto address = size == 0 ? result<seams::socket_address>{status::invalid}
                             : seams::socket_address_from(position, size);
    fi_addr_t const number =
        address.ok() ? insert_address(vector, std::move(address).value()) : FI_ADDR_NOTAVAIL;
    if (numbers != nullptr)
      numbers[i] = number;
    if (insertion_report.errors != nullptr)
      insertion_report.errors[i] = 0;
    if (number == FI_ADDR_NOTAVAIL)
      insertion_report.report_failure(i);
    else
      insertion_report.inserted_count++;
    position = size == 0 ? nullptr
                         : position + size;  // otherwise the start of the next address is unknown
  }
  return insertion_report.finish();
}

// Append the address of a host and service in system format. An unresolvable name is appended as an
// address without a family.
void append_resolved(std::vector<std::byte> &bytes,
                     const address_vector &vector,
                     const char *node,
                     const char *service) {
  uint32_t const format = vector.parent->address_format;
  auto const wanted = format == FI_SOCKADDR_IN    ? family_kind::ipv4
                      : format == FI_SOCKADDR_IN6 ? family_kind::ipv6
                                                  : family_kind::unspecified;
  auto resolved = seams::socket_address_resolve(node, service, wanted, false);
  seams::socket_address const address =
      resolved.ok() ? std::move(resolved).value() : seams::socket_address{};
  size_t const size = resolved.ok()                 ? seams::system_size_of(address)
                      : wanted == family_kind::ipv4 ? system_size_ipv4
                                                    : seams::system_size_max;
  size_t const begin = bytes.size();
  bytes.resize(begin + size);
  (void)seams::socket_address_to(address, bytes.data() + begin, size);
}

int av_insert_service(fid_av *id,
                      const char *node,
                      const char *service,
                      fi_addr_t *number,
                      uint64_t flags,
                      void *context) {
  if (node == nullptr || service == nullptr)
    return -FI_EINVAL;
  std::vector<std::byte> system;
  append_resolved(system, of_id(id), node, service);
  return av_insert(id, system.data(), 1, number, flags, context);
}

// A name that ends in a number, which counts up.
struct numbered_name {
  std::string prefix;
  uint64_t first = 0;
  bool has_number = false;

  std::string text(size_t index) const {
    return has_number ? prefix + std::to_string(first + index) : prefix;
  }
};

// `count` names follow from `node`, which needs no number if it is the only one.
result<numbered_name> parse_node(const std::string &node, size_t count) {
  if (count == 1)
    return numbered_name{node};
  size_t const begin = node.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  auto const first = parse_count(node.substr(begin), 0, ~uint32_t{0});
  if (!first.ok())
    return first.error();
  return numbered_name{node.substr(0, begin), result<uint64_t>{first}.value(), true};
}

// Insert names and services that count up from the given ones, such as "node7" and "4711".
int av_insert_symmetric(fid_av *id,
                        const char *node,
                        size_t node_count,
                        const char *service,
                        size_t service_count,
                        fi_addr_t *numbers,
                        uint64_t flags,
                        void *context) {
  if (node == nullptr || service == nullptr || node_count == 0 || service_count == 0)
    return -FI_EINVAL;
  auto parsed = parse_node(node, node_count);
  auto const first_service = parse_count(service, 0, 65535);
  if (!parsed.ok() || !first_service.ok() || node_count > peer_count_max ||
      service_count > peer_count_max / node_count)
    return -FI_EINVAL;
  numbered_name const name = std::move(parsed).value();
  std::vector<std::byte> system;
  for (size_t i = 0; i < node_count; i++)
    for (size_t k = 0; k < service_count; k++) {
      uint64_t const service_number = result<uint64_t>{first_service}.value() + k;
      append_resolved(
          system, of_id(id), name.text(i).c_str(), std::to_string(service_number).c_str());
    }
  return av_insert(id, system.data(), node_count * service_count, numbers, flags, context);
}

int av_remove(fid_av *id, fi_addr_t *numbers, size_t count, uint64_t) {
  address_vector &vector = of_id(id);
  lock_guard const lock{vector.mutex};
  for (size_t i = 0; i < count; i++) {
    fi_addr_t const number = numbers[i];
    if (number >= vector.entries.size() || vector.entries[number].count == 0)
      return -FI_EINVAL;
    if (--vector.entries[number].count == 0)
      remove_entry(vector, number);
  }
  return 0;
}

int av_lookup(fid_av *id, fi_addr_t number, void *address, size_t *size) {
  address_vector &vector = of_id(id);
  lock_guard const lock{vector.mutex};
  if (number >= vector.entries.size() || vector.entries[number].count == 0)
    return -FI_EINVAL;
  std::array<std::byte, seams::system_size_max> system{};
  size_t const needed =
      seams::socket_address_to(vector.entries[number].address, system.data(), system.size());
  std::memcpy(address, system.data(), std::min(*size, needed));
  *size = needed;
  return 0;
}

const char *av_text(fid_av *id, const void *address, char *text, size_t *size) {
  size_t const size_given = size_at(of_id(id), address);
  auto const parsed = seams::socket_address_from(address, size_given);
  std::string full;
  if (parsed.ok()) {
    auto const parsed_address = result<seams::socket_address>{parsed}.value();
    full =
        (parsed_address.family == family_kind::ipv6 ? "fi_sockaddr_in6://" : "fi_sockaddr_in://") +
        seams::to_text(parsed_address);
  }
  if (*size > 0) {
    size_t const copied = std::min(full.size(), *size - 1);
    std::memcpy(text, full.data(), copied);
    text[copied] = '\0';
  }
  *size = full.size() + 1;
  return text;
}

fi_ops av_id_ops = {sizeof(fi_ops),
                    no_throw<av_close>,
                    no_throw<av_bind>,
                    no_control,
                    no_ops_open,
                    nullptr,
                    nullptr};
fi_ops_av av_ops = {sizeof(fi_ops_av),
                    no_throw<av_insert>,
                    no_throw<av_insert_service>,
                    no_throw<av_insert_symmetric>,
                    no_throw<av_remove>,
                    no_throw<av_lookup>,
                    no_throw<av_text>,
                    nullptr};

}  // namespace

int address_vector_open(fid_domain *parent, fi_av_attr *attr, fid_av **handle, void *context) {
  if (attr != nullptr && (attr->name != nullptr || attr->rx_ctx_bits != 0))
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) address_vector;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->parent = reinterpret_cast<domain *>(parent);
  opened->parent->users++;
  opened->id.fid = {FI_CLASS_AV, context, &av_id_ops};
  opened->id.ops = &av_ops;
  if (attr != nullptr && attr->type == FI_AV_UNSPEC)
    attr->type = FI_AV_TABLE;
  opened->is_asynchronous = attr != nullptr && (attr->flags & FI_EVENT) != 0;
  *handle = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
