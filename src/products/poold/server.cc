#include "products/poold/server.hpp"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/pool/address.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/poller.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t sweep_ns = 1'000'000'000;  // between looks for sessions that are overdue
constexpr uint64_t wake_word = 0, tcp_word = 1, unix_word = 2, session_word = 16;
constexpr size_t event_count_max = 64;
constexpr size_t accept_count_max = 16;  // of one look at a listening socket

uint64_t now() {
  return port::monotonic_clock().now_ns();
}

}  // namespace

// One thread, its sessions and its epoll.
class server::worker {
 public:
  worker(server &of, bool accepts) : of_{of}, accepts_{accepts} {}
  ~worker() {
    if (thread_.joinable())
      thread_.join();
    sessions_.clear();
  }

  status begin() {
    TND_TRY(poller_.ready());
    TND_TRY(poller_.add(mailbox_->waker().descriptor(), wake_word, {.to_receive = true}));
    if (accepts_) {
      TND_TRY(poller_.add(of_.tcp_.descriptor(), tcp_word, {.to_receive = true}));
      TND_TRY(poller_.add(of_.unix_.descriptor(), unix_word, {.to_receive = true}));
    }
    thread_ = std::thread{[this] {
      run();
    }};
    return status::ok;
  }

  void wake() {
    mailbox_->waker().wake();
  }

  struct arrival {
    uint64_t id;
    std::unique_ptr<port::stream> connection;
    bool demands_key;  // its user was not looked at
  };

  void take_over(arrival made) {
    {
      std::lock_guard lock{mutex_};
      arrived_.push_back(std::move(made));
    }
    wake();
  }

  void evict(uint64_t id) {
    {
      std::lock_guard lock{mutex_};
      evicted_.push_back(id);
    }
    wake();
  }

  std::vector<session::view> clients() const {
    std::lock_guard lock{mutex_};
    return clients_;
  }

 private:
  struct served {
    std::unique_ptr<session> one;
    port::interest in;
    bool busy = false;
  };

  void run() {
    uint64_t words[event_count_max];
    uint64_t next_sweep_ns = now() + sweep_ns;
    while (!is_finished()) {
      int const timeout_ms = !busy_.empty() ? 0 : of_.stopping_ ? 10 : int(sweep_ns / 1'000'000);
      size_t const count = poller_.wait(words, timeout_ms);
      uint64_t const now_ns = now();
      // Those that had more to do keep their turn before what came since.
      std::vector<uint64_t> const busy = std::exchange(busy_, {});
      for (uint64_t const id : busy) {
        auto const found = sessions_.find(id);
        if (found == sessions_.end())
          continue;
        found->second.busy = false;
        serve(id, now_ns);
      }
      for (size_t i = 0; i < count; i++)
        handle(words[i], now_ns);
      if (now_ns >= next_sweep_ns) {
        sweep(now_ns);
        next_sweep_ns = now_ns + sweep_ns;
      }
    }
  }

  bool is_finished() {
    if (!of_.stopping_)
      return false;
    bool const idle = std::none_of(sessions_.begin(), sessions_.end(),
                                   [](auto &one) { return !one.second.one->is_settled(); });
    return (idle && busy_.empty()) || now() >= of_.stop_deadline_ns_;
  }

  void handle(uint64_t word, uint64_t now_ns) {
    switch (word) {
      case wake_word: collect(now_ns); break;
      case tcp_word: of_.accept_from(of_.tcp_); break;
      case unix_word: of_.accept_from(of_.unix_); break;
      default: serve(word - session_word, now_ns);
    }
  }

