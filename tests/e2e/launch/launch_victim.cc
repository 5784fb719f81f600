// A process of a job for test_launch.py. Every line that it prints begins with its rank; "here PID"
// comes first. Barriers wait for 20 s.
// usage: launch_victim ACTION [RANK], launch_victim_mpi ACTION [RANK]
//   leave             joins, takes part in an exchange, leaves
//   hang RANK         that rank sleeps until a test kills it, the others wait in a barrier
//   descriptors RANK  the same, and the others wait in an exchange of descriptors
//   watch RANK        that rank ends by SIGKILL, the others poll up to 10 s for the failed rank
//   early RANK        that rank leaves at once, the others look after 1 s for a failed rank
//   die RANK          that rank ends by SIGKILL
//   exit RANK         that rank exits with 0 without leaving
//   abort RANK        that rank aborts the job with code 7
#include <tanada/status.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/log.hpp"
#include "e2e/launch/launch_join.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"

namespace {

using tanada::status;

constexpr uint64_t patience_ns = 20'000'000'000;

void say(tanada::seams::bootstrap &launcher, const std::string &text) {
  std::printf("%" PRId32 ": %s\n", launcher.rank(), text.c_str());
  std::fflush(stdout);
}

// The action of the chosen rank, while the others wait for it.
int act(tanada::seams::bootstrap &launcher, const std::string &what) {
  if (what == "die" || what == "watch")
    raise(SIGKILL);
  if (what == "exit")
    _exit(0);
  if (what == "abort") {
    launcher.abort(7, "as told");
    _exit(7);
  }
  for (;;)
    pause();
}

int run(const std::string &what, int32_t chosen) {
  auto opened = launch_join();
  if (!opened.ok()) {
    std::printf("not joined: %s\n", tanada::last_message().c_str());
    return 2;
  }
  auto &launcher = *opened.value();
  say(launcher, "here " + std::to_string(getpid()));
  if (launcher.exchange(patience_ns) != status::ok)
    return 3;
  say(launcher, "met");
  if (what == "leave")
    return 0;
  if (what == "early") {
    if (launcher.rank() != chosen)
      usleep(1'000'000);
    say(launcher, "lost " + std::to_string(launcher.find_failed_rank()));
    return 0;
  }
  if (launcher.rank() == chosen)
    return act(launcher, what);
  for (int i = 0; what == "watch" && i < 1'000 && launcher.find_failed_rank() < 0; i++)
    usleep(10'000);
  status const code = what == "descriptors"
                          ? tanada::seams::descriptor_exchange(
                                launcher, launcher.node_ranks(), "victims", {}, patience_ns)
                                .error()
                          : launcher.barrier(patience_ns);
  say(launcher,
      std::string{"ended with "} + tnd_status_name(int(code)) + ", lost " +
          std::to_string(launcher.find_failed_rank()));
  return code == status::ok ? 0 : 4;
}

}  // namespace

int main(int argc, char **argv) {
  return argc < 2 ? 64 : run(argv[1], argc > 2 ? std::atoi(argv[2]) : -1);
}
