// backends/libfabric/libfabric_domain.cc: chooses a provider of libfabric and opens its objects.
#include "backends/libfabric/libfabric_domain.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "backends/libfabric/libfabric_setup.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_op_check.hpp"
#include "seams/stream/interfaces.hpp"

namespace tanada::backends {
namespace {

constexpr uint32_t api_version = FI_VERSION(1, 17);
constexpr uint64_t caps_needed = FI_MSG | FI_RMA | FI_SOURCE;
// The order of writes and atomics at the target, and of reads and fetching atomics after them.
constexpr uint64_t orders_wanted = FI_ORDER_SAS | FI_ORDER_WAW | FI_ORDER_RAW;
constexpr size_t copied_size_max = 4096;  // bytes; for larger messages a copy costs more than a
                                          // wait

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

seams::fabric_path path_of(const std::string &provider) {
  if (contains(provider, "shm"))
    return seams::fabric_path::shared_memory;
  for (const char *socket : {"tcp", "sockets", "udp", "net"}) {
    if (contains(provider, socket))
      return seams::fabric_path::tcp;
  }
  return seams::fabric_path::rdma;
}

// The connection manager of verbs does not accept names of interfaces, which sockets resolve to
// addresses.
std::string address_of(const std::string &node) {
  for (const auto &candidate : seams::interface_addresses(node.c_str(), false)) {
    if (candidate.interface != node)
      continue;
    std::string const text = seams::to_text(candidate.address);  // 10.0.0.1:0, [fd00::1]:0
    std::string const host = text.substr(0, text.rfind(':'));
    return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  }
  return node;
}

struct info_request {
  uint64_t caps, op_flags, orders;
};

libfabric_handle<fi_info> request_info(const libfabric_options &options,
                                       const std::string &node,
                                       info_request request,
                                       bool is_shm) {
  libfabric_handle<fi_info> hints{fi_allocinfo()};
  if (!hints)
    return nullptr;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = request.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  // With virtual addresses, shm 1.17 accesses the peer's memory directly and does not check the
  // key.
  if (!is_shm)
    hints->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
  if (request.caps & FI_HMEM)
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  hints->tx_attr->msg_order = request.orders;
  hints->rx_attr->msg_order = request.orders;
  hints->tx_attr->op_flags = request.op_flags;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  fi_info *info = nullptr;
  const char *host = node.empty() ? nullptr : node.c_str();
  const char *service = options.service.empty() || is_shm ? nullptr : options.service.c_str();
  uint64_t const flags = host != nullptr || service != nullptr ? FI_SOURCE : 0;
  if (fi_getinfo(api_version, host, service, flags, hints.get(), &info) != 0)
    return nullptr;
  return libfabric_handle<fi_info>{info};
}

template <class Object, class Open>
status open_object(libfabric_handle<Object> &target, const char *call_name, Open open) {
  Object *opened = nullptr;
  if (int const code = open(&opened); code != 0) {
    return fail(libfabric_status(-code), "libfabric: {}: {}", call_name, fi_strerror(-code));
  }
  target.reset(opened);
  return status::ok;
}

// The queues are small, since shm allocates them in /dev/shm, and this backend enforces the depth
// itself. rxm 1.17 leaks the queue space of each atomic in flight when a connection ends, so
// connected providers keep their larger size.
void limit_queues(fi_info &info, uint32_t depth, bool is_connected) {
  size_t const size_max = std::max<uint32_t>(depth, 64);
  if (!is_connected)
    info.tx_attr->size = std::min<size_t>(info.tx_attr->size, size_max);
  info.rx_attr->size = std::min<size_t>(info.rx_attr->size, size_max);
}

// Reports why no provider was chosen.
status fail_choice(const std::string &provider, const std::string &node) {
  const char *const place = node.empty() ? "any address" : node.c_str();
  auto const known = libfabric_providers();
  if (std::find(known.begin(), known.end(), provider) != known.end()) {
    return fail(
        status::not_supported,
        "libfabric: provider {} does not support the messages and RMA that Tanada needs at {}",
        provider,
        place);
  }
  return fail(
      status::no_plugin,
      "libfabric: there is no provider {} for {} here (fi_info -t FI_EP_RDM lists them){}",
      provider,
      place,
      provider == "o2g"
          ? "; libo2g-fi.so is not in a plugin folder, or libfabric was initialized without it"
          : "");
}

}  // namespace

status libfabric_domain::choose(const libfabric_options &options) {
  is_shm_ = options.provider == "shm";
  is_o2g_ = options.provider == "o2g";
  is_verbs_ = contains(options.provider, "verbs");
  std::string const node = is_shm_                              ? shm_name_create()
                           : is_verbs_ && !options.node.empty() ? address_of(options.node)
                                                                : options.node;
  uint64_t const hmem = options.cuda ? FI_HMEM : 0;
  // The least important capability is given up first: the ordering, then a completion that reports
  // that the write is visible (verbs has that by its ordering), then atomics, then GPU memory.
  uint64_t const all_caps[] = {
      caps_needed | FI_ATOMIC | hmem, caps_needed | hmem, caps_needed | FI_ATOMIC, caps_needed};
  uint64_t const all_flags[] = {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE};
  for (auto const caps : all_caps) {
    for (auto const op_flags : all_flags) {
      for (auto const orders : {orders_wanted, uint64_t{FI_ORDER_SAS}}) {
        info_ = request_info(options, node, {caps, op_flags, orders}, is_shm_);
        if (!info_)
          continue;
        write_flags_ = op_flags;
        properties_.has_atomics = (caps & FI_ATOMIC) != 0;
        properties_.has_cuda = (caps & FI_HMEM) != 0;
        return status::ok;
      }
    }
  }
  return fail_choice(options.provider, node);
}

status libfabric_domain::open_objects(const libfabric_options &options) {
  TND_ASSERT(info_ != nullptr);
  auto *info = info_.get();
  limit_queues(*info, options.depth, is_connected_);
  info->tx_attr->op_flags = 0;
  info->rx_attr->op_flags = 0;
  TND_TRY(open_object(fabric_, "fi_fabric", [&](fid_fabric **opened) {
    return fi_fabric(info->fabric_attr, opened, nullptr);
  }));
  TND_TRY(open_object(domain_, "fi_domain", [&](fid_domain **opened) {
    return fi_domain(fabric(), info, opened, nullptr);
  }));
  fi_av_attr addresses{};
  addresses.type = FI_AV_TABLE;
  TND_TRY(open_object(addresses_, "fi_av_open", [&](fid_av **opened) {
    return fi_av_open(domain(), &addresses, opened, nullptr);
  }));
  TND_TRY(open_queue(options.depth));
  if (queue_wait_ == nullptr)
    return status::ok;
  fi_cntr_attr counter{};
  counter.events = FI_CNTR_EVENTS_COMP;
  counter.wait_obj = FI_WAIT_UNSPEC;
  return open_object(change_counter_, "fi_cntr_open", [&](fid_cntr **opened) {
    return fi_cntr_open(domain(), &counter, opened, nullptr);
  });
}

// Opens a completion queue with the provider's own wait, with a descriptor, or without either.
status libfabric_domain::open_queue(uint32_t depth) {
  fi_cq_attr queue{};
  queue.size = 2 * size_t(depth);
  queue.format = FI_CQ_FORMAT_MSG;
  for (auto const wait_kind : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    if (wait_kind == FI_WAIT_UNSPEC && !is_o2g_)
      continue;
    queue.wait_obj = wait_kind;
    fid_cq *created = nullptr;
    if (fi_cq_open(domain(), &queue, &created, nullptr) != 0)
      continue;
    queue_.reset(created);
    void *ops = nullptr;
    if (wait_kind == FI_WAIT_UNSPEC &&
        fi_open_ops(&created->fid, seams::queue_wait_name, 0, &ops, nullptr) != 0)
      continue;
    queue_wait_ = static_cast<const seams::queue_wait_ops *>(ops);
    if (wait_kind != FI_WAIT_FD || fi_control(&created->fid, FI_GETWAIT, &queue_descriptor_) != 0)
      queue_descriptor_ = -1;
    return status::ok;
  }
  queue.wait_obj = FI_WAIT_NONE;
  return open_object(queue_, "fi_cq_open", [&](fid_cq **opened) {
    return fi_cq_open(domain(), &queue, opened, nullptr);
  });
}

// Records the properties of the provider that choose() found. Automatic progress was not requested:
// a provider that has it anyway reports it, and one that would need a thread for it does not.
void libfabric_domain::describe(const libfabric_options &options) {
  const std::string &provider = options.provider;
  TND_ASSERT(info_ != nullptr);
  is_connected_ = contains(provider, "ofi_rxm");
  auto const &queue = *info_->tx_attr;
  auto const &endpoint = *info_->ep_attr;
  bool const has_orders =
      (queue.msg_order & info_->rx_attr->msg_order & orders_wanted) == orders_wanted &&
      std::min(endpoint.max_order_waw_size, endpoint.max_order_raw_size) >=
          seams::fabric_transfer_size_max;
  properties_.provider = provider;
  properties_.path = path_of(provider);
  properties_.depth = options.depth;
  properties_.message_size_max = std::min(options.message_size_max, endpoint.max_msg_size);
  properties_.copied_size_max = copied_size_max;
  properties_.is_ordered = has_orders && !is_shm_;  // a new lane of shm may overtake the old one
  properties_.has_auto_progress = info_->domain_attr->data_progress == FI_PROGRESS_AUTO;
  // The atomics of libfabric (rxm, shm, sockets) and of o2g are compare-and-swap loops on the
  // target's processor.
  properties_.atomics_by_processor = is_shm_ || is_connected_ || is_o2g_;
  // o2g makes progress on its own in either mode. In manual mode a poll does not sleep, which its
  // owners need because they poll other sources, too.
  if (is_o2g_)
    info_->domain_attr->data_progress = FI_PROGRESS_MANUAL;
}

result<std::unique_ptr<libfabric_domain>> libfabric_domain::open(const libfabric_options &options) {
  libfabric_prepare({.provider = options.provider});
  std::unique_ptr<libfabric_domain> created{new libfabric_domain};
  TND_TRY(created->choose(options));
  created->describe(options);
  TND_TRY(created->open_objects(options));
  created->properties_.waits_on_descriptor =
      created->queue_descriptor_ != -1 || created->queue_wait_ != nullptr;
  return created;
}

result<libfabric_handle<fid_ep>> libfabric_domain::endpoint_open(const std::string &name) const {
  TND_ASSERT(info_ != nullptr && queue_ != nullptr && addresses_ != nullptr);
  libfabric_handle<fi_info> own_info{fi_dupinfo(info_.get())};
  if (!own_info)
    return status::no_memory;
  if (!name.empty()) {
    std::string const address = "fi_shm://" + name;
    free(own_info->src_addr);
    own_info->src_addr = strdup(address.c_str());
    own_info->src_addrlen = address.size() + 1;
  }
  libfabric_handle<fid_ep> created;
  TND_TRY(open_object(created, "fi_endpoint", [&](fid_ep **opened) {
    return fi_endpoint(domain(), own_info.get(), opened, nullptr);
  }));
  int code = fi_ep_bind(created.get(), &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0)
    code = fi_ep_bind(created.get(), &addresses_->fid, 0);
  if (code == 0 && change_counter_)
    code = fi_ep_bind(created.get(), &change_counter_->fid, FI_REMOTE_WRITE | FI_REMOTE_READ);
  if (code == 0)
    code = fi_enable(created.get());
  if (code != 0) {
    return fail(
        libfabric_status(-code),
        "libfabric: provider {} cannot open an endpoint: {}{}",
        properties_.provider,
        fi_strerror(-code),
        is_verbs_
            ? "; for a device with short completion queues, set FI_UNIVERSE_SIZE lower, e.g. 64"
            : "");
  }
  return created;
}

std::vector<std::string> libfabric_providers() {
  libfabric_prepare({});
  std::vector<std::string> names;
  libfabric_handle<fi_info> hints{fi_allocinfo()};
  if (!hints)
    return names;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
  fi_info *list = nullptr;
  if (fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &list) != 0)
    return names;
  libfabric_handle<fi_info> const owner{list};
  for (auto const *info = list; info != nullptr; info = info->next)
    names.emplace_back(info->fabric_attr->prov_name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tanada::backends
