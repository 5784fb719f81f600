// bench/pool/python_rival.hpp: rivals that are Python packages, run by an interpreter that has
// them.
#pragma once

#include <string>
#include <vector>

#include "rival.hpp"
#include "server.hpp"

namespace bench {

// A script of this folder with its arguments: ROLE PEER NAME SIZE.
struct python_role {
  std::string python, script, role, peer;
  uint64_t size;

  std::vector<std::string> words() const;
};

// A process that owns memory, separate from the client's, so that bytes travel.
class python_owner {
 public:
  python_owner(const python_role &role, const std::string &log);
  // Its output after "ready".
  const std::string &said() const {
    return said_;
  }

 private:
  server process_;
  std::string said_;
};

// A client process, which measures the time.
class python_client final : public client {
 public:
  python_client(const python_role &role, const std::string &log);
  std::vector<double> put(const std::string &key,
                          const uint8_t *source,
                          uint64_t size,
                          unsigned count) override;
  std::vector<double> get(const std::string &key,
                          uint8_t *target,
                          uint64_t size,
                          unsigned count) override;
  bool is_here() const override {
    return false;
  }
  double put_many(const std::string &prefix, const uint8_t *source, double duration_s) override;

 private:
  std::vector<double> seconds(const std::string &line);
  std::string ask(const std::string &line);
  server process_;
};

}  // namespace bench
