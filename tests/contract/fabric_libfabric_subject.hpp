// tests/contract/fabric_libfabric_subject.hpp: providers of libfabric under the fabric contract,
// and processes to kill.
#pragma once

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "contract/fabric_subject.hpp"

namespace tanada::contract {

struct libfabric_place {
  std::string provider, node;  // as libfabric_options has them
  uint64_t patience_ns = 10'000'000'000, short_ns = 200'000'000;
};

class libfabric_subject final : public fabric_subject {
 public:
  explicit libfabric_subject(libfabric_place place) : place_{std::move(place)} {}
  result<std::unique_ptr<seams::fabric_endpoint>> open(
      const fabric_subject_options &options) override {
    backends::libfabric_options own;
    own.provider = place_.provider;
    own.node = place_.node;
    own.depth = options.depth;
    own.cache = options.cache;
    own.cuda = options.cuda;
    return backends::libfabric_endpoint_open(own);
  }
  std::unique_ptr<fabric_victim> victim() override;
  uint64_t patience_ns() const override {
    return place_.patience_ns;
  }
  uint64_t short_ns() const override {
    return place_.short_ns;
  }

 private:
  libfabric_place place_;
};

// What this program does when it is started as "PROGRAM --victim PROVIDER NODE SERVICE": serve 1
// MiB until standard input ends. The exit status.
int libfabric_victim_main(const std::string &provider,
                          const std::string &node,
                          const std::string &service);

}  // namespace tanada::contract
