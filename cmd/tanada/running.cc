// cmd/tanada/running.cc: finds processes of Tanada, and what ended ones left in /dev/shm.
#include "running.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

namespace tanada::command {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view daemon_name = "tanada-poold";
constexpr std::string_view fabric_prefix = "tanada_", page_prefix = "tanada-";
constexpr int start_time_field = 22;  // of /proc/PID/stat

// The first library of the list that a process has decides: comex has parts of libtanada, too.
struct library_product {
  std::string_view library, product;
};
constexpr library_product library_products[] = {
    {"/libshmem.so", "OpenSHMEM"},
    {"/libcomex.so", "Global Arrays"},
    {"/libarmci.so", "Global Arrays"},
    {"/libo2g-fi.so", "MPI over o2g"},
    {"/libtanada.so", "libtanada"},
};

std::string content_of(const fs::path &path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

template <class Number>
std::optional<Number> number_of(std::string_view text, int base = 10) {
  Number value = 0;
  auto const parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size())
    return {};
  return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t";
  for (size_t begin = text.find_first_not_of(blanks); begin != text.npos;) {
    size_t const end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return words;
}

// Calls `function` with each line, or with each part that a zero ends.
template <class Function>
void for_each_part(std::string_view text, char end, Function function) {
  while (!text.empty()) {
    size_t const size = std::min(text.find(end), text.size());
    function(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
}

// A field of /proc/PID/status; 0 if it is missing.
uint64_t status_field(const std::string &text, std::string_view name) {
  uint64_t value = 0;
  for_each_part(text, '\n', [&](std::string_view line) {
    if (!line.starts_with(name))
      return;
    auto const words = words_of(line.substr(name.size()));
    if (!words.empty())
      value = number_of<uint64_t>(words[0]).value_or(0);
  });
  return value;
}

std::string product_of(const std::string &maps) {
  for (library_product const &known : library_products)
    if (maps.find(known.library) != maps.npos)
      return std::string{known.product};
  return {};
}

// Whether the process publishes the counters of gfile, in one of the two folders of its user.
bool uses_gfile(const std::string &root, const running_process &process) {
  std::string const user = std::to_string(process.user);
  std::string const prefix = std::to_string(process.id) + "-";
  for (std::string const &folder : {root + "/run/user/" + user + "/tanada",
                                    root + "/dev/shm/" + std::string{page_prefix} + user}) {
    std::error_code failed;
    fs::directory_iterator entry{folder, failed};
    for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
      std::string const name = entry->path().filename();
      if (name.starts_with(prefix) && name.ends_with(".gfile"))
        return true;
    }
  }
  return false;
}

// The launcher's name of the job: PMIx', or that of an allocation.
std::string job_of(const std::string &environment) {
  std::string name;
  for_each_part(environment, '\0', [&](std::string_view variable) {
    constexpr std::string_view key = "PMIX_NAMESPACE=";
    if (variable.starts_with(key))
      name = variable.substr(key.size());
  });
  return name;
}

std::set<uint64_t> socket_inodes(const fs::path &process) {
  std::set<uint64_t> inodes;
  std::error_code failed;
  fs::directory_iterator entry{process / "fd", failed};
  for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    std::error_code error;
    std::string const target = fs::read_symlink(entry->path(), error).string();
    constexpr std::string_view prefix = "socket:[";
    if (!error && target.starts_with(prefix) && target.ends_with("]"))
      inodes.insert(number_of<uint64_t>(std::string_view{target}.substr(
                                            prefix.size(), target.size() - prefix.size() - 1))
                        .value_or(0));
  }
  return inodes;
}

// Reads a table of TCP sockets in the format of /proc/PID/net/tcp.
void add_sockets(const fs::path &table, const std::set<uint64_t> &inodes, running_process &found) {
  constexpr size_t local_column = 1, state_column = 3, inode_column = 9;
  for_each_part(content_of(table), '\n', [&](std::string_view line) {
    auto const words = words_of(line);
    if (words.size() <= inode_column)
      return;
    if (!inodes.contains(number_of<uint64_t>(words[inode_column]).value_or(0)))
      return;
    std::string_view const local = words[local_column];
    auto const port = number_of<uint16_t>(local.substr(local.rfind(':') + 1), 16);
    if (words[state_column] == "0A" && port)
      found.ports.push_back(*port);
    else if (words[state_column] == "01")
      found.connection_count++;
  });
}

void add_network(const fs::path &process, running_process &found) {
  auto const inodes = socket_inodes(process);
  if (inodes.empty())
    return;
  add_sockets(process / "net/tcp", inodes, found);
  add_sockets(process / "net/tcp6", inodes, found);
  std::sort(found.ports.begin(), found.ports.end());
  found.ports.erase(std::unique(found.ports.begin(), found.ports.end()), found.ports.end());
}

// The arguments as one line.
std::string command_of(const std::string &arguments) {
  std::string text;
  for_each_part(arguments, '\0', [&](std::string_view argument) {
    text += (text.empty() ? "" : " ") + std::string{argument};
  });
  return text;
}

void add_process(const std::string &root, int id, running_state &state) {
  fs::path const process = root + "/proc/" + std::to_string(id);
  running_process found;
  found.id = id;
  std::string const arguments = content_of(process / "cmdline");
  if (arguments.empty())
    return;  // a thread of the kernel
  std::string const comm = content_of(process / "comm");
  std::ifstream maps{process / "maps", std::ios::binary};
  std::string const mapped{std::istreambuf_iterator<char>{maps}, {}};
  if (comm.starts_with(daemon_name)) {
    found.product = "pool daemon";
  } else if (mapped.empty()) {
    state.hidden_count++;
    return;
  } else {
    found.product = product_of(mapped);
  }
  if (found.product.empty())
    return;
  std::string const status = content_of(process / "status");
  found.user = uint32_t(status_field(status, "Uid:"));
  found.resident_size = status_field(status, "VmRSS:") * 1024;
  found.command = command_of(arguments);
  found.job = job_of(content_of(process / "environ"));
  add_network(process, found);
  found.has_gfile = uses_gfile(root, found);
  state.processes.push_back(std::move(found));
}

// The start of a process in ticks, which its names in /dev/shm have, too. Empty: it has ended.
std::optional<uint64_t> start_time(const fs::path &process) {
  std::string const text = content_of(process / "stat");
  size_t const end_of_name = text.rfind(')');
  if (end_of_name == text.npos)
    return {};
  auto const words = words_of(std::string_view{text}.substr(end_of_name + 1));
  constexpr size_t position = start_time_field - 3;
  if (words.size() <= position || words[0] == "Z" || words[0] == "X")
    return {};
  return number_of<uint64_t>(words[position]);
}

// "tanada_PID_START_NUMBER", as libfabric's memory of a process is named.
bool is_of_ended_process(const fs::path &processes, std::string_view name) {
  name.remove_prefix(fabric_prefix.size());
  size_t const middle = name.find('_');
  if (middle == name.npos)
    return false;
  size_t const end = name.find('_', middle + 1);
  auto const id = number_of<int>(name.substr(0, middle));
  auto const start = number_of<uint64_t>(
      end == name.npos ? std::string_view{} : name.substr(middle + 1, end - middle - 1));
  if (!id || !start)
    return false;
  auto const now = start_time(processes / std::to_string(*id));
  return !now || *now != *start;
}

void add_leftover(const fs::path &path, const std::string &root, running_state &state) {
  std::error_code error;
  uint64_t const size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  state.leftovers.push_back({path.string().substr(root.size()), error ? 0 : size});
}

// Pages of ended processes in a folder "tanada-UID". The next process of the user removes them.
void add_pages(const fs::path &folder, const std::string &root, running_state &state) {
  std::error_code failed;
  fs::directory_iterator entry{folder, failed};
  if (failed)
    return;
  bool is_empty = true;
  for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    is_empty = false;
    std::string const name = entry->path().filename();
    auto const id = number_of<int>(std::string_view{name}.substr(0, name.find('-')));
    if (id && !start_time(fs::path{root + "/proc"} / std::to_string(*id)))
      add_leftover(entry->path(), root, state);
  }
  if (is_empty)
    add_leftover(folder, root, state);
}

void add_leftovers(const std::string &root, running_state &state) {
  std::error_code failed;
  fs::directory_iterator entry{root + "/dev/shm", failed};
  for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    std::string const name = entry->path().filename();
    std::error_code error;
    if (name.starts_with(fabric_prefix) && is_of_ended_process(root + "/proc", name))
      add_leftover(entry->path(), root, state);
    else if (name.starts_with(page_prefix) && fs::is_directory(entry->path(), error))
      add_pages(entry->path(), root, state);
  }
}

}  // namespace

running_state find_running(const std::string &root) {
  running_state state;
  std::error_code failed;
  fs::directory_iterator entry{root + "/proc", failed};
  for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    auto const id = number_of<int>(std::string{entry->path().filename()});
    if (id)
      add_process(root, *id, state);
  }
  add_leftovers(root, state);
  state.has_o2g_driver = fs::exists(root + "/dev/o2g", failed);
  std::sort(state.processes.begin(), state.processes.end(), [](auto const &a, auto const &b) {
    return a.id < b.id;
  });
  std::sort(state.leftovers.begin(), state.leftovers.end(), [](auto const &a, auto const &b) {
    return a.path < b.path;
  });
  return state;
}

}  // namespace tanada::command
