// The daemon's sockets and worker threads: accept, admission and the polling of sessions.
#include "products/poold/server.hpp"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/pool/address.hpp"
#include "products/poold/ring_watch.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/poller.hpp"
#include "seams/os/processors.hpp"
#include "seams/os/yield.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t sweep_ns = 1'000'000'000;  // between checks for overdue sessions
constexpr uint64_t wake_word = 0, tcp_word = 1, unix_word = 2, session_word = 16;
static_assert(session_word > unix_word);
constexpr size_t event_count_max = 64;
constexpr size_t accept_count_max = 16;      // connections accepted in one turn
constexpr uint64_t socket_poll_ns = 20'000;  // between polls of the sockets, while rings are polled
constexpr uint64_t yield_after_ns = 5'000;   // of fruitless polls
constexpr int polls_per_clock = 16;

uint64_t read_clock() {
  return seams::monotonic_clock().now_ns();
}

// Half of the processors may be used up by polling. A single one is needed by the clients.
uint32_t poll_permit_count() {
  size_t const count = seams::processors_allowed().count();
  return count == 1 ? 0 : std::max(1u, uint32_t(count / 2));
}

}  // namespace

// One thread, its sessions and its epoll.
class server::worker {
 public:
  worker(server &owner, bool is_acceptor) : server_{owner}, is_acceptor_{is_acceptor} {}
  ~worker() {
    if (thread_.joinable())
      thread_.join();
    sessions_.clear();
  }

  status start() {
    TND_TRY(poller_.ready());
    TND_TRY(poller_.add(mailbox_->waker().descriptor(), wake_word, {.to_receive = true}));
    if (is_acceptor_) {
      TND_TRY(poller_.add(server_.tcp_.descriptor(), tcp_word, {.to_receive = true}));
      TND_TRY(poller_.add(server_.unix_.descriptor(), unix_word, {.to_receive = true}));
    }
    thread_ = std::thread{[this] {
      run();
    }};
    return status::ok;
  }

  void wake() {
    mailbox_->waker().wake();
  }

  struct new_connection {
    uint64_t id;
    std::unique_ptr<seams::stream> connection;
    bool requires_key;  // its user was not checked
  };

  void add_connection(new_connection accepted) {
    {
      lock_guard lock{mutex_};
      new_connections_.push_back(std::move(accepted));
    }
    wake();
  }

  void evict(uint64_t id) {
    {
      lock_guard lock{mutex_};
      evicted_.push_back(id);
    }
    wake();
  }

  std::vector<session::view> clients() const {
    lock_guard lock{mutex_};
    return clients_;
  }

 private:
  struct session_entry {
    std::unique_ptr<session> client;
    seams::interest interest;
    bool is_busy = false, is_paused = false;
    ring_place place = {};
  };

  void run() {
    uint64_t words[event_count_max];
    uint64_t next_sweep_ns = read_clock() + sweep_ns;
    while (!is_finished()) {
      size_t const count = wait_for_work(words);
      uint64_t const now_ns = now_ns_;
      serve_busy(now_ns);
      serve_paused(now_ns);
      for (uint64_t const id : ready_)
        serve(id, now_ns);
      ready_.clear();
      for (size_t i = 0; i < count; i++)
        dispatch_event(words[i], now_ns);
      if (now_ns >= next_sweep_ns) {
        sweep(now_ns);
        next_sweep_ns = now_ns + sweep_ns;
      }
    }
  }

  // Serve sessions that had more to do before those with new events.
  void serve_busy(uint64_t now_ns) {
    std::vector<uint64_t> const busy = std::exchange(busy_, {});
    for (uint64_t const id : busy) {
      auto const it = sessions_.find(id);
      if (it == sessions_.end())
        continue;
      it->second.is_busy = false;
      serve(id, now_ns);
    }
  }

  // Serve sessions that wait for memory.
  void serve_paused(uint64_t now_ns) {
    std::vector<uint64_t> const paused = std::exchange(paused_, {});
    for (uint64_t const id : paused) {
      auto const it = sessions_.find(id);
      if (it == sessions_.end())
        continue;
      it->second.is_paused = false;
      serve(id, now_ns);
    }
  }

