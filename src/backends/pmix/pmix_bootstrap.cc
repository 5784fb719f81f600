// Membership in a job that a PMIx launcher started.
#include "backends/pmix/pmix_bootstrap.hpp"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "backends/pmix/pmix_wait.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/card.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t answer_timeout_ns =
    30'000'000'000;  // for data that the launcher's process on this node has locally
constexpr uint64_t left_timeout_ns =
    2'000'000'000;                     // short, because all calls wait for this answer
constexpr size_t read_count_max = 64;  // values read at a time
constexpr uint64_t abort_timeout_ns = 10'000'000'000;

pmix_info_t flag(const char *key) {
  pmix_info_t info{};
  std::snprintf(info.key, sizeof info.key, "%s", key);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_proc_t all_ranks(const pmix_proc_t &self) {
  pmix_proc_t wildcard = self;
  wildcard.rank = PMIX_RANK_WILDCARD;
  return wildcard;
}

using wanted_value = pmix_bootstrap::wanted_value;

// Reads all values by one thread, since PMIx_Get blocks. timed_out: not all were read. Otherwise
// each answer has its own code.
status get_all(std::vector<wanted_value> wanted,
               uint64_t timeout_ns,
               std::vector<pmix_answer> &answers) {
  auto const read_answers =
      std::make_shared<std::vector<pmix_answer>>();  // outlives this call if PMIx does not return
  pmix_status_t code = PMIX_ERROR;
  auto const call = [wanted = std::move(wanted), read_answers] {
    for (auto const &request : wanted)
      read_answers->push_back(pmix_get(request.process, request.key));
    return PMIX_SUCCESS;
  };
  TND_TRY(pmix_bounded(timeout_ns, call, code));
  answers = std::move(*read_answers);
  return status::ok;
}

status get(const pmix_proc_t &process,
           const std::string &key,
           pmix_answer &answer,
           uint64_t timeout_ns = answer_timeout_ns) {
  std::vector<pmix_answer> answers;
  TND_TRY(get_all({{process, key}}, timeout_ns, answers));
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
  status const published = seams::process_card_publish(*this);
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
  status const sized = get(all_ranks(self_), PMIX_JOB_SIZE, answer);
  if (sized != status::ok || answer.number == 0 || answer.number > INT32_MAX ||
      self_.rank >= answer.number) {
    message = "the launcher did not report how many processes the job has";
    return sized != status::ok ? sized : status::protocol;
  }
  values_.resize(answer.number);
  rounds_read_.resize(answer.number);
  status const peers_status = get(all_ranks(self_), PMIX_LOCAL_PEERS, answer);
  if (peers_status == status::ok)
    node_ranks_ =
        numbers_in({reinterpret_cast<const char *>(answer.bytes.data()), answer.bytes.size()});
  if (!std::binary_search(node_ranks_.begin(), node_ranks_.end(), rank()) ||
      node_ranks_.back() >= count()) {
    log(log_level::warning,
        "the launcher did not report the processes of this node: assuming no other is on it");
    node_ranks_ = {rank()};
  }
  return status::ok;
}

status pmix_bootstrap::check_usable() {
  watch_.check();
  if (int32_t const failed_rank = find_failed_rank(); failed_rank >= 0)
    return fail(status::peer_lost, "rank {} has failed", failed_rank);
  return session_.has_failed
             ? fail(status::bad_state,
                    "an earlier collective of this job has failed: no further one is possible")
             : status::ok;
}

status pmix_bootstrap::publish(std::string_view key, std::span<const std::byte> value) {
  return values_[self_.rank].publish(key, value);
}

// The key of a rank's values of one exchange. No other instance and no other user of PMIx has such
// a key.
std::string pmix_bootstrap::round_key(uint32_t round) const {
  return "tanada." + std::to_string(instance_) + "." + std::to_string(round);
}

status pmix_bootstrap::exchange(uint64_t timeout_ns) {
  TND_ASSERT(has_joined_);
  TND_TRY(check_usable());
  // The leading byte keeps the value from being empty.
  std::vector<std::byte> bytes{std::byte{1}};
  auto const settled = values_[self_.rank].take_published();
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
    return fail(pmix_status_of(code),
                "PMIx did not accept a value of {} bytes: {}",
                bytes.size(),
                PMIx_Error_string(code));
  }
  rounds_++;
  TND_TRY(fence("exchange", true, timeout_ns));
  if (rounds_ == 1)
    watch_node();
  return status::ok;
}

// Launchers report failed processes late or not at all, and let a fence of the other processes
// succeed. So this process watches those of its node itself.
void pmix_bootstrap::watch_node() {
  auto self_card = seams::process_card_of(*this, rank());
  if (!self_card.ok())
    return;
  std::vector<seams::watched_process> watched;
  for (int32_t const peer_rank : node_ranks_) {
    if (peer_rank == rank())
      continue;
    auto card = seams::process_card_of(*this, peer_rank);
    if (!card.ok() || card.value().process_inode == 0 ||
        card.value().process_inode != self_card.value().process_inode)
      continue;
    watched.push_back({.rank = peer_rank, .process = card.value().process});
  }
  auto const has_left = [self = self_](int32_t rank) {
    pmix_proc_t process = self;
    process.rank = uint32_t(rank);
    pmix_answer answer;
    return get(process, pmix_left_key, answer, left_timeout_ns) == status::ok;
  };
  watch_.start(std::move(watched), {.has_departed = has_left, .on_failure = pmix_set_failed});
}

