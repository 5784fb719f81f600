// fi_getinfo: the provider's capabilities, and the addresses of this node that it can use.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/log.hpp"
#include "products/o2g/provider/objects.hpp"
#include "seams/stream/interfaces.hpp"

namespace tanada::o2g::provider {

namespace {

using seams::socket_address;
using family_kind = socket_address::family_kind;

constexpr uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV |
                                  FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ |
                                  FI_REMOTE_WRITE;
constexpr uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t secondary_caps = FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | domain_caps;
constexpr uint64_t tagged_caps_2 = tagged_directed_recv | tagged_multi_recv;
constexpr uint64_t tx_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND;
constexpr uint64_t rx_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_RECV |
                             FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE |
                             FI_RMA_EVENT | tagged_caps_2;
constexpr uint64_t tx_op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                                 FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
constexpr uint64_t rx_op_flags = FI_COMPLETION | FI_MULTI_RECV;
// The data of one connection is handled in order. The reply to a large read is sent while later
// writes are applied, hence max_order_war_size.
constexpr uint64_t orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR |
                            FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW |
                            FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR |
                            FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
                            FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
constexpr size_t ordered_read_size =
    16384;  // bytes; smaller replies are copied when the request is handled
constexpr uint64_t generic_tag =
    0xAAAA'AAAA'AAAA'AAAA;  // one field that uses all bits, in the notation of libfabric
constexpr size_t queue_size = 65536;
// The limit of libfabric's rxm. The engine accepts more, but fi_ubertest builds vectors of 6 and 12
// parts whose lengths do not add up.
constexpr size_t vector_count = 4;
static_assert(vector_count <= part_count_max);
constexpr size_t attributes_slack = 256;  // bytes: structures of later versions are longer

// The bits of libfabric 2 for tagged receives had another meaning in earlier versions.
uint64_t all_caps(uint32_t api) {
  return primary_caps | secondary_caps | (FI_VERSION_GE(api, FI_VERSION(2, 0)) ? tagged_caps_2 : 0);
}

bool is_subset(uint64_t requested, uint64_t available) {
  return (requested & ~available) == 0;
}

bool tx_is_possible(const fi_tx_attr *requested, uint64_t possible) {
  return requested == nullptr ||
         (is_subset(requested->caps, possible & tx_caps) &&
          requested->comp_order == FI_ORDER_NONE && is_subset(requested->op_flags, tx_op_flags) &&
          is_subset(requested->msg_order, orders) && requested->inject_size <= inject_size_max &&
          requested->iov_limit <= vector_count && requested->rma_iov_limit <= 1 &&
          requested->size <= queue_size);
}

bool rx_is_possible(const fi_rx_attr *requested, uint64_t possible) {
  return requested == nullptr ||
         (is_subset(requested->caps, possible & rx_caps) &&
          requested->comp_order == FI_ORDER_NONE && is_subset(requested->op_flags, rx_op_flags) &&
          is_subset(requested->msg_order, orders) && requested->iov_limit <= vector_count &&
          requested->size <= queue_size);
}

bool endpoint_is_possible(const fi_ep_attr *requested) {
  if (requested == nullptr)
    return true;
  bool const is_rdm = requested->type == FI_EP_UNSPEC || requested->type == FI_EP_RDM;
  bool const is_own_protocol =
      requested->protocol == FI_PROTO_UNSPEC || requested->protocol == protocol;
  bool const is_plain = requested->tx_ctx_cnt <= 1 && requested->rx_ctx_cnt <= 1;
  return is_rdm && is_own_protocol && is_plain &&
         requested->max_msg_size <= std::numeric_limits<ssize_t>::max() &&
         requested->max_order_war_size <= ordered_read_size && requested->msg_prefix_size == 0 &&
         requested->auth_key_size == 0;
}

bool domain_is_possible(const fi_domain_attr *requested) {
  return requested == nullptr ||
         (requested->cq_data_size <= 8 && requested->mr_key_size <= 8 &&
          requested->mr_iov_limit <= 1 && is_subset(requested->caps, domain_caps));
}

bool is_possible(const fi_info &hints, uint64_t possible) {
  bool const format_fits =
      hints.addr_format == FI_FORMAT_UNSPEC || hints.addr_format == FI_SOCKADDR ||
      hints.addr_format == FI_SOCKADDR_IN || hints.addr_format == FI_SOCKADDR_IN6;
  bool const name_fits = hints.fabric_attr == nullptr || hints.fabric_attr->prov_name == nullptr ||
                         std::string{hints.fabric_attr->prov_name}.find(';') == std::string::npos;
  return format_fits && name_fits && is_subset(hints.caps, possible) &&
         tx_is_possible(hints.tx_attr, possible) && rx_is_possible(hints.rx_attr, possible) &&
         endpoint_is_possible(hints.ep_attr) && domain_is_possible(hints.domain_attr);
}

template <class T>
T *allocate() {
  return static_cast<T *>(std::calloc(1, sizeof(T) + attributes_slack));
}

void *allocate_address(const socket_address &address, size_t &size) {
  size = seams::system_size_of(address);
  void *const copy = std::calloc(1, size);
  if (copy != nullptr)
    seams::socket_address_to(address, copy, size);
  return copy;
}

void release(fi_info *info) {
  while (info != nullptr) {
    fi_info *const next = info->next;
    if (info->domain_attr != nullptr)
      std::free(info->domain_attr->name);
    if (info->fabric_attr != nullptr)
      std::free(info->fabric_attr->name);
    for (void *block : {static_cast<void *>(info->src_addr),
                        static_cast<void *>(info->dest_addr),
                        static_cast<void *>(info->tx_attr),
                        static_cast<void *>(info->rx_attr),
                        static_cast<void *>(info->ep_attr),
                        static_cast<void *>(info->domain_attr),
                        static_cast<void *>(info->fabric_attr),
                        static_cast<void *>(info)})
      std::free(block);
    info = next;
  }
}

uint64_t value_or(uint64_t requested, uint64_t alternative) {
  return requested != 0 ? requested : alternative;
}

// A capability without a direction includes both directions.
uint64_t caps_with_directions(uint64_t requested) {
  bool const has_direction = (requested & (FI_SEND | FI_RECV)) != 0;
  bool const has_rma_direction =
      (requested & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0;
  uint64_t caps = requested | FI_LOCAL_COMM | FI_REMOTE_COMM;
  if ((requested & (FI_MSG | FI_TAGGED)) != 0 && !has_direction)
    caps |= FI_SEND | FI_RECV;
  if ((requested & (FI_RMA | FI_ATOMIC)) != 0 && !has_rma_direction)
    caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  return caps;
}

void fill_tx(fi_tx_attr &tx, const fi_tx_attr *requested, uint64_t caps) {
  tx.caps = value_or(requested == nullptr ? 0 : requested->caps, caps & tx_caps);
  tx.op_flags = requested == nullptr ? 0 : requested->op_flags;
  tx.msg_order = value_or(requested == nullptr ? 0 : requested->msg_order, orders);
  tx.comp_order = FI_ORDER_NONE;
  tx.inject_size = inject_size_max;
  tx.size = queue_size;
  tx.iov_limit = vector_count;
  tx.rma_iov_limit = 1;
}

void fill_rx(fi_rx_attr &rx, const fi_rx_attr *requested, uint64_t caps) {
  rx.caps = value_or(requested == nullptr ? 0 : requested->caps, caps & rx_caps);
  rx.op_flags = requested == nullptr ? 0 : requested->op_flags;
  rx.msg_order = value_or(requested == nullptr ? 0 : requested->msg_order, orders);
  rx.comp_order = FI_ORDER_NONE;
  rx.size = queue_size;
  rx.iov_limit = vector_count;
}

void fill_queues(fi_info &info, const fi_info *hints, uint64_t possible) {
  info.caps = caps_with_directions(value_or(hints == nullptr ? 0 : hints->caps, possible));
  fill_tx(*info.tx_attr, hints == nullptr ? nullptr : hints->tx_attr, info.caps);
  fill_rx(*info.rx_attr, hints == nullptr ? nullptr : hints->rx_attr, info.caps);
}

void fill_endpoint(fi_ep_attr &endpoint_attr, const fi_ep_attr *requested) {
  endpoint_attr.type = FI_EP_RDM;
  endpoint_attr.protocol = protocol;
  endpoint_attr.protocol_version = 1;
  endpoint_attr.max_msg_size = size_t{1} << 46;
  endpoint_attr.max_order_raw_size = size_t{1} << 46;
  endpoint_attr.max_order_waw_size = size_t{1} << 46;
  endpoint_attr.max_order_war_size = ordered_read_size;
  endpoint_attr.mem_tag_format =
      value_or(requested == nullptr ? 0 : requested->mem_tag_format, generic_tag);
  endpoint_attr.tx_ctx_cnt = 1;
  endpoint_attr.rx_ctx_cnt = 1;
}

int mr_mode_of(uint32_t api, const fi_domain_attr *requested) {
  // FI_MR_BASIC and FI_MR_SCALABLE of libfabric before 1.5, as numbers: later headers deprecate the
  // names.
  constexpr int basic = 1, scalable = 2;
  int const mode = requested == nullptr ? 0 : requested->mr_mode;
  if (mode == basic || mode == scalable)
    return mode;
  return FI_VERSION_LT(api, FI_VERSION(1, 5)) ? scalable : 0;
}

void fill_domain(fi_domain_attr &domain, uint32_t api, const fi_domain_attr *requested) {
  bool const is_requested = requested != nullptr;
  domain.threading = is_requested && requested->threading != FI_THREAD_UNSPEC ? requested->threading
                                                                              : FI_THREAD_SAFE;
  domain.control_progress = is_requested && requested->control_progress != FI_PROGRESS_UNSPEC
                                ? requested->control_progress
                                : FI_PROGRESS_AUTO;
  domain.data_progress = is_requested && requested->data_progress != FI_PROGRESS_UNSPEC
                             ? requested->data_progress
                             : FI_PROGRESS_AUTO;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.av_type = is_requested ? requested->av_type : FI_AV_UNSPEC;
  domain.mr_mode = mr_mode_of(api, requested);
  domain.mr_key_size = sizeof(uint64_t);
  domain.cq_data_size = sizeof(uint64_t);
  domain.cq_cnt = 1024;
  domain.ep_cnt = 1024;
  domain.tx_ctx_cnt = 1024;
  domain.rx_ctx_cnt = 1024;
  domain.cntr_cnt = 1024;
  domain.max_ep_tx_ctx = 1;
  domain.max_ep_rx_ctx = 1;
  domain.mr_iov_limit = 1;
  domain.caps = domain_caps;
  domain.mr_cnt = queue_size;
}

// Allocates the structures of an offer, all bytes 0. Null: no memory.
fi_info *allocate_info() {
  auto *const info = allocate<fi_info>();
  if (info == nullptr)
    return nullptr;
  info->tx_attr = allocate<fi_tx_attr>();
  info->rx_attr = allocate<fi_rx_attr>();
  info->ep_attr = allocate<fi_ep_attr>();
  info->domain_attr = allocate<fi_domain_attr>();
  info->fabric_attr = allocate<fi_fabric_attr>();
  bool const is_complete = info->tx_attr != nullptr && info->rx_attr != nullptr &&
                           info->ep_attr != nullptr && info->domain_attr != nullptr &&
                           info->fabric_attr != nullptr;
  if (is_complete)
    return info;
  release(info);
  return nullptr;
}

// Null: no memory.
fi_info *make_info(uint32_t api,
                   const seams::interface_address &source,
                   const socket_address &destination,
                   const fi_info *hints) {
  fi_info *const info = allocate_info();
  if (info == nullptr)
    return nullptr;
  fill_queues(*info, hints, all_caps(api));
  fill_domain(*info->domain_attr, api, hints == nullptr ? nullptr : hints->domain_attr);
  fill_endpoint(*info->ep_attr, hints == nullptr ? nullptr : hints->ep_attr);
  info->domain_attr->name = strdup(source.interface.c_str());
  info->fabric_attr->name = strdup(name);
  info->fabric_attr->prov_version = version;
  info->fabric_attr->api_version = api;
  info->addr_format = source.address.family == family_kind::ipv4 ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  info->src_addr = allocate_address(source.address, info->src_addrlen);
  if (destination.family != family_kind::unspecified)
    info->dest_addr = allocate_address(destination, info->dest_addrlen);
  return info;
}

bool name_differs(const char *requested, const std::string &actual) {
  return requested != nullptr && actual != requested;
}

// The addresses, and names, that a program requests of fi_getinfo.
struct info_query {
  uint32_t format = FI_FORMAT_UNSPEC;
  socket_address source{}, destination{};
  const char *domain_name = nullptr, *fabric_name = nullptr;

  bool has_source() const {
    return std::ranges::any_of(source.bytes, [](uint8_t byte) { return byte != 0; });
  }
  bool has_destination() const {
    return destination.family != family_kind::unspecified;
  }
  // The source address that the system uses for the destination, if none was requested.
  socket_address preferred_source() const {
    return has_source() || !has_destination() ? source : seams::source_address_for(destination);
  }
};

// Reads an address of the hints, if it is set. invalid: it is malformed.
status read_address(const void *system, size_t size, socket_address &address) {
  if (system == nullptr)
    return status::ok;
  auto parsed = seams::socket_address_from(system, size);
  if (!parsed.ok())
    return status::invalid;
  address = std::move(parsed).value();
  return status::ok;
}

status read_hints(const fi_info &hints, info_query &query) {
  query.format = hints.addr_format;
  if (hints.domain_attr != nullptr)
    query.domain_name = hints.domain_attr->name;
  if (hints.fabric_attr != nullptr)
    query.fabric_name = hints.fabric_attr->name;
  TND_TRY(read_address(hints.src_addr, hints.src_addrlen, query.source));
  return read_address(hints.dest_addr, hints.dest_addrlen, query.destination);
}

// Resolves the names of the call, which override the address of the hints. `is_source`: they are
// those of this node.
status resolve_names(const char *node, const char *service, bool is_source, info_query &query) {
  if (node == nullptr && service == nullptr)
    return status::ok;
  auto const family = query.format == FI_SOCKADDR_IN    ? family_kind::ipv4
                      : query.format == FI_SOCKADDR_IN6 ? family_kind::ipv6
                                                        : family_kind::unspecified;
  auto parsed = seams::socket_address_resolve(node, service, family, is_source);
  if (!parsed.ok())
    return status::invalid;
  (is_source ? query.source : query.destination) = std::move(parsed).value();
  return status::ok;
}

// The addresses of this node that may be offered, those equal to the preferred one first.
std::vector<seams::interface_address> candidate_addresses(const info_query &query) {
  socket_address const preferred = query.preferred_source();
  // Offer loopback only on request: some programs rotate through the offered addresses, and no
  // other node can be reached from loopback.
  bool const offers_loopback = query.has_source() || query.domain_name != nullptr ||
                               preferred.bytes[0] == 127 || preferred.family == family_kind::ipv6;
  const char *const interface = std::getenv("TND_O2G_INTERFACE");
  auto locals = seams::interface_addresses(interface, offers_loopback);
  if (interface != nullptr && locals.empty())
    log(log_level::error,
        "o2g: TND_O2G_INTERFACE={}: no active interface has this name or address",
        interface);
  std::stable_partition(
      locals.begin(), locals.end(), [&](const seams::interface_address &candidate) {
        return candidate.address.bytes == preferred.bytes;
      });
  return locals;
}

bool satisfies(const seams::interface_address &candidate, const info_query &query) {
  socket_address const &address = candidate.address;
  bool const is_ipv4 = address.family == family_kind::ipv4;
  bool const source_fits = !query.has_source() || (address.bytes == query.source.bytes &&
                                                   address.family == query.source.family);
  bool const destination_fits =
      !query.has_destination() || query.destination.family == address.family;
  bool const format_fits =
      (query.format != FI_SOCKADDR_IN || is_ipv4) && (query.format != FI_SOCKADDR_IN6 || !is_ipv4);
  return source_fits && destination_fits && format_fits &&
         !name_differs(query.domain_name, candidate.interface);
}

}  // namespace

int getinfo(uint32_t api,
            const char *node,
            const char *service,
            uint64_t flags,
            const fi_info *hints,
            fi_info **info) {
  *info = nullptr;
  if (hints != nullptr && !is_possible(*hints, all_caps(api)))
    return -FI_ENODATA;
  info_query query;
  if (hints != nullptr && read_hints(*hints, query) != status::ok)
    return -FI_ENODATA;
  if (resolve_names(node, service, (flags & FI_SOURCE) != 0, query) != status::ok)
    return -FI_ENODATA;
  if (name_differs(query.fabric_name, name))
    return -FI_ENODATA;
  fi_info *first = nullptr;
  fi_info **last = &first;
  for (seams::interface_address candidate : candidate_addresses(query)) {
    if (!satisfies(candidate, query))
      continue;
    candidate.address.port = query.source.port;
    *last = make_info(api, candidate, query.destination, hints);
    if (*last == nullptr) {
      release(first);
      return -FI_ENOMEM;
    }
    last = &(*last)->next;
  }
  *info = first;
  return first == nullptr ? -FI_ENODATA : 0;
}

}  // namespace tanada::o2g::provider
