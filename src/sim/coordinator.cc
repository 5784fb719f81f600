// The simulated coordinator: a client's requests on their way to the store and back.
#include "sim/coordinator.hpp"

#include <atomic>

#include "core/base/assert.hpp"

namespace tanada::sim {

namespace {

using watch_result = result<std::vector<seams::watch_event>>;

}  // namespace

// What the store and messages in flight know of a client. It ends with the client.
struct coordinator_session {
  explicit coordinator_session(const coordinator_client_options &client_options)
      : options{client_options} {}

  coordinator_client_options const options;
  bool is_reachable = true;
  uint64_t partition_count = 0;             // how often is_reachable has changed
  std::deque<std::function<void()>> due{};  // callbacks for progress()
  std::atomic<bool> is_woken = false;
  // The watch. Messages of earlier watches have other numbers.
  uint64_t watch_number = 0;
  seams::coordinator::watch_handler handler{};  // empty: no watch
  std::deque<watch_result> arrived{};           // held until the client is reachable

  bool has_watch(uint64_t number) const {
    return handler && watch_number == number;
  }
  bool is_due() const {
    return !due.empty() || (is_reachable && !arrived.empty());
  }
};

// One request and its answer. Whichever comes first, the answer or an error, is reported.
template <class Answer>
struct coordinator_exchange {
  std::weak_ptr<coordinator_session> client;
  std::function<result<Answer>()> apply;
  std::function<void(result<Answer>)> done;  // empty: reported

  void complete(result<Answer> answer) {
    auto const session = client.lock();
    if (!session || !done)
      return;
    session->due.push_back(
        [reported = std::move(done), answer = std::move(answer)] { reported(answer); });
    done = nullptr;
  }
  bool is_reachable() const {
    auto const session = client.lock();
    return !session || session->is_reachable;
  }

  // The request arrives at the store. The store applies it even if its client is gone.
  static void arrive(coordinator_store &store,
                     const std::shared_ptr<coordinator_exchange> &exchange) {
    if (!exchange->is_reachable())
      return;
    if (store.is_down_) {
      if (store.owner.random.chance(50))
        report_loss(store, exchange);
      return;
    }
    auto answer = exchange->apply();
    if (store.draw(store.faults.lose_answer_permyriad)) {
      if (store.owner.random.chance(50))
        report_loss(store, exchange);
      return;
    }
    store.schedule(store.draw_delay_ns(), [exchange, answer = std::move(answer)] {
      if (exchange->is_reachable())
        exchange->complete(answer);
    });
  }

  // The client's system finds that the connection has broken.
  static void report_loss(coordinator_store &store,
                          const std::shared_ptr<coordinator_exchange> &exchange) {
    store.schedule(store.draw_delay_ns(), [exchange] {
      if (exchange->is_reachable())
        exchange->complete(status::peer_lost);
    });
  }
};

class simulated_coordinator final : public seams::coordinator {
 public:
  simulated_coordinator(coordinator_store &store, const coordinator_client_options &options)
      : store_{store}, session_{std::make_shared<coordinator_session>(options)} {}
  ~simulated_coordinator() override {
    store_.remove_watch_of(*session_);
  }

  void read(const std::string &prefix, range_callback done) override {
    post<seams::coordinated_range>([&store = store_, prefix] { return store.read(prefix); },
                                   std::move(done));
  }

  void transact(std::vector<seams::transaction_condition> conditions,
                std::vector<seams::transaction_change> changes,
                transaction_callback done) override {
    if (status const code = seams::check_transaction(conditions, changes); code != status::ok) {
      session_->due.push_back([done = std::move(done), code] { done(code); });
      return;
    }
    post<seams::transaction_outcome>(
        [&store = store_, conditions = std::move(conditions), changes = std::move(changes)] {
          return store.transact(conditions, changes);
        },
        std::move(done));
  }

  void grant_lease(uint64_t ttl_s, lease_callback done) override {
    if (ttl_s == 0 || ttl_s > seams::lease_ttl_s_max) {
      session_->due.push_back([done = std::move(done)] { done(status::invalid); });
      return;
    }
    post<seams::lease_id>([&store = store_, ttl_s] { return store.grant(ttl_s); }, std::move(done));
  }

  void renew_lease(seams::lease_id lease, status_callback done) override {
    post_status([&store = store_, lease] { return store.renew(lease); },
                std::move(done),
                store_.faults.lose_renewal_permyriad);
  }
  void revoke_lease(seams::lease_id lease, status_callback done) override {
    post_status([&store = store_, lease] { return store.revoke(lease); }, std::move(done), 0);
  }

  void watch(const std::string &prefix, uint64_t after_revision, watch_handler handler) override {
    TND_ASSERT(handler);
    coordinator_session &session = *session_;
    uint64_t const number = ++session.watch_number;
    session.handler = std::move(handler);
    session.arrived.clear();
    store_.remove_watch_of(session);
    if (!session.is_reachable || store_.draw(store_.faults.lose_request_permyriad)) {
      end_watch_after(session.options.watch_timeout_ns, number, status::timed_out);
      return;
    }
    store_.schedule(
        store_.draw_delay_ns(),
        [&store = store_, client = std::weak_ptr{session_}, number, prefix, after_revision] {
          store.add_watch({client, number, prefix}, after_revision);
        });
  }

  size_t progress() override {
    auto const due = std::exchange(session_->due, {});
    for (auto const &callback : due)
      callback();
    return due.size() + deliver_events();
  }