  // How long to wait for events, in milliseconds.
  int wait_time() const {
    if (!paused_.empty())
      return 1;
    return server_.is_stopping_ ? 10 : int(sweep_ns / 1'000'000);
  }

  // Wait for events of sockets, whose words are returned, or for requests in rings: `ready_`.
  size_t wait_for_work(std::span<uint64_t> words) {
    size_t count = 0;
    if (busy_.empty()) {
      count = poll_rings(words);
      // Sessions may have ended since the permit was acquired.
      if (rings_.is_empty() && std::exchange(has_permit_, false))
        server_.poll_permits_->release();
      if (count > 0 || !ready_.empty())
        return count;
      count = poller_.wait(words, wait_time());
    } else {
      rings_.collect(ready_);
      count = poller_.wait(words, 0);
    }
    now_ns_ = read_clock();
    return count;
  }

  // Poll until there is work, or no ring is polled any more. Sockets are polled, too, more rarely.
  size_t poll_rings(std::span<uint64_t> words) {
    uint64_t const start_ns = now_ns_;
    while (!rings_.is_empty()) {
      if (!has_permit_)
        has_permit_ = server_.poll_permits_->acquire();
      if (!has_permit_)
        return rest_rings(~uint64_t{0});
      for (int i = 0; i < polls_per_clock && !rings_.collect(ready_); i++)
        backends::spin_pause();
      now_ns_ = read_clock();
      if (now_ns_ >= next_socket_poll_ns_) {
        next_socket_poll_ns_ = now_ns_ + socket_poll_ns;
        if (size_t const count = poller_.wait(words, 0); count > 0)
          return count;
      }
      if (!ready_.empty())
        return 0;
      bool const is_yielded = now_ns_ - start_ns < yield_after_ns || seams::thread_yield();
      rest_rings(is_yielded ? now_ns_ - server_.service_.limits.ring_poll_ns : ~uint64_t{0});
    }
    return 0;
  }

  size_t rest_rings(uint64_t limit_ns) {
    rings_.rest(limit_ns);
    rings_.collect(ready_);
    return 0;
  }

  bool is_finished() {
    if (!server_.is_stopping_)
      return false;
    bool const idle = std::none_of(sessions_.begin(), sessions_.end(), [](auto &entry) {
      return !entry.second.client->is_drained();
    });
    return (idle && busy_.empty()) || read_clock() >= server_.stop_deadline_ns_;
  }

  void dispatch_event(uint64_t word, uint64_t now_ns) {
    switch (word) {
      case wake_word:
        process_mailbox(now_ns);
        break;
      case tcp_word:
        server_.accept_from(server_.tcp_);
        break;
      case unix_word:
        server_.accept_from(server_.unix_);
        break;
      default:
        serve_event(word - session_word, now_ns);
    }
  }

  // Process what other threads have queued for this one.
  void process_mailbox(uint64_t now_ns) {
    mailbox_->waker().clear();  // first, so that later arrivals wake the thread again
    std::vector<new_connection> connections;
    std::vector<uint64_t> evicted;
    {
      lock_guard lock{mutex_};
      connections.swap(new_connections_);
      evicted.swap(evicted_);
    }
    for (new_connection &accepted : connections)
      begin_session(std::move(accepted), now_ns);
    for (uint64_t const id : evicted) {
      auto const it = sessions_.find(id);
      if (it == sessions_.end())
        continue;
      TND_ASSERT(it->second.client->is_in_handshake());  // an evicted session is never welcomed
      it->second.client->log_close(
          now_ns, "was evicted in favor of another, before its handshake was complete");
      end(it);
    }
    for (const deferred_reply &reply : mailbox_->take()) {
      auto const it = sessions_.find(reply.session);
      if (it == sessions_.end())
        continue;
      it->second.client->finish_deferred(reply);
      serve(reply.session, now_ns);
    }
  }

  void begin_session(new_connection accepted, uint64_t now_ns) {
    seams::interest const interest{.to_receive = true};
    if (poller_.add(accepted.connection->descriptor(), session_word + accepted.id, interest) !=
        status::ok) {
      server_.admission_.remove(accepted.id);
      return;
    }
    session_entry entry{
        std::make_unique<session>(
            server_.service_, std::move(accepted.connection), accepted.id, mailbox_, now_ns),
        interest};
    entry.client->set_admission(
        [this, id = accepted.id] { return server_.admission_.complete(id); });
    if (accepted.requires_key)
      entry.client->require_key();
    bool const is_new = sessions_.emplace(accepted.id, std::move(entry)).second;
    TND_ASSERT(is_new);
  }

