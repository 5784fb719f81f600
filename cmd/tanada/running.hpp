// cmd/tanada/running.hpp: what of Tanada runs on this machine, as /proc and /dev/shm show it. The
// products do not take part, so a stopped process is found as well.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tanada::command {

// A process that is the pool's daemon or has a library of Tanada.
struct running_process {
  int id = 0;
  uint32_t user = 0;
  std::string command;            // its arguments, with blanks between
  std::string product;            // "pool daemon", "OpenSHMEM", "Global Arrays",
                                  // "MPI over o2g", or "libtanada": a client of the pool, or
                                  // gfile
  bool has_gfile = false;         // `tanada gfile stat` shows it
  std::string job;                // the launcher's name of its job; empty: none
  std::vector<uint16_t> ports;    // TCP ports that it listens on, in order
  uint32_t connection_count = 0;  // established TCP connections
  uint64_t resident_size = 0;     // bytes
};

// A file in /dev/shm whose process has ended.
struct leftover {
  std::string path;
  uint64_t size = 0;
};

struct running_state {
  std::vector<running_process> processes;  // by id
  std::vector<leftover> leftovers;         // by path
  uint32_t hidden_count = 0;               // processes of others, whose libraries are not shown
  bool has_o2g_driver = false;
};

// `root` precedes /proc, /dev/shm and /dev/o2g, so that a test can use a folder of its own.
running_state find_running(const std::string &root);

std::string running_text(const running_state &state);
nlohmann::json running_json(const running_state &state);

}  // namespace tanada::command