  // What other threads left here.
  void collect(uint64_t now_ns) {
    mailbox_->waker().clear();  // first: what comes from here on wakes again
    std::vector<arrival> arrived;
    std::vector<uint64_t> evicted;
    {
      std::lock_guard lock{mutex_};
      arrived.swap(arrived_);
      evicted.swap(evicted_);
    }
    for (arrival &made : arrived)
      begin_session(std::move(made), now_ns);
    for (uint64_t const id : evicted) {
      auto const found = sessions_.find(id);
      if (found == sessions_.end())
        continue;
      TND_ASSERT(found->second.one->is_early());  // none is welcomed once it was evicted
      found->second.one->log_end(now_ns, "gave its place to another, with its handshake not done");
      end(found);
    }
    for (const late_answer &late : mailbox_->take()) {
      auto const found = sessions_.find(late.session);
      if (found == sessions_.end())
        continue;
      found->second.one->finish(late);
      serve(late.session, now_ns);
    }
  }

  void begin_session(arrival from, uint64_t now_ns) {
    port::interest const in{.to_receive = true};
    if (poller_.add(from.connection->descriptor(), session_word + from.id, in) != status::ok) {
      of_.admission_.leave(from.id);
      return;
    }
    served made{
        std::make_unique<session>(of_.with_, std::move(from.connection), from.id, mailbox_, now_ns),
        in};
    made.one->on_proven([this, id = from.id] { return of_.admission_.complete(id); });
    if (from.demands_key)
      made.one->demand_key();
    sessions_.emplace(from.id, std::move(made));
  }

  void serve(uint64_t id, uint64_t now_ns) {
    auto const found = sessions_.find(id);
    if (found == sessions_.end())
      return;
    served &which = found->second;
    auto const outcome = which.one->progress(now_ns);
    if (outcome == session::outcome::ended) {
      end(found);
      return;
    }
    if (outcome == session::outcome::busy && !which.busy) {
      which.busy = true;
      busy_.push_back(id);
    }
    port::interest const in{which.one->wants_to_receive() && !of_.stopping_,
                            which.one->wants_to_send()};
    if (in == which.in)
      return;
    which.in = in;
    poller_.change(which.one->connection().descriptor(), session_word + id, in);
  }

  using sessions = std::unordered_map<uint64_t, served>;
  sessions::iterator end(sessions::iterator which) {
    of_.admission_.leave(which->first);
    return sessions_.erase(which);
  }

  void sweep(uint64_t now_ns) {
    if (accepts_)
      of_.with_.objects.look_at_memory();  // one thread is enough for that
    std::vector<session::view> seen;
    for (auto at = sessions_.begin(); at != sessions_.end();) {
      if (at->second.one->is_overdue(now_ns)) {
        at->second.one->log_end(now_ns, "has stalled");
        at = end(at);
        continue;
      }
      at->second.one->rest(now_ns);
      seen.push_back(at->second.one->describe());
      ++at;
    }
    std::lock_guard lock{mutex_};
    clients_.swap(seen);
  }

  server &of_;
  bool const accepts_;
  port::poller poller_;
  std::shared_ptr<mailbox> const mailbox_ = std::make_shared<mailbox>();
  sessions sessions_;
  std::vector<uint64_t> busy_;
  mutable std::mutex mutex_;
  std::vector<arrival> arrived_;
  std::vector<uint64_t> evicted_;
  std::vector<session::view> clients_;
  std::thread thread_;
};

result<std::unique_ptr<server>> server::start(const server_options &options, service &with) {
  // Below, probes of a busy network would end clients that are well. Above, the kernel has no such
  // times.
  constexpr uint64_t lost_after_ns_min = 1'000'000'000, lost_after_ns_max = 3'600'000'000'000;
  if (options.lost_after_ns < lost_after_ns_min || options.lost_after_ns > lost_after_ns_max) {
    return fail(status::invalid, "lost_after is %.3g s: give 1s to 1h",
                double(options.lost_after_ns) / 1e9);
  }
  std::unique_ptr<server> made{new server{options, with}};
  auto tcp = port::tcp_listen(options.host, options.port, options.lost_after_ns);
  if (!tcp.ok())
    return tcp.error();
  made->tcp_ = std::move(tcp).value();
  made->port_ = made->tcp_.port();
  auto local = port::unix_listen(pool::unix_name(made->port_));
  if (!local.ok())
    return local.error();
  made->unix_ = std::move(local).value();
  uint32_t const count = options.worker_count != 0
                             ? options.worker_count
                             : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  for (uint32_t i = 0; i < count; i++)
    made->workers_.push_back(std::make_unique<worker>(*made, i == 0));
  for (auto &one : made->workers_)
    TND_TRY(one->begin());
  return made;
}