  void serve_event(uint64_t id, uint64_t now_ns) {
    auto const it = sessions_.find(id);
    if (it != sessions_.end() && it->second.client->ring() != nullptr)
      it->second.client->ring()->note_event();
    serve(id, now_ns);
  }

  void serve(uint64_t id, uint64_t now_ns) {
    auto const it = sessions_.find(id);
    if (it == sessions_.end())
      return;
    session_entry &entry = it->second;
    auto const outcome = entry.client->progress(now_ns);
    if (outcome == session::outcome::ended) {
      end(it);
      return;
    }
    if (entry.client->ring() != nullptr) {
      entry.place.id = id;
      entry.place.client = entry.client.get();
      rings_.add(entry.place, now_ns);
    }
    if (outcome == session::outcome::busy && !entry.is_busy) {
      entry.is_busy = true;
      busy_.push_back(id);
    }
    if (outcome == session::outcome::paused && !entry.is_paused) {
      entry.is_paused = true;
      paused_.push_back(id);
    }
    auto const events = entry.client->connection().events_for(
        {entry.client->expects_input() && !server_.is_stopping_, entry.client->has_output()});
    seams::interest const interest{events.to_receive, events.to_send};
    if (interest == entry.interest)
      return;
    entry.interest = interest;
    poller_.change(entry.client->connection().descriptor(), session_word + id, interest);
  }

  using sessions = std::unordered_map<uint64_t, session_entry>;
  sessions::iterator end(sessions::iterator it) {
    TND_ASSERT(it != sessions_.end());
    rings_.remove(it->second.place);
    server_.admission_.remove(it->first);
    return sessions_.erase(it);
  }

  void sweep(uint64_t now_ns) {
    if (is_acceptor_)
      server_.service_.objects.check_memory();  // in one thread only
    std::vector<session::view> views;
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      if (it->second.client->is_overdue(now_ns)) {
        it->second.client->log_close(now_ns, "has stalled");
        it = end(it);
        continue;
      }
      it->second.client->shrink_idle_buffer(now_ns);
      views.push_back(it->second.client->describe());
      ++it;
    }
    lock_guard lock{mutex_};
    clients_.swap(views);
  }

  server &server_;
  bool const is_acceptor_;
  seams::poller poller_;
  std::shared_ptr<mailbox> const mailbox_ = std::make_shared<mailbox>();
  sessions sessions_;
  std::vector<uint64_t> busy_, paused_, ready_;  // ready_: their rings have requests
  ring_watch rings_;
  bool has_permit_ = false;  // to poll them
  uint64_t now_ns_ = 0, next_socket_poll_ns_ = 0;
  mutable mutex mutex_;
  std::vector<new_connection> new_connections_ TND_GUARDED_BY(mutex_);
  std::vector<uint64_t> evicted_ TND_GUARDED_BY(mutex_);
  std::vector<session::view> clients_ TND_GUARDED_BY(mutex_);
  std::thread thread_;
};

result<std::unique_ptr<server>> server::start(const server_options &options, service &shared) {
  // A shorter time would end healthy clients on a busy network. The kernel does not support longer
  // ones.
  constexpr uint64_t lost_after_ns_min = 1'000'000'000, lost_after_ns_max = 3'600'000'000'000;
  if (options.lost_after_ns < lost_after_ns_min || options.lost_after_ns > lost_after_ns_max) {
    return fail(status::invalid,
                "lost_after is {:.3g} s: give 1s to 1h",
                double(options.lost_after_ns) / 1e9);
  }
  std::unique_ptr<server> instance{new server{options, shared}};
  auto tcp = backends::tcp_listen(options.host, options.port, options.lost_after_ns);
  if (!tcp.ok())
    return tcp.error();
  instance->tcp_ = std::move(tcp).value();
  instance->port_ = instance->tcp_.port();
  auto local = backends::unix_listen(pool::unix_name(instance->port_));
  if (!local.ok())
    return local.error();
  instance->unix_ = std::move(local).value();
  uint32_t const count = options.worker_count != 0
                             ? options.worker_count
                             : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  for (uint32_t i = 0; i < count; i++)
    instance->workers_.push_back(std::make_unique<worker>(*instance, i == 0));
  for (auto &thread : instance->workers_)
    TND_TRY(thread->start());
  return instance;
}

