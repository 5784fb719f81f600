// The version of the protocol that the servers of a cluster agree on.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/log.hpp"
#include "products/poold/cluster/membership.hpp"

namespace tanada::poold {

namespace {

// Servers that announce no version are older than the announcement, and have this one.
constexpr uint32_t unannounced_version = 6;
constexpr uint64_t raise_retry_ns = 250'000'000;

// 0: it is no number.
uint32_t number_of(const std::string &text) {
  uint32_t number = 0;
  auto const end = text.data() + text.size();
  auto const parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end ? number : 0;
}

}  // namespace

void membership::apply_version(const seams::coordinated_entry &entry) {
  uint32_t const version = number_of(entry.value);
  if (version == 0)
    return log(log_level::error, "pool: etcd's {} is no version of the protocol", entry.key);
  if (entry.key != version_key()) {
    versions_[entry.key.substr(version_prefix().size())] = version;
    return;
  }
  stored_protocol_ = version;
  stored_revision_ = entry.revision;
}

// Of all servers that were not removed: one that is away may come back as it was.
uint32_t membership::lowest_protocol() const {
  uint32_t lowest = options_.protocol;
  for (auto const &[key, server] : known_) {
    auto const announced = versions_.find(server.self.server);
    lowest =
        std::min(lowest, announced == versions_.end() ? unannounced_version : announced->second);
  }
  return lowest;
}

void membership::update_protocol() {
  uint32_t const version = stored_protocol_ != 0 ? stored_protocol_ : lowest_protocol();
  if (version > options_.protocol || version < wire::pool::protocol_version_min) {
    if (stage_ != stage::ended)
      refuse(
          fmt::format("the cluster uses version {} of the protocol, and this server has versions "
                      "{} to {}: {}",
                      version,
                      wire::pool::protocol_version_min,
                      options_.protocol,
                      version > options_.protocol ? "install a newer release, or see --protocol"
                                                  : "upgrade by way of an earlier release"));
    return;
  }
  if (protocol_.exchange(version, std::memory_order_acq_rel) != version)
    log(log_level::info, "pool: the cluster uses version {} of the protocol", version);
}

// Any server may store it. A transaction that another server's has overtaken changes nothing.
void membership::raise_protocol() {
  bool const is_member = stage_ == stage::watching && map() != nullptr;
  uint32_t const lowest = lowest_protocol();
  if (!is_member || is_raising_ || lowest <= stored_protocol_ || now_ns() < raise_ns_)
    return;
  is_raising_ = true;
  raise_ns_ = now_ns() + raise_retry_ns;
  seams::transaction_change raised;
  raised.key = version_key();
  raised.value = std::to_string(lowest);
  store_.transact({{version_key(), stored_revision_}},
                  {std::move(raised)},
                  [this](const result<seams::transaction_outcome> &) { is_raising_ = false; });
}

std::map<std::string, std::string> membership::describe_outdated() const {
  std::map<std::string, std::string> texts;
  for (auto const &[server, version] : versions_)
    if (version < options_.protocol)
      texts[server] = fmt::format(
          "it has version {} of the protocol: what is new in version {} waits "
          "until it is upgraded",
          version,
          options_.protocol);
  return texts;
}

}  // namespace tanada::poold
