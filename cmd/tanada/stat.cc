// cmd/tanada/stat.cc: tanada gfile stat: samples the pages of processes that use gfile.
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

status read_one_page(const std::string &folder, const std::string &name, gfile::stat_page &page) {
  std::vector<std::byte> bytes;
  TND_TRY(seams::read_page(folder, name, gfile::stat_page_size_max, bytes));
  return gfile::parse_stat_page(bytes, page);
}

const char *error_text(status code) {
  if (code == status::protocol)
    return "it was written by another version of Tanada";
  if (code == status::again)
    return "it is being written all the time";
  return code == status::corrupt ? "it is corrupt" : "it cannot be read";
}

// Returns false if a requested page could not be read; the reason is printed on stderr.
bool sample(const stat_options &options, pages &samples) {
  std::string const folder = seams::page_folder_path();
  auto listed = seams::list_pages(folder, gfile::stat_page_kind);
  if (!listed.ok()) {
    std::fprintf(stderr, "tanada: %s\n", last_message().c_str());
    return false;
  }
  bool all_well = true;
  for (seams::page_entry const &page : listed.value()) {
    if (options.process != 0 && page.process != options.process)
      continue;
    status const code = read_one_page(folder, page.name, samples[page.name]);
    if (code == status::ok)
      continue;
    samples.erase(page.name);
    if (code == status::no_entry)
      continue;  // the process has just ended
    std::fprintf(
        stderr, "tanada: the page of process %d: %s\n", int(page.process), error_text(code));
    all_well = false;
  }
  return all_well;
}

void print(const stat_options &options, const pages &current, const pages &previous) {
  nlohmann::json list = nlohmann::json::array();
  for (auto const &[name, page] : current) {
    auto const old = previous.find(name);
    const gfile::stat_page *const since = old == previous.end() ? nullptr : &old->second;
    if (options.json)
      list.push_back(stat_json(page, since));
    else
      std::fputs(stat_text(page, since).c_str(), stdout);
  }
  nlohmann::json const report = {{"processes", list}};
  if (options.json)
    std::printf("%s\n",
                report.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  else if (current.empty())
    std::puts("no process of this user publishes counters");
  std::fflush(stdout);
}

}  // namespace

int gfile_stat(const stat_options &options) {
  pages previous;
  bool all_well = true;
  for (uint32_t sample_count = 0;; sample_count++) {
    pages current;
    all_well &= sample(options, current);
    if (current.empty() && sample_count > 0)
      break;
    if (current.empty() && options.process != 0) {
      std::fprintf(
          stderr,
          "tanada: process %d publishes no page: it belongs to another user, has ended, uses "
          "no gfile, or has "
          "TND_GFILE_PUBLISH=off\n",
          options.process);
      return 1;
    }
    print(options, current, previous);
    previous = std::move(current);
    if (options.watch_s == 0 || previous.empty() || sample_count + 1 == options.count)
      break;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch_s));
  }
  return all_well ? 0 : 1;
}

}  // namespace tanada::command