server::server(const server_options &options, service &shared)
    : options_{options},
      service_{shared},
      admission_{options.client_count_max},
      poll_permits_{std::make_unique<poll_permits>(poll_permit_count())} {
  service_.user = geteuid();
}

server::~server() {
  stop(0);
}

void server::stop(uint64_t deadline_ns) {
  if (workers_.empty())
    return;
  stop_deadline_ns_ = deadline_ns;  // before `is_stopping_`, so that workers see both
  is_stopping_ = true;
  for (auto &thread : workers_)
    thread->wake();
  workers_.clear();
}

// Accept a limited number, so that handshakes in progress continue before more start. The poller
// reports the socket again while connections are pending.
void server::accept_from(backends::listener &listener) {
  for (size_t count = 0; count < accept_count_max; count++) {
    auto connection = listener.accept();
    if (!connection.ok()) {
      // The process may be out of descriptors: connections stay in the backlog, and the pause keeps
      // this thread from spinning.
      if (connection.error() != status::again)
        seams::monotonic_clock().sleep_ns(1'000'000);
      return;
    }
    if (is_stopping_)
      reject_connection(*connection.value(), status::busy, "the daemon is shutting down");
    else
      admit_connection(std::move(connection).value());
  }
}

void server::admit_connection(std::unique_ptr<seams::stream> connection) {
  bool const demands_key = !service_.keys.keys()->empty();
  if (!demands_key && !is_user_allowed(*connection)) {
    const char *const doubt = connection->peer_user()
                                  ? ""
                                  : ", and the kernel does not report the user of this connection "
                                    "(sock_diag, user namespaces)";
    reject_connection(*connection,
                      status::access,
                      "without keys this pool serves only the user who started it (uid " +
                          std::to_string(geteuid()) + ") and root" + doubt +
                          ": start it with --key-file, or with --open for all users of its node");
    return;
  }
  // Each user of this node counts as a host of its own.
  bool const is_local = connection->is_local() || backends::is_to_this_node(*connection);
  auto const user = is_local ? connection->peer_user() : std::nullopt;
  std::string const user_text = user ? ", user " + std::to_string(*user) : "";
  std::string const host = connection->peer_host() + user_text;
  uint64_t const id = next_session_++;
  auto const verdict = admission_.admit(id, host, is_local);
  if (!verdict.is_admitted) {
    reject_connection(*connection,
                      status::busy,
                      "the pool has all " + std::to_string(options_.client_count_max) +
                          " connections that its --clients allows");
    return;
  }
  if (verdict.evicted)
    worker_for(*verdict.evicted).evict(*verdict.evicted);
  worker_for(id).add_connection({id, std::move(connection), demands_key});
}

// A connection whose user is unknown is not allowed.
bool server::is_user_allowed(const seams::stream &connection) const {
  if (options_.is_open)
    return true;
  auto const user = connection.peer_user();
  return user && (*user == geteuid() || *user == 0);
}

// Send the rejection as the reply to the client's first request. It fits into any socket's buffer.
void server::reject_connection(seams::stream &connection, status code, const std::string &reason) {
  service_.counters.refused_count.fetch_add(1);
  service_.counters.errors.add(code);
  service_.refusals.add(read_clock(), connection.peer() + " is refused: " + reason);
  wire::pool::frame const head{.kind = uint16_t(wire::pool::kind::challenge),
                               .code = int32_t(code)};
  auto bytes = wire::pool::encode_frame(head, wire::pool::text_message{reason});
  iovec const part{bytes.data(), bytes.size()};
  (void)connection.send({&part, 1});
}

std::vector<session::view> server::clients() const {
  std::vector<session::view> views;
  for (auto const &thread : workers_) {
    auto worker_views = thread->clients();
    views.insert(views.end(),
                 std::make_move_iterator(worker_views.begin()),
                 std::make_move_iterator(worker_views.end()));
  }
  return views;
}

}  // namespace tanada::poold
