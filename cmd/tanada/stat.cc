#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "commands.hpp"
#include "core/base/log.hpp"
#include "seams/os/page_folder.hpp"
#include "stat_report.hpp"

namespace tanada::command {
namespace {

using pages = std::map<std::string, gfile::stat_page>;  // by name

status read_one(const std::string &folder, const std::string &name, gfile::stat_page &to) {
  std::vector<std::byte> bytes;
  TND_TRY(port::read_page(folder, name, gfile::stat_page_size_max, bytes));
  return gfile::parse_stat_page(bytes, to);
}

const char *trouble(status code) {
  if (code == status::protocol)
    return "it is of another version of Tanada";
  if (code == status::again)
    return "it is never whole";
  return code == status::corrupt ? "it is damaged" : "it cannot be read";
}

// False: something that was asked for could not be had; stderr says what.
bool sample(const stat_options &wanted, pages &found) {
  std::string const folder = port::page_folder_path();
  auto listed = port::list_pages(folder, gfile::stat_page_kind);
  if (!listed.ok()) {
    std::fprintf(stderr, "tanada: %s\n", last_message().c_str());
    return false;
  }
  bool all_well = true;
  for (port::found_page const &each : listed.value()) {
    if (wanted.process != 0 && each.process != wanted.process)
      continue;
    status const code = read_one(folder, each.name, found[each.name]);
    if (code == status::ok)
      continue;
    found.erase(each.name);
    if (code == status::no_entry)
      continue;  // it has just ended
    std::fprintf(stderr, "tanada: the page of process %d: %s\n", int(each.process), trouble(code));
    all_well = false;
  }
  return all_well;
}

void print(const stat_options &wanted, const pages &now, const pages &before) {
  nlohmann::json all = nlohmann::json::array();
  for (auto const &[name, page] : now) {
    auto const old = before.find(name);
    const gfile::stat_page *const since = old == before.end() ? nullptr : &old->second;
    if (wanted.json)
      all.push_back(stat_json(page, since));
    else
      std::fputs(stat_text(page, since).c_str(), stdout);
  }
  nlohmann::json const report = {{"processes", all}};
  if (wanted.json)
    std::printf("%s\n",
                report.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  else if (now.empty())
    std::puts("no process of this user publishes counters");
  std::fflush(stdout);
}

}  // namespace

int gfile_stat(const stat_options &wanted) {
  pages before;
  bool all_well = true;
  for (uint32_t taken = 0;; taken++) {
    pages now;
    all_well &= sample(wanted, now);
    if (now.empty() && taken > 0)
      break;
    if (now.empty() && wanted.process != 0) {
      std::fprintf(stderr,
                   "tanada: process %d publishes nothing: it is not this user's, has ended, uses "
                   "no gfile, or has "
                   "TND_GFILE_PUBLISH=off\n",
                   wanted.process);
      return 1;
    }
    print(wanted, now, before);
    before = std::move(now);
    if (wanted.watch_s == 0 || before.empty() || taken + 1 == wanted.count)
      break;
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted.watch_s));
  }
  return all_well ? 0 : 1;
}

}  // namespace tanada::command