  status wait(uint64_t deadline_ns) override {
    world &owner = store_.owner;
    for (;;) {
      if (session_->is_woken.exchange(false) || session_->is_due())
        return status::ok;
      uint64_t const now_ns = owner.now_ns(), next_ns = owner.next_ns();
      if (now_ns >= deadline_ns || (next_ns == ~uint64_t{0} && deadline_ns == ~uint64_t{0}))
        return status::timed_out;
      if (next_ns <= deadline_ns)
        owner.step();
      else
        owner.advance(deadline_ns - now_ns);
    }
  }

  void wake() noexcept override {
    session_->is_woken = !store_.faults.loses_wakes;
  }

  void set_reachable(bool is_reachable) {
    coordinator_session &session = *session_;
    if (session.is_reachable == is_reachable)
      return;
    session.is_reachable = is_reachable;
    uint64_t const count = ++session.partition_count;
    if (is_reachable)
      return;
    store_.schedule(session.options.watch_timeout_ns,
                    [client = std::weak_ptr{session_}, count, number = session.watch_number] {
                      auto const partitioned = client.lock();
                      if (partitioned && partitioned->partition_count == count)
                        end_watch(*partitioned, number, status::timed_out);
                    });
  }

 private:
  template <class Answer>
  void post(std::function<result<Answer>()> apply,
            std::function<void(result<Answer>)> done,
            uint32_t loss_permyriad = 0) {
    TND_ASSERT(done);
    using exchange_type = coordinator_exchange<Answer>;
    auto const exchange =
        std::make_shared<exchange_type>(exchange_type{session_, std::move(apply), std::move(done)});
    store_.schedule(session_->options.request_timeout_ns,
                    [exchange] { exchange->complete(status::timed_out); });
    auto const &faults = store_.faults;
    if (!session_->is_reachable || store_.draw(faults.lose_request_permyriad + loss_permyriad))
      return;
    uint64_t delay_ns = store_.draw_delay_ns();
    if (store_.draw(faults.late_permyriad))
      delay_ns += store_.owner.random.below(faults.late_ns_max + 1);
    auto &store = store_;
    store_.schedule(delay_ns, [&store, exchange] { exchange_type::arrive(store, exchange); });
    if (store_.draw(faults.break_permyriad))
      exchange_type::report_loss(store_, exchange);
  }

  void post_status(std::function<status()> apply, status_callback done, uint32_t loss_permyriad) {
    post<bool>(
        [apply = std::move(apply)]() -> result<bool> {
          TND_TRY(apply());
          return true;
        },
        [done = std::move(done)](result<bool> answer) { done(answer.error()); },
        loss_permyriad);
  }

  static void end_watch(coordinator_session &session, uint64_t number, status why) {
    if (!session.has_watch(number))
      return;
    session.arrived.clear();
    session.due.push_back(
        [handler = std::exchange(session.handler, nullptr), why] { handler(why); });
  }

  void end_watch_after(uint64_t delay_ns, uint64_t number, status why) {
    store_.schedule(delay_ns, [client = std::weak_ptr{session_}, number, why] {
      if (auto const session = client.lock())
        end_watch(*session, number, why);
    });
  }

  // Passes what has arrived to the watch's handler, which may begin another watch.
  size_t deliver_events() {
    coordinator_session &session = *session_;
    uint64_t const number = session.watch_number;
    size_t count = 0;
    while (session.has_watch(number) && session.is_reachable && !session.arrived.empty()) {
      watch_result events = next_events();
      // The handler is not destroyed while it runs.
      auto const handler = session.handler;
      if (!events.ok()) {
        session.handler = nullptr;
        session.arrived.clear();
      }
      handler(std::move(events));
      count++;
    }
    return count;
  }

  // The events of one revision, or of several.
  watch_result next_events() {
    auto &arrived = session_->arrived;
    watch_result events = std::move(arrived.front());
    arrived.pop_front();
    while (events.ok() && !arrived.empty() && arrived.front().ok() &&
           store_.owner.random.chance(50)) {
      auto const &more = arrived.front().value();
      events.value().insert(events.value().end(), more.begin(), more.end());
      arrived.pop_front();
    }
    return events;
  }

  coordinator_store &store_;
  std::shared_ptr<coordinator_session> const session_;
};

std::unique_ptr<seams::coordinator> coordinator_store::open(
    const coordinator_client_options &options) {
  return std::make_unique<simulated_coordinator>(*this, options);
}

void coordinator_store::set_reachable(const seams::coordinator &client, bool is_reachable) {
  auto const *const simulated = dynamic_cast<const simulated_coordinator *>(&client);
  TND_ASSERT(simulated != nullptr);
  const_cast<simulated_coordinator *>(simulated)->set_reachable(is_reachable);
}

// Sends events or the end to a watch. False: the watch has ended.
bool coordinator_store::send_to_watch(watcher &target, watch_result events) {
  bool const is_cut = events.ok() && draw(faults.cut_watch_permyriad);
  if (is_cut)
    events = status::peer_lost;
  bool const goes_on = events.ok();
  uint64_t const more_ns = owner.random.below(faults.watch_delay_ns_max + 1);
  target.last_arrival_ns =
      std::max(target.last_arrival_ns, owner.now_ns() + draw_delay_ns() + more_ns);
  owner.schedule(target.last_arrival_ns,
                 [client = target.client, number = target.number, events = std::move(events)] {
                   auto const session = client.lock();
                   if (session && session->has_watch(number))
                     session->arrived.push_back(events);
                 });
  return goes_on;
}

}  // namespace tanada::sim
