#include "backends/pmix/pmix_bootstrap.hpp"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "backends/pmix/pmix_wait.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/card.hpp"

namespace tanada::port {
namespace {

constexpr uint64_t answer_timeout_ns =
    30'000'000'000;  // of what the launcher's process on this node knows by itself
constexpr uint64_t left_timeout_ns = 2'000'000'000;  // all calls wait for this answer
constexpr size_t read_count_max = 64;                // values at a time
constexpr uint64_t abort_timeout_ns = 10'000'000'000;

pmix_info_t flag(const char *key) {
  pmix_info_t info{};
  std::snprintf(info.key, sizeof info.key, "%s", key);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_proc_t everybody(const pmix_proc_t &self) {
  pmix_proc_t all = self;
  all.rank = PMIX_RANK_WILDCARD;
  return all;
}

struct wanted_value {
  pmix_proc_t of;
  std::string key;
};

// All of them by one thread, since PMIx_Get blocks. timed_out; else each answer has its own code.
status get_all(std::vector<wanted_value> wanted, uint64_t timeout_ns,
               std::vector<pmix_answer> &answers) {
  auto const found =
      std::make_shared<std::vector<pmix_answer>>();  // outlives this call if PMIx does not return
  pmix_status_t code = PMIX_ERROR;
  auto const call = [wanted = std::move(wanted), found] {
    for (auto const &each : wanted)
      found->push_back(pmix_get(each.of, each.key));
    return PMIX_SUCCESS;
  };
  TND_TRY(pmix_bounded(timeout_ns, call, code));
  answers = std::move(*found);
  return status::ok;
}

status get(const pmix_proc_t &of, const std::string &key, pmix_answer &answer,
           uint64_t timeout_ns = answer_timeout_ns) {
  std::vector<pmix_answer> answers;
  TND_TRY(get_all({{of, key}}, timeout_ns, answers));
  answer = std::move(answers[0]);
  return pmix_status_of(answer.code);
}

std::vector<int32_t> numbers_in(std::string_view list) {
  std::vector<int32_t> numbers;
  while (!list.empty()) {
    auto const part = list.substr(0, list.find(','));
    int32_t number = 0;
    if (std::from_chars(part.data(), part.data() + part.size(), number).ec == std::errc{})
      numbers.push_back(number);
    list.remove_prefix(std::min(list.size(), part.size() + 1));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

status pmix_bootstrap::open(std::string &message) {
  TND_TRY(session_.join(message));
  has_joined_ = true;
  instance_ = session_.next_instance();
  self_ = session_.self();
  job_ = self_.nspace;
  TND_TRY(read_job(message));
  status const published = process_card_publish(*this);
  if (published != status::ok)
    message = last_message();
  return published;
}

pmix_bootstrap::~pmix_bootstrap() {
  if (has_joined_)
    session_.leave();
}

status pmix_bootstrap::read_job(std::string &message) {
  pmix_answer answer;
  status const sized = get(everybody(self_), PMIX_JOB_SIZE, answer);
  if (sized != status::ok || answer.number == 0 || answer.number > INT32_MAX ||
      self_.rank >= answer.number) {
    message = "the launcher does not say how many processes the job has";
    return sized != status::ok ? sized : status::protocol;
  }
  values_.resize(answer.number);
  rounds_read_.resize(answer.number);
  status const told = get(everybody(self_), PMIX_LOCAL_PEERS, answer);
  if (told == status::ok)
    node_ranks_ =
        numbers_in({reinterpret_cast<const char *>(answer.bytes.data()), answer.bytes.size()});
  if (!std::binary_search(node_ranks_.begin(), node_ranks_.end(), rank()) ||
      node_ranks_.back() >= count()) {
    log(log_level::warning,
        "the launcher does not say who else is on this node: nobody is taken to be");
    node_ranks_ = {rank()};
  }
  return status::ok;
}

status pmix_bootstrap::check_usable() {
  watch_.look();
  if (int32_t const gone = lost(); gone >= 0)
    return fail(status::peer_lost, "rank %" PRId32 " is gone", gone);
  return session_.has_failed
             ? fail(status::bad_state, "an earlier collective of this job has failed")
             : status::ok;
}

status pmix_bootstrap::publish(std::string_view key, std::span<const std::byte> value) {
  return values_[self_.rank].publish(key, value);
}

// A rank's values of one exchange: no other instance and no user of PMIx has such a key.
std::string pmix_bootstrap::round_key(uint32_t round) const {
  return "tanada." + std::to_string(instance_) + "." + std::to_string(round);
}

status pmix_bootstrap::exchange(uint64_t timeout_ns) {
  TND_TRY(check_usable());
  // The first byte is there so that no value is empty.
  std::vector<std::byte> bytes{std::byte{1}};
  auto const settled = values_[self_.rank].settle();
  bytes.insert(bytes.end(), settled.begin(), settled.end());
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = reinterpret_cast<char *>(bytes.data());
  value.data.bo.size = bytes.size();
  pmix_status_t code = PMIx_Put(PMIX_GLOBAL, round_key(rounds_).c_str(), &value);
  if (code == PMIX_SUCCESS)
    code = PMIx_Commit();
  if (pmix_status_of(code) != status::ok) {
    session_.has_failed = true;
    return fail(pmix_status_of(code), "PMIx takes no %zu bytes: %s", bytes.size(),
                PMIx_Error_string(code));
  }
  rounds_++;
  TND_TRY(fence("exchange", true, timeout_ns));
  if (rounds_ == 1)
    watch_node();
  return status::ok;
}

// Launchers tell of processes that die, if they do, when they have time; and they let a fence of
// the others succeed.
void pmix_bootstrap::watch_node() {
  auto own = process_card_of(*this, rank());
  if (!own.ok())
    return;
  std::vector<watched_process> watched;
  for (int32_t const each : node_ranks_) {
    if (each == rank())
      continue;
    auto card = process_card_of(*this, each);
    if (!card.ok() || card.value().process_inode == 0 ||
        card.value().process_inode != own.value().process_inode)
      continue;
    watched.push_back({.rank = each, .process = card.value().process});
  }
  auto const has_left = [self = self_](int32_t rank) {
    pmix_proc_t of = self;
    of.rank = uint32_t(rank);
    pmix_answer answer;
    return get(of, pmix_left_key, answer, left_timeout_ns) == status::ok;
  };
  watch_.start(std::move(watched), {.has_left = has_left, .lose = pmix_lose});
}

status pmix_bootstrap::barrier(uint64_t timeout_ns) {
  TND_TRY(check_usable());
  return fence("barrier", false, timeout_ns);
}

status pmix_bootstrap::fence(const char *what, bool with_values, uint64_t timeout_ns) {
  pmix_proc_t const all = everybody(self_);
  pmix_info_t const collect = flag(PMIX_COLLECT_DATA);
  pmix_wait wait;
  void *const data = wait.data();
  pmix_status_t code = PMIx_Fence_nb(&all, 1, with_values ? &collect : nullptr, with_values ? 1 : 0,
                                     pmix_wait::on_done, data);
  if (code == PMIX_SUCCESS) {
    pmix_answer answer;
    if (status const waited = wait.wait(timeout_ns, true, answer); waited != status::ok) {
      session_.has_failed = true;
      if (waited == status::peer_lost)
        return fail(waited, "%s: rank %" PRId32 " is gone", what, lost());
      return fail(waited, "%s: not all of the %" PRId32 " processes came in time", what, count());
    }
    code = answer.code;
  } else {
    pmix_wait::take_back(data);
  }
  watch_.look();
  if (int32_t const gone = lost(); gone >= 0)
    return fail(status::peer_lost, "%s: rank %" PRId32 " is gone", what, gone);
  status const end = pmix_status_of(code);
  if (end == status::ok)
    return end;
  session_.has_failed = true;
  return fail(end, "%s: %s", what, PMIx_Error_string(code));
}

// What was published since they were read last, of this rank and some that follow, who will be
// asked for next.
status pmix_bootstrap::read_from(int32_t first) {
  std::vector<wanted_value> wanted;
  for (int32_t each = first; each < count() && wanted.size() < read_count_max; each++) {
    pmix_proc_t of = self_;
    of.rank = uint32_t(each);
    for (uint32_t round = rounds_read_[size_t(each)]; each != rank() && round < rounds_; round++) {
      wanted.push_back({of, round_key(round)});
    }
  }
  std::vector<pmix_answer> answers;
  TND_TRY(get_all(wanted, answer_timeout_ns, answers));
  for (size_t i = 0; i < wanted.size(); i++) {
    auto const of = int32_t(wanted[i].of.rank);
    auto const &answer = answers[i];
    status code = pmix_status_of(answer.code);
    if (code == status::ok && answer.bytes.empty())
      code = status::protocol;
    if (code == status::ok)
      code = values_[size_t(of)].absorb(std::span{answer.bytes}.subspan(1));
    if (code == status::no_entry)
      code = status::io;  // every rank has put one before the exchange ended
    if (code == status::ok) {
      rounds_read_[size_t(of)]++;
      continue;
    }
    // Of who was asked for; another will be when it is.
    if (of != first)
      return status::ok;
    return fail(code, "what rank %" PRId32 " published, as %s: %s", of, wanted[i].key.c_str(),
                PMIx_Error_string(answer.code));
  }
  return status::ok;
}

result<std::vector<std::byte>> pmix_bootstrap::lookup(int32_t rank, std::string_view key) {
  if (rank < 0 || rank >= count())
    return fail(status::invalid, "rank %" PRId32 " of a job of %" PRId32, rank, count());
  if (rank != this->rank() && rounds_read_[size_t(rank)] < rounds_)
    TND_TRY(read_from(rank));
  return values_[size_t(rank)].find(key);
}

void pmix_bootstrap::abort(int32_t code, const char *message) noexcept {
  try {
    log(log_level::error, "rank %" PRId32 " aborts the job with code %" PRId32 ": %s", rank(), code,
        message);
    pmix_status_t ended = PMIX_ERROR;
    std::string const text = message;
    status const bounded = pmix_bounded(
        abort_timeout_ns, [code, text] { return PMIx_Abort(code, text.c_str(), nullptr, 0); },
        ended);
    if (bounded != status::ok)
      log(log_level::error, "PMIx_Abort did not return within 10 s");
  } catch (...) {  // no thread, no memory: the caller ends itself
  }
}

int32_t pmix_bootstrap::lost() const noexcept {
  return pmix_lost();
}

void pmix_bootstrap::watch_launcher(std::function<void()> gone) {
  session_.watch_launcher(std::move(gone));
}

}  // namespace tanada::port
