// Tests of the detection of launchers.
#include "backends/node/launch.hpp"

#include <gtest/gtest.h>

#include <map>

#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

result<launch_kind> kind_of(const std::map<std::string, std::string> &variables) {
  return launch_kind_of([&](const char *name) -> const char * {
    auto const it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

void expect_kind(const std::map<std::string, std::string> &variables, launch_kind expected) {
  auto kind = kind_of(variables);
  ASSERT_TRUE(kind.ok()) << last_message();
  EXPECT_EQ(kind.value(), expected);
}

void expect_refused(const std::map<std::string, std::string> &variables,
                    status code,
                    std::string_view part) {
  EXPECT_EQ(kind_of(variables).error(), code);
  EXPECT_NE(last_message().find(part), std::string::npos) << last_message();
}

TEST(launch, nothing_is_alone) {
  expect_kind({}, launch_kind::alone);
}

TEST(launch, pmix_is_known_by_its_two_variables) {
  expect_kind({{"PMIX_NAMESPACE", "1"}, {"PMIX_RANK", "0"}}, launch_kind::pmix);
  expect_kind({{"PMIX_NAMESPACE", "1"}}, launch_kind::alone);
  expect_kind({{"PMIX_NAMESPACE", "1"},
               {"PMIX_RANK", "0"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_RANK", "0"}},
              launch_kind::pmix);
}

TEST(launch, several_processes_without_pmix_are_refused_with_advice) {
  expect_refused(
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}, status::no_plugin, "srun --mpi=pmix");
  expect_refused(
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, status::no_plugin, "mpirun");
  expect_refused({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, status::no_plugin, "oshrun");
}

TEST(launch, one_process_of_any_launcher_is_alone) {
  expect_kind({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, launch_kind::alone);
  expect_kind({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, launch_kind::alone);
}

TEST(launch, a_batch_script_is_alone) {
  expect_kind({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, launch_kind::alone);
}

TEST(launch, the_setting_decides) {
  expect_kind({{"TND_BOOTSTRAP", "alone"}, {"PMIX_NAMESPACE", "1"}, {"PMIX_RANK", "0"}},
              launch_kind::alone);
  expect_kind({{"TND_BOOTSTRAP", "alone"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
              launch_kind::alone);
  expect_kind({{"TND_BOOTSTRAP", "pmix"}}, launch_kind::pmix);
  expect_kind({{"TND_BOOTSTRAP", "auto"}}, launch_kind::alone);
  expect_refused({{"TND_BOOTSTRAP", "mpi"}}, status::invalid, "TND_BOOTSTRAP=mpi");
}

}  // namespace
}  // namespace tanada::backends
