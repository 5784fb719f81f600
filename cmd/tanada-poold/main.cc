// cmd/tanada-poold/main.cc: the daemon of the pool.
#include <signal.h>
#include <sys/resource.h>
#include <tanada/version.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/log_format.hpp"
#include "core/base/message.hpp"
#include "products/poold/daemon.hpp"
#include "seams/os/service_manager.hpp"

namespace {

using namespace tanada;
using poold::daemon_options;

// The size in the largest unit that divides it.
std::string size_text(uint64_t size) {
  const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (size != 0 && size % 1024 == 0 && unit + 1 < std::size(units)) {
    size /= 1024;
    unit++;
  }
  return std::to_string(size) + (unit == 0 ? " bytes" : units[unit]);
}

const char *access_text(const daemon_options &options) {
  if (!options.key_file.empty())
    return "";
  return options.is_open ? ", no key: for all users of this node"
                         : ", no key: for this user and root on this node";
}

// Adds an option with a unit, which CLI11 passes as text. A target of 0 has a default that the help
// text describes.
void add_size(CLI::App &app, const char *name, uint64_t &target, const char *help) {
  auto *const option = app.add_option_function<std::string>(
      name,
      [&target](const std::string &text) {
        auto parsed = parse_size(text);
        if (!parsed.ok())
          throw CLI::ValidationError(text, "give a size, such as 64GiB");
        target = parsed.value();
      },
      help);
  if (target != 0)
    option->default_str(size_text(target));
}

void add_quota(daemon_options &options, const std::string &text) {
  size_t const separator = text.find('=');
  auto parsed =
      parse_size(separator == std::string::npos ? std::string{} : text.substr(separator + 1));
  if (!parsed.ok() || separator == 0)
    throw CLI::ValidationError(text, "give NAMESPACE=SIZE, such as runs=64GiB");
  options.quotas[text.substr(0, separator)] = parsed.value();
}

const char *start_remedy(status code) {
  switch (code) {
    case status::busy:
      return "end the process that uses it, or choose another with --port, --web-port or --backing";
    case status::no_memory:
      return "give a smaller --size, or free memory";
    case status::no_space:
      return "give a smaller --size or --log-size, or a --backing with more free space";
    case status::no_entry:
      return "correct the path that --key-file, --web-token-file or --backing names";
    case status::access:
      return "give files of keys and tokens that only their owner may read (tanada pool key new "
             "makes keys), or rights to what the message names";
    case status::no_plugin:
      return "correct --fabric, or start without it";
    default:
      return "correct the setting; tanada-poold --help and man tanada-pool list them all";
  }
}

int fail_start(message_deferral &deferral, status code) {
  std::string const line =
      "tanada-poold failed to start: " + deferral.take(code) + ": " + start_remedy(code);
  if (is_level_logged(log_level::error))
    log(log_level::error, "{}", line);
  else
    std::fprintf(stderr, "%s\n", line.c_str());
  return 1;
}

// The main thread waits for these signals: SIGTERM and SIGINT end the daemon, and SIGHUP makes it
// reload its settings.
sigset_t block_signals() {
  sigset_t handled_signals;
  sigemptyset(&handled_signals);
  for (int const number : {SIGTERM, SIGINT, SIGHUP}) {
    // An ignored signal is not delivered to sigwait, and scripts and nohup start programs with
    // ignored signals.
    signal(number, SIG_DFL);
    sigaddset(&handled_signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &handled_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return handled_signals;
}

// Allow as many connections as the system permits.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void add_cluster_options(CLI::App &app, daemon_options &options) {
  app.add_option("--cluster",
                 options.cluster,
                 "etcd://HOST:PORT[,HOST:PORT...]/NAME, or etcds:// with TLS: be a server of this "
                 "cluster");
  app.add_flag("--new-cluster",
               options.is_new_cluster,
               "make a new cluster of this server's objects, if etcd has none and they belonged to "
               "another");
  app.add_option("--advertise",
                 options.advertise,
                 "HOST:PORT where clients and other servers reach this one; as --listen and --port "
                 "unless given");
  app.add_option("--domain", options.domain, "failure domain, such as the rack");
  app.add_option("--copies", options.copies, "copies of each object of a new cluster")
      ->capture_default_str();
  add_size(app,
           "--stripe",
           options.stripe_size,
           "larger objects are cut in stripes of at most this size on different servers; "
           "0: none");
  app.add_option_function<std::string>(
         "--lease",
         [&options](const std::string &text) {
           auto parsed = parse_duration_ns(text);
           if (!parsed.ok())
             throw CLI::ValidationError(text, "give a duration, such as 5s");
           options.lease_ns = parsed.value();
         },
         "another server takes over when this one does not renew its lease for this long")
      ->default_str("5s");
  add_size(app,
           "--repair-bandwidth",
           options.repair_bandwidth,
           "bytes a second that are copied to servers which lack objects; 64MiB while clients "
           "change something and no limit otherwise, unless given");
  app.add_option("--protocol",
                 options.protocol,
                 "the newest version of the protocol that is used: until a cluster's servers all "
                 "have a later one")
      ->check(CLI::Range(wire::pool::protocol_version_min, wire::pool::protocol_version))
      ->capture_default_str();
  app.add_option("--etcd-ca", options.etcd_ca, "certificates that etcd's is checked with");
  app.add_option(
      "--etcd-certificate", options.etcd_certificate, "certificate of this server for etcd");
  app.add_option("--etcd-key", options.etcd_key, "key of that certificate");
  app.add_option("--etcd-user", options.etcd_user, "user of etcd");
  app.add_option("--etcd-password-file",
                 options.etcd_password_file,
                 "file with the password of that user, mode 0600");
}

void add_options(CLI::App &app, daemon_options &options, std::string &file) {
  app.add_option("--config", file, "settings as TOML");
  app.add_option("--listen", options.listen, "address to listen on")->capture_default_str();
  app.add_option("--port", options.port, "TCP port; 0 chooses a free one")->capture_default_str();
  add_size(app, "--size", options.size, "bytes of the pool, such as 64GiB");
  add_size(app,
           "--segment-size",
           options.segment_size,
           "the largest part of memory that belongs to one namespace, a power of two");
  app.add_option("--backing", options.backing, "dram, file:PATH or flash:DIR")
      ->capture_default_str();
  app.add_option("--journal",
                 options.journal,
                 "folder of the journal of file:PATH; PATH.journal unless given");
  app.add_option("--fabric", options.fabric, "libfabric provider for RDMA, such as verbs;ofi_rxm");
  app.add_option(
      "--fabric-node", options.fabric_node, "address of the interface that the fabric uses");
  add_size(app,
           "--log-size",
           options.log_size,
           "bytes of the log of flash:DIR; four times the size unless given");
  app.add_option(
      "--key-file",
      options.key_file,
      "keys of clients, mode 0600; without it, only this user is admitted, over loopback");
  app.add_flag(
      "--open", options.is_open, "without keys: admit all users of this node, with all rights");
  app.add_option_function<std::string>(
         "--lost-after",
         [&options](const std::string &text) {
           auto parsed = parse_duration_ns(text);
           if (!parsed.ok())
             throw CLI::ValidationError(text, "give a duration, such as 60s");
           options.lost_after_ns = parsed.value();
         },
         "treat a client as failed when its host does not answer for this long")
      ->default_str("60s");
  app.add_option_function<std::vector<std::string>>(
      "--quota",
      [&options](const std::vector<std::string> &quotas) {
        for (const std::string &quota : quotas)
          add_quota(options, quota);
      },
      "NAMESPACE=SIZE; * for all other namespaces");
  app.add_option("--workers",
                 options.worker_count,
                 "threads that serve; 0: chosen by the number of processors");
  app.add_option("--clients", options.client_count_max, "maximum number of connections")
      ->capture_default_str();
  app.add_flag("--web", options.web, "serve metrics and a page by HTTP, at 127.0.0.1 by default");
  app.add_option_function<std::string>(
      "--web-listen",
      [&options](const std::string &address) {
        options.web = true;
        options.web_listen = address;
      },
      "address of --web; another one than loopback needs a --web-token-file");
  app.add_option("--web-token-file",
                 options.web_token_file,
                 "file with the token that requests of --web need, mode 0600");
  app.add_option("--log", options.log, "text or json: how lines of the log are written")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option_function<uint16_t>(
      "--web-port",
      [&options](uint16_t port) {
        options.web = true;
        options.web_port = port;
      },
      "port of --web; 0 chooses a free one");
  app.add_flag_callback(
      "--no-prefault",
      [&options] { options.prefault = false; },
      "do not populate all memory at the start");
  add_cluster_options(app, options);
  app.add_option(
      "--port-file", options.port_file, "write the port to this file when the daemon is ready");
}

struct command_line {
  int count;
  char **arguments;
};

// Reads the settings of the file first, then the environment, then flags. Throws CLI::ParseError
// for the command line.
status read_settings(CLI::App &app, const command_line &line, daemon_options &options) {
  std::string file;
  CLI::App config_only;
  config_only.allow_extras();
  config_only.set_help_flag();
  config_only.add_option("--config", file);
  config_only.parse(line.count, line.arguments);
  if (!file.empty())
    TND_TRY(poold::read_toml(file, options));
  TND_TRY(poold::read_environment(options));
  add_options(app, options, file);
  app.parse(line.count, line.arguments);
  // Credentials of the unit, unless settings name files.
  if (options.key_file.empty())
    options.key_file = seams::credential_path("keys");
  if (options.web_token_file.empty())
    options.web_token_file = seams::credential_path("web-token");
  if (options.log != "text" && options.log != "json")
    return fail(status::invalid, "log is {}: give text or json", options.log);
  return status::ok;
}

// Prints what the daemon does: to the log if that is JSON.
void announce(const daemon_options &options, const std::string &text) {
  if (options.log == "json") {
    log_notice(text);
    return;
  }
  std::printf("tanada-poold: %s\n", text.c_str());
  std::fflush(stdout);
}

std::string description_of(const daemon_options &options, const poold::daemon &server) {
  bool const is_persistent = std::string_view{server.durability()} == "cache-flush";
  return options.listen + ", port " + std::to_string(server.port()) + ", " +
         size_text(server.report().capacity) + ", backing " + options.backing +
         (is_persistent ? " in persistent memory" : "") + access_text(options);
}

// SIGHUP: applies the current keys and quotas. On failure, nothing changes and an error is logged.
void reload(poold::daemon &server, const command_line &line) {
  (void)seams::notify_reloading();
  daemon_options options;
  CLI::App app;
  status code = status::ok;
  try {
    code = read_settings(app, line, options);
  } catch (const CLI::ParseError &error) {
    code = fail(status::invalid, "{}", error.what());
  }
  if (code == status::ok)
    code = server.reload(options);
  if (code == status::ok) {
    announce(options, "settings were reloaded");
  } else {
    log(log_level::error, "settings were not reloaded and stay unchanged: {}", last_message());
  }
  (void)seams::notify_service_manager("READY=1");
}

int serve(const daemon_options &options, const command_line &line) {
  raise_descriptor_limit();
  sigset_t const handled_signals = block_signals();
  // A script that waits for the file must not read an earlier daemon's.
  if (!options.port_file.empty())
    std::remove(options.port_file.c_str());
  auto started = [&options]() -> result<std::unique_ptr<poold::daemon>> {
    message_deferral deferral;
    auto created = poold::daemon::start(options);
    if (!created.ok())
      (void)fail_start(deferral, created.error());
    return created;
  }();
  if (!started.ok())
    return 1;
  poold::daemon &server = *started.value();
  if (!options.port_file.empty()) {
    std::string const partial = options.port_file + ".part";
    std::ofstream file{partial};
    file << server.port();
    if (options.web)
      file << ' ' << server.web_port();
    file << '\n';
    file.close();
    std::rename(partial.c_str(), options.port_file.c_str());
  }
  std::string const description = description_of(options, server);
  announce(options, description);
  if (options.web)
    announce(options,
             "metrics and page at http://" + options.web_listen + ":" +
                 std::to_string(server.web_port()));
  (void)seams::notify_service_manager("READY=1\nSTATUS=" + description);
  int number = 0;
  while (sigwait(&handled_signals, &number) == 0 && number == SIGHUP)
    reload(server, line);
  announce(options, "ending");
  (void)seams::notify_service_manager("STOPPING=1\nSTATUS=writing what clients have committed");
  server.stop();
  return 0;
}

}  // namespace

int main(int count, char **arguments) {
  daemon_options options;
  CLI::App app{
      "The daemon of the memory pool. Flags override TND_POOLD_* of the environment, which "
      "override "
      "the file."};
  app.set_version_flag("--version", std::string("tanada-poold " TND_VERSION_STRING));
  command_line const line{count, arguments};
  try {
    message_deferral deferral;
    if (status const code = read_settings(app, line, options); code != status::ok)
      return fail_start(deferral, code);
    set_log_format(options.log == "json" ? log_format::json : log_format::text);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return serve(options, line);
}
