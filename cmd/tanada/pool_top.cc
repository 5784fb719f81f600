// cmd/tanada/pool_top.cc: tanada pool top, a live view of a pool.
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>

#include "interruption.hpp"
#include "pool_commands.hpp"
#include "pool_location.hpp"
#include "pool_members.hpp"
#include "pool_top_view.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

constexpr size_t history_count_max = 120;

unsigned output_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Waits until the period is over. Returns true if q was pressed.
bool is_quit_within(double seconds, bool has_keyboard) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    auto const remaining =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (remaining.count() <= 0)
      return false;
    if (!has_keyboard) {
      std::this_thread::sleep_for(remaining);
      continue;
    }
    pollfd keyboard{STDIN_FILENO, POLLIN, 0};
    if (::poll(&keyboard, 1, int(remaining.count())) <= 0)
      continue;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0)
      has_keyboard = false;
    else if (key == 'q' || key == 'Q')
      return true;
  }
}

class top {
 public:
  top(const pool_top_options &options,
      tnd_pool *pool,
      const tnd_pool_config &config,
      const pool::address &address,
      bool is_live)
      : options_{options}, config_{config}, pool_{pool}, space_{address.space}, is_live_{is_live} {
    view_.url = space_url(address);
  }

  // Returns TND_OK, or the error of the request.
  tnd_status sample() {
    view_.current.struct_size = sizeof view_.current;
    if (tnd_status const code = tnd_pool_get_statistics(pool_, &view_.current); code != TND_OK)
      return code;
    if (tnd_status const code = namespace_owned(pool_, space_, view_.owned); code != TND_OK)
      return code;
    if (tnd_status const code = sample_servers(); code != TND_OK)
      return code;
    if (view_.servers.empty())
      view_.rates = rates_between(previous_ ? &*previous_ : nullptr, view_.current);
    else
      view_.rates = sum_of(view_.servers);
    if (previous_)
      view_.history.push_back(view_.rates);
    if (view_.history.size() > history_count_max)
      view_.history.erase(view_.history.begin());
    previous_ = view_.current;
    return TND_OK;
  }

  void show(const std::string &error) const {
    std::string text = options_.json ? dump(top_json(view_), -1) + "\n"
                                     : top_text(view_, is_live_ ? output_width() : 100);
    if (is_live_) {
      std::string lines;
      for (char const letter : text + (error.empty() ? "q: end\n" : error + "\n"))
        lines += letter == '\n' ? std::string("\x1b[K\n") : std::string(1, letter);
      text = "\x1b[H" + lines + "\x1b[J";
    } else if (!options_.json) {
      text += "\n";
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  // The servers of a cluster. One that does not answer is left out of this sample.
  tnd_status sample_servers() {
    std::vector<member_counts> members;
    std::vector<std::string> problems;
    tnd_status const code = count_members(pool_, config_, members, problems);
    view_.servers.clear();
    for (auto const &[name, counts] : members) {
      auto const [it, is_new] = server_samples_.try_emplace(name, counts);
      auto const *const before = is_new ? nullptr : &it->second;
      view_.servers.push_back({name, counts, rates_between(before, counts)});
      it->second = counts;
    }
    sum_counts(members, view_.current);
    return code == TND_OK && !members.empty() ? sample_cluster() : code;
  }

  tnd_status sample_cluster() {
    top_cluster state{TND_POOL_CLUSTER_INIT};
    auto const count_server = [](void *context, const tnd_pool_server *server) {
      auto &counted = *static_cast<top_cluster *>(context);
      if (server->state == TND_POOL_SERVER_UP)
        counted.up_count++;
      else if (server->state == TND_POOL_SERVER_DRAINING)
        counted.draining_count++;
      else
        counted.away_count++;
      return 0;
    };
    tnd_status const code = tnd_pool_get_cluster(pool_, &state.sums, count_server, &state);
    if (code == TND_OK)
      view_.cluster = state;
    return code;
  }

  pool_top_options const &options_;
  tnd_pool_config const config_;
  tnd_pool *const pool_;
  std::string const space_;
  bool const is_live_;
  top_view view_{};
  std::optional<tnd_pool_statistics> previous_;
  std::map<std::string, tnd_pool_statistics> server_samples_;  // the last ones, by name
};

}  // namespace

int pool_top(const pool_top_options &options) {
  command_report report{false};
  auto const target = location_parse(options.url, report);
  if (!target || !target->is_pool) {
    if (target)
      report.fail(options.url, -EINVAL, "give pool://host[:port]/namespace");
    return 2;
  }
  pool_session session{options, report};
  tnd_pool *const pool = session.connect(target->address);
  if (pool == nullptr)
    return report.finish();
  bool const is_live = !options.json && ::isatty(STDOUT_FILENO) != 0;
  bool const has_keyboard = is_live && ::isatty(STDIN_FILENO) != 0;
  interruption_install();
  std::optional<interruption_screen> screen;
  if (is_live)
    screen.emplace(has_keyboard);
  top shown{options, pool, session.config(), target->address, is_live};
  for (uint32_t sample_count = 1;; sample_count++) {
    tnd_status const code = shown.sample();
    if (code != TND_OK && !is_live) {
      report.fail(options.url, code);
      return report.finish();
    }
    // In live mode the daemon may return, so continue.
    shown.show(code == TND_OK ? "" : std::string("no reply: ") + printable(tnd_last_message()));
    if (sample_count == options.count || is_quit_within(options.period_s, has_keyboard))
      return report.finish();
  }
}

}  // namespace tanada::command