status pmix_bootstrap::barrier(uint64_t timeout_ns) {
  TND_TRY(check_usable());
  return fence("barrier", false, timeout_ns);
}

status pmix_bootstrap::fence(const char *operation, bool with_values, uint64_t timeout_ns) {
  pmix_proc_t const participants = all_ranks(self_);
  pmix_info_t const collect = flag(PMIX_COLLECT_DATA);
  pmix_wait wait;
  void *const data = wait.data();
  pmix_status_t code = PMIx_Fence_nb(&participants,
                                     1,
                                     with_values ? &collect : nullptr,
                                     with_values ? 1 : 0,
                                     pmix_wait::on_done,
                                     data);
  if (code == PMIX_SUCCESS) {
    pmix_answer answer;
    if (status const waited = wait.wait(timeout_ns, true, answer); waited != status::ok) {
      session_.has_failed = true;
      if (waited == status::peer_lost)
        return fail(waited, "{}: rank {} has failed", operation, find_failed_rank());
      return fail(waited, "{}: not all of the {} processes entered in time", operation, count());
    }
    code = answer.code;
  } else {
    pmix_wait::release_data(data);
  }
  watch_.check();
  if (int32_t const failed_rank = find_failed_rank(); failed_rank >= 0)
    return fail(status::peer_lost, "{}: rank {} has failed", operation, failed_rank);
  status const end = pmix_status_of(code);
  if (end == status::ok)
    return end;
  session_.has_failed = true;
  return fail(end, "{}: {}", operation, PMIx_Error_string(code));
}

// Reads the values of a rank and of some that follow it, which are likely to be looked up next, as
// far as they have been published and not yet read.
status pmix_bootstrap::read_from(int32_t first) {
  auto const wanted = unread_values(first);
  std::vector<pmix_answer> answers;
  TND_TRY(get_all(wanted, answer_timeout_ns, answers));
  TND_ASSERT(answers.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    auto const answer_rank = int32_t(wanted[i].process.rank);
    status const code = merge_answer(answer_rank, answers[i]);
    if (code == status::ok)
      continue;
    // Only the requested rank's failure counts; others fail when they are looked up.
    if (answer_rank != first)
      return status::ok;
    return fail(code,
                "cannot read what rank {} published as {}: {}",
                answer_rank,
                wanted[i].key,
                PMIx_Error_string(answers[i].code));
  }
  return status::ok;
}

std::vector<pmix_bootstrap::wanted_value> pmix_bootstrap::unread_values(int32_t first) const {
  TND_ASSERT(first >= 0 && rounds_read_.size() == values_.size());
  std::vector<wanted_value> wanted;
  for (int32_t peer_rank = first; peer_rank < count() && wanted.size() < read_count_max;
       peer_rank++) {
    pmix_proc_t process = self_;
    process.rank = uint32_t(peer_rank);
    for (uint32_t round = rounds_read_[size_t(peer_rank)]; peer_rank != rank() && round < rounds_;
         round++) {
      wanted.push_back({process, round_key(round)});
    }
  }
  return wanted;
}

// Adds what a rank published in its next round to its values.
status pmix_bootstrap::merge_answer(int32_t rank, const pmix_answer &answer) {
  TND_ASSERT(rounds_read_[size_t(rank)] < rounds_);
  status code = pmix_status_of(answer.code);
  if (code == status::ok && answer.bytes.empty())
    code = status::protocol;
  if (code == status::ok)
    code = values_[size_t(rank)].merge(std::span{answer.bytes}.subspan(1));
  if (code == status::no_entry)
    code = status::io;  // every rank put a value before the exchange ended
  if (code == status::ok)
    rounds_read_[size_t(rank)]++;
  return code;
}

result<std::vector<std::byte>> pmix_bootstrap::lookup(int32_t rank, std::string_view key) {
  if (rank < 0 || rank >= count())
    return fail(status::invalid, "there is no rank {} in a job of {} processes", rank, count());
  if (rank != this->rank() && rounds_read_[size_t(rank)] < rounds_)
    TND_TRY(read_from(rank));
  return values_[size_t(rank)].find(key);
}

void pmix_bootstrap::abort(int32_t code, const char *message) noexcept {
  try {
    log(log_level::error, "rank {} aborts the job with code {}: {}", rank(), code, message);
    pmix_status_t ended = PMIX_ERROR;
    std::string const text = message;
    status const bounded = pmix_bounded(
        abort_timeout_ns,
        [code, text] { return PMIx_Abort(code, text.c_str(), nullptr, 0); },
        ended);
    if (bounded != status::ok)
      log(log_level::error, "PMIx_Abort did not return within 10 s");
  } catch (...) {  // no thread or insufficient memory: the caller ends the process
  }
}

int32_t pmix_bootstrap::find_failed_rank() const noexcept {
  return pmix_failed_rank();
}

void pmix_bootstrap::watch_launcher(std::function<void()> callback) {
  session_.watch_launcher(std::move(callback));
}

}  // namespace tanada::backends
