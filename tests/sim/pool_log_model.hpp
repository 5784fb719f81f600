// tests/sim/pool_log_model.hpp: the expected content of a pool's log after appends.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "products/poold/log/log.hpp"
#include "products/poold/log/reserve.hpp"
#include "sim/world.hpp"

namespace tanada::pool {

// The objects of a pool by version, and the bytes of every version ever put.
struct pool_state {
  std::map<uint64_t, object_meta> objects;

  bool operator==(const pool_state &) const = default;

  uint64_t holder(const std::string &space, const std::string &name) const {
    for (const auto &[version, meta] : objects) {
      if (meta.namespace_name == space && meta.name == name)
        return version;
    }
    return 0;
  }

  void apply(const transaction &changes) {
    for (const auto &each : changes) {
      uint64_t const version = each.meta.version;
      if (each.kind == change_kind::put) {
        objects.erase(holder(each.meta.namespace_name, each.meta.name));
        objects[version] = each.meta;
      } else if (each.kind == change_kind::remove) {
        objects.erase(version);
      } else if (auto const at = objects.find(version); at != objects.end()) {
        if (each.kind == change_kind::flags) {
          at->second.flags = each.meta.flags;
        } else {
          if (uint64_t const old = holder(at->second.namespace_name, each.new_name); old != version)
            objects.erase(old);
          at->second.name = each.new_name;
        }
      }
    }
  }
};

// Draws transactions and owns their bytes.
class transaction_source {
 public:
  transaction_source(sim::prng &random, bool with_data) : random_{random}, with_data_{with_data} {}

  transaction draw(const pool_state &likely) {
    transaction made;
    for (uint64_t count = random_.chance(70) ? 1 : random_.between(2, 5); count != 0; count--)
      made.push_back(draw_change(likely));
    return made;
  }
  const std::string &bytes(uint64_t version) const {
    return bytes_.at(version);
  }
  bool knows(uint64_t version) const {
    return bytes_.contains(version);
  }
  const object_meta &put_meta(uint64_t version) const {
    return metas_.at(version);
  }

  change put(const std::string &name, uint64_t size) {
    uint64_t const version = ++last_version_;
    std::string text(size, '\0');
    for (char &each : text)
      each = char(random_.next());
    auto &kept = bytes_[version];
    kept = std::move(text);
    auto const bytes = std::as_bytes(std::span{kept});
    change made;
    made.meta = {.namespace_name = random_.chance(50) ? "left" : "right",
                 .name = name,
                 .version = version,
                 .size = size,
                 .created_ns = random_.next(),
                 .flags = uint32_t(random_.below(4)),
                 .kind = random_.chance(50) ? checksum_kind::crc32c : checksum_kind::xxh3,
                 .checksum = 0};
    made.meta.checksum = checksum_of(made.meta.kind, bytes);
    uint64_t const cut = size == 0 ? 0 : random_.below(size);
    if (with_data_) {
      made.data = {bytes.first(cut), bytes.subspan(cut)};
    } else if (size != 0) {
      made.extents = {{version << 20, cut}, {version << 30, size - cut}};
    }
    metas_[version] = made.meta;
    return made;
  }
  uint64_t puts_count() const {
    return bytes_.size();
  }
  void count_from(uint64_t version) {
    last_version_ = std::max(last_version_, version);
  }

 private:
  std::string draw_name() {
    return "name" + std::to_string(random_.below(8));
  }

  change draw_change(const pool_state &likely) {
    if (random_.chance(55) || likely.objects.empty())
      return put(draw_name(), random_.chance(20) ? 0 : random_.below(18'000));
    auto at = likely.objects.begin();
    std::advance(at, std::ptrdiff_t(random_.below(likely.objects.size())));
    change made;
    made.meta.version = at->first;
    switch (random_.below(3)) {
      case 0:
        made.kind = change_kind::remove;
        break;
      case 1:
        made.kind = change_kind::rename;
        made.new_name = draw_name();
        break;
      default:
        made.kind = change_kind::flags;
        made.meta.flags = uint32_t(random_.next());
        break;
    }
    return made;
  }

  sim::prng &random_;
  bool with_data_;
  uint64_t last_version_ = 0;
  std::map<uint64_t, std::string> bytes_;
  std::map<uint64_t, object_meta> metas_;
};

}  // namespace tanada::pool
