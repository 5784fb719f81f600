#include "records.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>
#include <variant>

namespace nb = nanobind;

namespace tanada::python {
namespace {

template <class Record>
struct field {
  const char *name;
  std::variant<uint32_t Record::*, uint64_t Record::*> member;
};

// One line for each field: the C name is also the Python name.
#define TND_FIELD(record, name) {#name, &record::name}

using config = tnd_gfile_config;
constexpr field<config> config_fields[] = {
    TND_FIELD(config, page_size),
    TND_FIELD(config, replacement),
    TND_FIELD(config, service_threads),
    TND_FIELD(config, file_count_max),
    TND_FIELD(config, device),
    TND_FIELD(config, device_index),
    TND_FIELD(config, direct),
    TND_FIELD(config, mapping),
    TND_FIELD(config, device_tier_size),
    TND_FIELD(config, host_tier_size),
    TND_FIELD(config, timeout_ns),
    TND_FIELD(config, direct_window_size),
    TND_FIELD(config, mapping_size_max),
    TND_FIELD(config, wait_timeout_ns),
};

using statistics = tnd_gfile_statistics;
constexpr field<statistics> statistics_fields[] = {
    TND_FIELD(statistics, device_hits),
    TND_FIELD(statistics, host_hits),
    TND_FIELD(statistics, misses),
    TND_FIELD(statistics, uncached_transfers),
    TND_FIELD(statistics, store_reads),
    TND_FIELD(statistics, store_read_size),
    TND_FIELD(statistics, store_writes),
    TND_FIELD(statistics, store_write_size),
    TND_FIELD(statistics, requests),
    TND_FIELD(statistics, evictions),
    TND_FIELD(statistics, write_errors),
    TND_FIELD(statistics, mapped_copies),
    TND_FIELD(statistics, direct_copies),
    TND_FIELD(statistics, device_evictions),
    TND_FIELD(statistics, read_size),
    TND_FIELD(statistics, write_size),
};

using file = tnd_gfile_file;
constexpr field<file> file_fields[] = {
    TND_FIELD(file, path),
    TND_FIELD(file, opens),
    TND_FIELD(file, write_opens),
    TND_FIELD(file, size),
    TND_FIELD(file, device_hits),
    TND_FIELD(file, host_hits),
    TND_FIELD(file, mapped_copies),
    TND_FIELD(file, direct_copies),
    TND_FIELD(file, misses),
    TND_FIELD(file, read_size),
    TND_FIELD(file, write_size),
};

using pool_connection = tnd_pool_connection;
constexpr field<pool_connection> pool_connection_fields[] = {
    TND_FIELD(pool_connection, path),
    TND_FIELD(pool_connection, sent_size),
    TND_FIELD(pool_connection, received_size)};

using pool_statistics = tnd_pool_statistics;
constexpr field<pool_statistics> pool_statistics_fields[] = {
    TND_FIELD(pool_statistics, client_count),
    TND_FIELD(pool_statistics, capacity),
    TND_FIELD(pool_statistics, used),
    TND_FIELD(pool_statistics, object_count),
    TND_FIELD(pool_statistics, space_used),
    TND_FIELD(pool_statistics, space_quota),
    TND_FIELD(pool_statistics, space_object_count),
    TND_FIELD(pool_statistics, written_size),
    TND_FIELD(pool_statistics, read_size),
    TND_FIELD(pool_statistics, commits),
    TND_FIELD(pool_statistics, opens),
    TND_FIELD(pool_statistics, evictions),
    TND_FIELD(pool_statistics, errors),
    TND_FIELD(pool_statistics, uptime_ns),
};

using path_traffic = tnd_pool_path_traffic;
constexpr field<path_traffic> path_traffic_fields[] = {TND_FIELD(path_traffic, writes),
                                                       TND_FIELD(path_traffic, written_size),
                                                       TND_FIELD(path_traffic, reads),
                                                       TND_FIELD(path_traffic, read_size)};

using pool_traffic = tnd_pool_traffic;
constexpr field<pool_traffic> pool_traffic_fields[] = {TND_FIELD(pool_traffic, last_path),
                                                       TND_FIELD(pool_traffic, staged_size),
                                                       TND_FIELD(pool_traffic, maps),
                                                       TND_FIELD(pool_traffic, mapped_size)};

#undef TND_FIELD

template <class Record, size_t count>
bool assign(Record &record,
            const field<Record> (&fields)[count],
            std::string_view name,
            nb::handle value) {
  auto const *const found =
      std::find_if(fields, fields + count, [&](auto &each) { return each.name == name; });
  if (found == fields + count)
    return false;
  // A value that does not fit becomes the largest number, which the library refuses with a message
  // that names the field.
  auto const wanted = nb::cast<uint64_t>(value);
  std::visit(
      [&](auto member) {
        using number = std::remove_reference_t<decltype(record.*member)>;
        record.*member = number(std::min<uint64_t>(wanted, std::numeric_limits<number>::max()));
      },
      found->member);
  return true;
}

template <class Record, size_t count>
void copy_fields(nb::dict &target, const Record &record, const field<Record> (&fields)[count]) {
  for (auto const &each : fields)
    std::visit([&](auto member) { target[each.name] = record.*member; }, each.member);
}

// Text of a record is bytes in Python, as file names are.
template <size_t size_max>
nb::bytes text_of(const char (&text)[size_max]) {
  return nb::bytes(text, strnlen(text, size_max));
}

}  // namespace

tnd_gfile_config config_of(const nb::dict &settings) {
  tnd_gfile_config made = TND_GFILE_CONFIG_INIT;
  for (auto const &[key, value] : settings) {
    auto const name = nb::cast<std::string>(key);
    if (!assign(made, config_fields, name, value))
      throw nb::key_error(name.c_str());
  }
  return made;
}

nb::dict record_of(const tnd_gfile_statistics &now) {
  nb::dict made;
  made["is_cuda"] = now.is_cuda != 0;
  copy_fields(made, now, statistics_fields);
  nb::list latency;
  for (uint64_t const count : now.rpc_latency)
    latency.append(count);
  made["rpc_latency"] = nb::tuple(latency);
  return made;
}

nb::dict record_of(const tnd_gfile_file &one) {
  nb::dict made;
  made["url"] = text_of(one.url);
  made["reason"] = text_of(one.reason);
  copy_fields(made, one, file_fields);
  return made;
}

nb::dict record_of(const tnd_gfile_fault &fault) {
  nb::dict made;
  made["status"] = fault.status;
  made["site"] = fault.site;
  made["thread"] = fault.thread;
  made["block"] = fault.block;
  made["words"] = nb::make_tuple(fault.words[0], fault.words[1]);
  made["url"] = text_of(fault.url);
  return made;
}

nb::dict record_of(const tnd_pool_connection &connection) {
  nb::dict made;
  made["can_write"] = connection.can_write != 0;
  made["is_durable"] = connection.is_durable != 0;
  made["reason"] = text_of(connection.reason);
  copy_fields(made, connection, pool_connection_fields);
  return made;
}

nb::dict record_of(const tnd_pool_statistics &statistics) {
  nb::dict made;
  copy_fields(made, statistics, pool_statistics_fields);
  return made;
}

nb::dict record_of(const tnd_pool_traffic &traffic) {
  nb::dict made;
  made["last_is_staged"] = traffic.last_is_staged != 0;
  copy_fields(made, traffic, pool_traffic_fields);
  nb::list paths;
  for (auto const &each : traffic.by_path) {
    nb::dict of;
    copy_fields(of, each, path_traffic_fields);
    paths.append(of);
  }
  made["by_path"] = paths;
  return made;
}

nb::tuple record_of(const tnd_pool_info &info) {
  return nb::make_tuple(
      info.size, info.version, info.created_ns, info.checksum, info.checksum_kind, info.flags);
}

outcome all_files(tnd_gfile *instance, std::vector<tnd_gfile_file> &files) {
  uint32_t count = 0;
  outcome result = outcome_of(tnd_gfile_get_files(instance, nullptr, 0, &count));
  // There may be more files at each call, up to the instance's limit.
  for (uint32_t capacity = 0; result.status == TND_OK && count > capacity;) {
    capacity = count + 16;
    files.resize(capacity);
    result = outcome_of(tnd_gfile_get_files(instance, files.data(), capacity, &count));
  }
  files.resize(result.status == TND_OK ? count : 0);
  return result;
}

}  // namespace tanada::python