server::server(const server_options &options, service &with)
    : options_{options}, with_{with}, admission_{options.client_count_max} {}

server::~server() {
  stop(0);
}

void server::stop(uint64_t deadline_ns) {
  if (workers_.empty())
    return;
  stop_deadline_ns_ = deadline_ns;  // first: a worker that sees the one sees the other
  stopping_ = true;
  for (auto &one : workers_)
    one->wake();
  workers_.clear();
}

// A few, so that handshakes under way go on before more come; the poller has those that wait in its
// next words.
void server::accept_from(port::listener &from) {
  for (size_t count = 0; count < accept_count_max; count++) {
    auto connection = from.accept();
    if (!connection.ok()) {
      // Whoever waits for a descriptor waits on; the pause keeps this thread from asking again and
      // again.
      if (connection.error() != status::again)
        port::monotonic_clock().sleep_ns(1'000'000);
      return;
    }
    if (stopping_)
      turn_away(*connection.value(), status::busy, "the daemon is ending");
    else
      welcome(std::move(connection).value());
  }
}

void server::welcome(std::unique_ptr<port::stream> connection) {
  bool const demands_key = !with_.keys.keys()->empty();
  if (!demands_key && !may_come(*connection)) {
    const char *const doubt = connection->peer_user()
                                  ? ""
                                  : ", and the kernel does not report whose connection this is "
                                    "(sock_diag, user namespaces)";
    turn_away(*connection, status::access,
              "without keys this pool serves the user who started it (uid " +
                  std::to_string(geteuid()) + ") and root only" + doubt +
                  ": start it with --key-file, or with --open for all users of its node");
    return;
  }
  // The users of this node have shares of their own.
  bool const is_local = connection->is_local() || port::is_to_this_node(*connection);
  auto const user = is_local ? connection->peer_user() : std::nullopt;
  std::string const user_text = user ? ", user " + std::to_string(*user) : "";
  std::string const host = connection->peer_host() + user_text;
  uint64_t const id = next_session_++;
  auto const verdict = admission_.admit(id, host, is_local);
  if (!verdict.is_admitted) {
    turn_away(*connection, status::busy,
              "the pool has all " + std::to_string(options_.client_count_max) +
                  " connections that its --clients allows");
    return;
  }
  if (verdict.evicted)
    worker_of(*verdict.evicted).evict(*verdict.evicted);
  worker_of(id).take_over({id, std::move(connection), demands_key});
}

// One whose user is not known is a stranger.
bool server::may_come(const port::stream &connection) const {
  if (options_.is_open)
    return true;
  auto const user = connection.peer_user();
  return user && (*user == geteuid() || *user == 0);
}

// The answer to whatever comes first. It fits into any socket's buffer.
void server::turn_away(port::stream &connection, status code, const std::string &reason) {
  with_.counters.refused.fetch_add(1);
  with_.counters.errors.add(code);
  with_.refusals.add(now(), connection.peer() + " is refused: " + reason);
  wire::pool::frame const head{.what = uint16_t(wire::pool::kind::challenge),
                               .code = int32_t(code)};
  auto bytes = wire::pool::frame_of(head, wire::pool::text_message{reason});
  iovec const part{bytes.data(), bytes.size()};
  (void)connection.send({&part, 1});
}

std::vector<session::view> server::clients() const {
  std::vector<session::view> all;
  for (auto const &one : workers_) {
    auto some = one->clients();
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace tanada::poold
