#include "poold/server.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/log.hpp"
#include "pool/address.hpp"
#include "port/clock/clock.hpp"
#include "port/stream/poller.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t sweep_ns = 1'000'000'000;  // between looks for sessions that are overdue
constexpr uint64_t wake_word = 0, tcp_word = 1, unix_word = 2, session_word = 16;
constexpr size_t event_count_max = 64;

uint64_t now() { return port::monotonic_clock().now_ns(); }

}  // namespace

// One thread, its sessions and its epoll.
class server::worker {
 public:
  worker(server &of, bool accepts) : of_{of}, accepts_{accepts} {}
  ~worker() {
    if (thread_.joinable()) thread_.join();
    sessions_.clear();
  }

  status begin() {
    TND_TRY(poller_.ready());
    TND_TRY(poller_.add(mailbox_->waker().descriptor(), wake_word, {.to_receive = true}));
    if (accepts_) {
      TND_TRY(poller_.add(of_.tcp_.descriptor(), tcp_word, {.to_receive = true}));
      TND_TRY(poller_.add(of_.unix_.descriptor(), unix_word, {.to_receive = true}));
    }
    thread_ = std::thread{[this] { run(); }};
    return status::ok;
  }

  void wake() { mailbox_->waker().wake(); }

  void take_over(std::unique_ptr<port::stream> connection) {
    {
      std::lock_guard lock{mutex_};
      arrived_.push_back(std::move(connection));
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
        if (found == sessions_.end()) continue;
        found->second.busy = false;
        serve(id, now_ns);
      }
      for (size_t i = 0; i < count; i++) handle(words[i], now_ns);
      if (now_ns >= next_sweep_ns) {
        sweep(now_ns);
        next_sweep_ns = now_ns + sweep_ns;
      }
    }
  }

  bool is_finished() {
    if (!of_.stopping_) return false;
    bool const idle = std::none_of(sessions_.begin(), sessions_.end(), [](auto &one) { return !one.second.one->is_settled(); });
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
    std::vector<std::unique_ptr<port::stream>> arrived;
    {
      std::lock_guard lock{mutex_};
      arrived.swap(arrived_);
    }
    for (auto &connection : arrived) {
      uint64_t const id = of_.next_session_.fetch_add(1);
      int const descriptor = connection->descriptor();
      port::interest const in{.to_receive = true};
      if (poller_.add(descriptor, session_word + id, in) != status::ok) {
        of_.session_count_.fetch_sub(1);
        continue;
      }
      sessions_.emplace(id, served{std::make_unique<session>(of_.with_, std::move(connection), id, mailbox_, now_ns), in, false});
    }
    for (const late_answer &late : mailbox_->take()) {
      auto const found = sessions_.find(late.session);
      if (found == sessions_.end()) continue;
      found->second.one->finish(late);
      serve(late.session, now_ns);
    }
  }

  void serve(uint64_t id, uint64_t now_ns) {
    auto const found = sessions_.find(id);
    if (found == sessions_.end()) return;
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
    port::interest const in{which.one->wants_to_receive() && !of_.stopping_, which.one->wants_to_send()};
    if (in == which.in) return;
    which.in = in;
    poller_.change(which.one->connection().descriptor(), session_word + id, in);
  }

  using sessions = std::unordered_map<uint64_t, served>;
  sessions::iterator end(sessions::iterator which) {
    of_.session_count_.fetch_sub(1);
    return sessions_.erase(which);
  }

  void sweep(uint64_t now_ns) {
    if (accepts_) of_.with_.objects.look_at_memory();  // one thread is enough for that
    std::vector<session::view> seen;
    for (auto at = sessions_.begin(); at != sessions_.end();) {
      if (at->second.one->is_overdue(now_ns)) {
        log(log_level::warning, "pool: %s has stalled: the connection is closed", at->second.one->connection().peer().c_str());
        at = end(at);
        continue;
      }
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
  std::vector<std::unique_ptr<port::stream>> arrived_;
  std::vector<session::view> clients_;
  std::thread thread_;
};

result<std::unique_ptr<server>> server::start(const server_options &options, service &with) {
  std::unique_ptr<server> made{new server{options, with}};
  auto tcp = port::tcp_listen(options.host, options.port);
  if (!tcp.ok()) return tcp.error();
  made->tcp_ = std::move(tcp).value();
  made->port_ = made->tcp_.port();
  auto local = port::unix_listen(pool::unix_name(made->port_));
  if (!local.ok()) return local.error();
  made->unix_ = std::move(local).value();
  uint32_t const count = options.worker_count != 0 ? options.worker_count : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  for (uint32_t i = 0; i < count; i++) made->workers_.push_back(std::make_unique<worker>(*made, i == 0));
  for (auto &one : made->workers_) TND_TRY(one->begin());
  return made;
}

server::server(const server_options &options, service &with) : options_{options}, with_{with} {}

server::~server() { stop(0); }

void server::stop(uint64_t deadline_ns) {
  if (workers_.empty()) return;
  stop_deadline_ns_ = deadline_ns;  // first: a worker that sees the one sees the other
  stopping_ = true;
  for (auto &one : workers_) one->wake();
  workers_.clear();
}

void server::accept_from(port::listener &from) {
  for (;;) {
    auto connection = from.accept();
    if (!connection.ok()) {
      // Whoever waits for a descriptor waits on; the pause keeps this thread from asking again and again.
      if (connection.error() != status::again) port::monotonic_clock().sleep_ns(1'000'000);
      return;
    }
    if (stopping_ || session_count_ >= options_.client_count_max) {
      with_.counters.refused.fetch_add(1);
      log(log_level::warning, "pool: %s is refused: there are %u connections", connection.value()->peer().c_str(),
          options_.client_count_max);
      continue;
    }
    session_count_.fetch_add(1);
    workers_[next_worker_++ % workers_.size()]->take_over(std::move(connection).value());
  }
}

std::vector<session::view> server::clients() const {
  std::vector<session::view> all;
  for (auto const &one : workers_) {
    auto some = one->clients();
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace tanada::poold
