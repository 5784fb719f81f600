// products/o2g/provider/provider_fixture.hpp: endpoints of the built provider, opened through
// libfabric's own calls.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

struct info_deleter {
  void operator()(fi_info *info) const {
    fi_freeinfo(info);
  }
};
using info_pointer = std::unique_ptr<fi_info, info_deleter>;

// The result of fi_getinfo for these hints; null if it found nothing or failed. `change` edits the
// hints before the call.
inline info_pointer query_info(const std::function<void(fi_info &)> &change = {},
                               const char *node = "127.0.0.1",
                               const char *service = nullptr,
                               uint64_t flags = FI_SOURCE) {
  info_pointer const hints{fi_allocinfo()};
  hints->fabric_attr->prov_name = strdup("o2g");
  hints->ep_attr->type = FI_EP_RDM;
  hints->mode = FI_CONTEXT;
  if (change)
    change(*hints);
  fi_info *info = nullptr;
  if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                 node,
                 service,
                 flags,
                 hints.get(),
                 &info) != 0)
    return nullptr;
  return info_pointer{info};
}

struct test_endpoint_options {
  fi_wait_obj wait = FI_WAIT_NONE;
  uint64_t tx_binding = 0, rx_binding = 0;  // FI_SELECTIVE_COMPLETION
  fi_av_type table = FI_AV_TABLE;
  bool is_enabled = true;
};

// One endpoint with all the objects it needs, including its own fabric.
struct test_endpoint {
  explicit test_endpoint(const test_endpoint_options &options = {},
                         info_pointer offered_info = query_info())
      : info{std::move(offered_info)} {
    EXPECT_NE(info, nullptr);
    open_objects(options);
    bind_objects(options);
    if (options.is_enabled) {
      EXPECT_EQ(fi_enable(ep), 0);
    }
  }
  ~test_endpoint() {
    close_endpoint();
    for (fid_cntr *object : {sends, receives, remote_writes})
      EXPECT_EQ(fi_close(&object->fid), 0);
    for (fid *object : {&queue->fid, &peers->fid, &domain->fid, &fabric->fid})
      EXPECT_EQ(fi_close(object), 0);
  }
  test_endpoint(const test_endpoint &) = delete;
  test_endpoint &operator=(const test_endpoint &) = delete;

  void open_objects(const test_endpoint_options &options) {
    EXPECT_EQ(fi_fabric(info->fabric_attr, &fabric, nullptr), 0);
    EXPECT_EQ(fi_domain(fabric, info.get(), &domain, nullptr), 0);
    fi_av_attr av_attr{};
    av_attr.type = options.table;
    EXPECT_EQ(fi_av_open(domain, &av_attr, &peers, nullptr), 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = options.wait;
    EXPECT_EQ(fi_cq_open(domain, &cq_attr, &queue, nullptr), 0);
    fi_cntr_attr counter_attr{};
    counter_attr.wait_obj = options.wait;
    for (fid_cntr **counter_slot : {&sends, &receives, &remote_writes})
      EXPECT_EQ(fi_cntr_open(domain, &counter_attr, counter_slot, nullptr), 0);
    EXPECT_EQ(fi_endpoint(domain, info.get(), &ep, nullptr), 0);
  }
  void bind_objects(const test_endpoint_options &options) const {
    EXPECT_EQ(fi_ep_bind(ep, &peers->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(ep, &queue->fid, FI_TRANSMIT | options.tx_binding), 0);
    EXPECT_EQ(fi_ep_bind(ep, &queue->fid, FI_RECV | options.rx_binding), 0);
    EXPECT_EQ(fi_ep_bind(ep, &sends->fid, FI_SEND), 0);
    EXPECT_EQ(fi_ep_bind(ep, &receives->fid, FI_RECV), 0);
    EXPECT_EQ(fi_ep_bind(ep, &remote_writes->fid, FI_REMOTE_WRITE), 0);
  }
  void close_endpoint() {
    if (ep == nullptr)
      return;
    EXPECT_EQ(fi_close(&ep->fid), 0);
    ep = nullptr;
  }
  std::vector<char> name() const {
    std::vector<char> bytes(64);
    size_t size = bytes.size();
    EXPECT_EQ(fi_getname(&ep->fid, bytes.data(), &size), 0);
    bytes.resize(size);
    return bytes;
  }
  fi_addr_t number_of(const test_endpoint &peer) const {
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(peers, peer.name().data(), 1, &number, 0, nullptr), 1);
    return number;
  }

  info_pointer info;
  fid_fabric *fabric = nullptr;
  fid_domain *domain = nullptr;
  fid_av *peers = nullptr;
  fid_cq *queue = nullptr;
  fid_cntr *sends = nullptr, *receives = nullptr, *remote_writes = nullptr;
  fid_ep *ep = nullptr;
};

inline constexpr uint64_t test_timeout_ns = 20'000'000'000;

// Reads one entry from `reader` while making progress on `others`. Returns the result of
// fi_cq_readfrom: 1, or the error.
inline ssize_t read_entry(test_endpoint &reader,
                          fi_cq_tagged_entry &entry,
                          const std::vector<test_endpoint *> &others = {},
                          fi_addr_t *source = nullptr) {
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + test_timeout_ns;
  fi_addr_t ignored = 0;
  while (seams::monotonic_clock().now_ns() < end_ns) {
    ssize_t const count =
        fi_cq_readfrom(reader.queue, &entry, 1, source == nullptr ? &ignored : source);
    if (count != -FI_EAGAIN)
      return count;
    for (test_endpoint *const endpoint : others)
      (void)fi_cq_read(endpoint->queue, nullptr, 0);
  }
  return -FI_ETIMEDOUT;
}

// Reads the error entry at the front of the queue.
inline fi_cq_err_entry error_of(test_endpoint &reader) {
  fi_cq_tagged_entry unused{};
  EXPECT_EQ(read_entry(reader, unused), -FI_EAVAIL);
  fi_cq_err_entry error{};
  EXPECT_EQ(fi_cq_readerr(reader.queue, &error, 0), 1);
  return error;
}

}  // namespace tanada::o2g::provider
