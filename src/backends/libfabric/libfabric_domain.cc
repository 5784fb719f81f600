#include "backends/libfabric/libfabric_domain.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "backends/libfabric/libfabric_setup.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_op_check.hpp"
#include "seams/stream/interfaces.hpp"

namespace tanada::port {
namespace {

constexpr uint32_t api_version = FI_VERSION(1, 17);
constexpr uint64_t caps_needed = FI_MSG | FI_RMA | FI_SOURCE;
// Of writes and atomics at the target, and of what reads and fetching atomics see.
constexpr uint64_t orders_wanted = FI_ORDER_SAS | FI_ORDER_WAW | FI_ORDER_RAW;
constexpr size_t copied_size_max = 4096;  // bytes: above it a copy costs more than a wait

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

fabric_path path_of(const std::string &provider) {
  if (contains(provider, "shm"))
    return fabric_path::shared_memory;
  for (const char *socket : {"tcp", "sockets", "udp", "net"}) {
    if (contains(provider, socket))
      return fabric_path::tcp;
  }
  return fabric_path::rdma;
}

// The connection manager of verbs knows no names of interfaces, which sockets take for their
// addresses.
std::string address_of(const std::string &node) {
  for (const auto &each : interface_addresses(node.c_str(), false)) {
    if (each.interface != node)
      continue;
    std::string const text = to_text(each.address);  // 10.0.0.1:0, [fd00::1]:0
    std::string const host = text.substr(0, text.rfind(':'));
    return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  }
  return node;
}

struct wish {
  uint64_t caps, op_flags, orders;
};

libfabric_handle<fi_info> ask(const libfabric_options &options, const std::string &node,
                              wish wanted, bool is_shm) {
  libfabric_handle<fi_info> hints{fi_allocinfo()};
  if (!hints)
    return nullptr;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = wanted.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  // With virtual addresses shm 1.17 reaches into the peer by itself and looks at no key.
  if (!is_shm)
    hints->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
  if (wanted.caps & FI_HMEM)
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  hints->tx_attr->msg_order = wanted.orders;
  hints->rx_attr->msg_order = wanted.orders;
  hints->tx_attr->op_flags = wanted.op_flags;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  fi_info *found = nullptr;
  const char *at = node.empty() ? nullptr : node.c_str();
  const char *service = options.service.empty() || is_shm ? nullptr : options.service.c_str();
  uint64_t const flags = at != nullptr || service != nullptr ? FI_SOURCE : 0;
  if (fi_getinfo(api_version, at, service, flags, hints.get(), &found) != 0)
    return nullptr;
  return libfabric_handle<fi_info>{found};
}

template <class Object, class Open>
status open_object(libfabric_handle<Object> &into, const char *what, Open open) {
  Object *made = nullptr;
  if (int const code = open(&made); code != 0) {
    return fail(libfabric_status(-code), "libfabric: %s: %s", what, fi_strerror(-code));
  }
  into.reset(made);
  return status::ok;
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
  // What matters most comes last to be given up: a write that says when it is visible (verbs has
  // that by its order), atomics, GPU memory.
  uint64_t const all_caps[] = {caps_needed | FI_ATOMIC | hmem, caps_needed | hmem,
                               caps_needed | FI_ATOMIC, caps_needed};
  uint64_t const all_flags[] = {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE};
  for (auto const caps : all_caps) {
    for (auto const op_flags : all_flags) {
      for (auto const orders : {orders_wanted, uint64_t{FI_ORDER_SAS}}) {
        info_ = ask(options, node, {caps, op_flags, orders}, is_shm_);
        if (!info_)
          continue;
        write_flags_ = op_flags;
        properties_.has_atomics = (caps & FI_ATOMIC) != 0;
        properties_.has_cuda = (caps & FI_HMEM) != 0;
        return status::ok;
      }
    }
  }
  auto const known = libfabric_providers();
  if (std::find(known.begin(), known.end(), options.provider) == known.end()) {
    return fail(
        status::no_plugin,
        "libfabric: there is no provider %s for %s here (fi_info -t FI_EP_RDM lists them)%s",
        options.provider.c_str(), node.empty() ? "any address" : node.c_str(),
        is_o2g_
            ? "; libo2g-fi.so is not in a folder for plugins, or libfabric was started without it"
            : "");
  }
  return fail(status::not_supported,
              "libfabric: provider %s cannot serve %s with messages and RMA as we need them",
              options.provider.c_str(), node.empty() ? "any address" : node.c_str());
}

status libfabric_domain::open_objects(const libfabric_options &options) {
  auto *info = info_.get();
  // Small, since shm takes its memory from /dev/shm; the depth is ours to keep. rxm 1.17 loses the
  // room of each atomic that was under way when a connection ended: it gets more.
  if (!is_connected_)
    info->tx_attr->size =
        std::min<size_t>(info->tx_attr->size, std::max<uint32_t>(options.depth, 64));
  info->rx_attr->size =
      std::min<size_t>(info->rx_attr->size, std::max<uint32_t>(options.depth, 64));
  info->tx_attr->op_flags = 0;
  info->rx_attr->op_flags = 0;
  TND_TRY(open_object(fabric_, "fi_fabric", [&](fid_fabric **made) {
    return fi_fabric(info->fabric_attr, made, nullptr);
  }));
  TND_TRY(open_object(domain_, "fi_domain",
                      [&](fid_domain **made) { return fi_domain(fabric(), info, made, nullptr); }));
  fi_av_attr addresses{};
  addresses.type = FI_AV_TABLE;
  TND_TRY(open_object(addresses_, "fi_av_open", [&](fid_av **made) {
    return fi_av_open(domain(), &addresses, made, nullptr);
  }));
  TND_TRY(open_queue(options.depth));
  if (queue_wait_ == nullptr)
    return status::ok;
  fi_cntr_attr counter{};
  counter.events = FI_CNTR_EVENTS_COMP;
  counter.wait_obj = FI_WAIT_UNSPEC;
  return open_object(changes_, "fi_cntr_open", [&](fid_cntr **made) {
    return fi_cntr_open(domain(), &counter, made, nullptr);
  });
}

// With a wait of its own, by a descriptor, or neither.
status libfabric_domain::open_queue(uint32_t depth) {
  fi_cq_attr queue{};
  queue.size = 2 * size_t(depth);
  queue.format = FI_CQ_FORMAT_MSG;
  for (auto const how : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    if (how == FI_WAIT_UNSPEC && !is_o2g_)
      continue;
    queue.wait_obj = how;
    fid_cq *made = nullptr;
    if (fi_cq_open(domain(), &queue, &made, nullptr) != 0)
      continue;
    queue_.reset(made);
    void *ops = nullptr;
    if (how == FI_WAIT_UNSPEC && fi_open_ops(&made->fid, queue_wait_name, 0, &ops, nullptr) != 0)
      continue;
    queue_wait_ = static_cast<const queue_wait_ops *>(ops);
    if (how != FI_WAIT_FD || fi_control(&made->fid, FI_GETWAIT, &queue_descriptor_) != 0)
      queue_descriptor_ = -1;
    return status::ok;
  }
  queue.wait_obj = FI_WAIT_NONE;
  return open_object(queue_, "fi_cq_open", [&](fid_cq **opened) {
    return fi_cq_open(domain(), &queue, opened, nullptr);
  });
}

// What came of choose(). Progress was not asked for: a provider that has it by nature says so then,
// and one that would make a thread for it does not.
void libfabric_domain::describe(const libfabric_options &options) {
  const std::string &provider = options.provider;
  is_connected_ = contains(provider, "ofi_rxm");
  auto const &queue = *info_->tx_attr;
  auto const &endpoint = *info_->ep_attr;
  bool const has_orders =
      (queue.msg_order & info_->rx_attr->msg_order & orders_wanted) == orders_wanted &&
      std::min(endpoint.max_order_waw_size, endpoint.max_order_raw_size) >=
          fabric_transfer_size_max;
  properties_.provider = provider;
  properties_.path = path_of(provider);
  properties_.depth = options.depth;
  properties_.message_size_max = std::min(options.message_size_max, endpoint.max_msg_size);
  properties_.copied_size_max = copied_size_max;
  properties_.is_ordered = has_orders && !is_shm_;  // of shm's lanes a new one may overtake the old
  properties_.progresses_alone = info_->domain_attr->data_progress == FI_PROGRESS_AUTO;
  // libfabric's own atomics (rxm, shm, sockets) and ours are loops of compare-and-swap of the
  // target's processor.
  properties_.atomics_by_processor = is_shm_ || is_connected_ || is_o2g_;
  // It goes on by itself all the same, and a poll does not sleep: owners look at other things, too.
  if (is_o2g_)
    info_->domain_attr->data_progress = FI_PROGRESS_MANUAL;
}

result<std::unique_ptr<libfabric_domain>> libfabric_domain::open(const libfabric_options &options) {
  libfabric_prepare({.provider = options.provider});
  std::unique_ptr<libfabric_domain> made{new libfabric_domain};
  TND_TRY(made->choose(options));
  made->describe(options);
  TND_TRY(made->open_objects(options));
  made->properties_.waits_on_descriptor =
      made->queue_descriptor_ != -1 || made->queue_wait_ != nullptr;
  return made;
}

result<libfabric_handle<fid_ep>> libfabric_domain::endpoint_open(const std::string &name) const {
  libfabric_handle<fi_info> own{fi_dupinfo(info_.get())};
  if (!own)
    return status::no_memory;
  if (!name.empty()) {
    std::string const address = "fi_shm://" + name;
    free(own->src_addr);
    own->src_addr = strdup(address.c_str());
    own->src_addrlen = address.size() + 1;
  }
  libfabric_handle<fid_ep> made;
  TND_TRY(open_object(made, "fi_endpoint", [&](fid_ep **opened) {
    return fi_endpoint(domain(), own.get(), opened, nullptr);
  }));
  int code = fi_ep_bind(made.get(), &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0)
    code = fi_ep_bind(made.get(), &addresses_->fid, 0);
  if (code == 0 && changes_)
    code = fi_ep_bind(made.get(), &changes_->fid, FI_REMOTE_WRITE | FI_REMOTE_READ);
  if (code == 0)
    code = fi_enable(made.get());
  if (code != 0) {
    return fail(libfabric_status(-code), "libfabric: provider %s cannot open an endpoint: %s%s",
                properties_.provider.c_str(), fi_strerror(-code),
                is_verbs_
                    ? "; a card with short completion queues wants FI_UNIVERSE_SIZE lower, e.g. 64"
                    : "");
  }
  return made;
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
  fi_info *found = nullptr;
  if (fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &found) != 0)
    return names;
  libfabric_handle<fi_info> const owner{found};
  for (auto const *each = found; each != nullptr; each = each->next)
    names.emplace_back(each->fabric_attr->prov_name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tanada::port
