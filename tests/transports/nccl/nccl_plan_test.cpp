// SPDX-License-Identifier: Apache-2.0
// Plans over two machines, run by sends and receives with the rules of NCCL. There is a process for
// each machine, one for each rank, or a mixture.

#include <blink/core/collective.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/topology/machines.hpp>

#include "support/device_case.hpp"
#include "support/emulated_nccl.hpp"
#include "support/nccl_processes.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace nccl_plan_test { namespace {

using blink_test::case_of;
using blink_test::emulated_fabric;
using blink_test::nccl_process;

TEST(nccl_plan, three_phases_over_two_machines) {
  auto const machine = blink::machines::dgx_a100(2);
  for (auto const kind : {blink::collective::all_reduce, blink::collective::broadcast}) {
    blink::plan_request request;
    request.collective = kind;
    auto const plan = blink::make_schedule(machine, blink::plan_three_phase(machine, request));
    ASSERT_EQ(plan.rank_count, 16);
    for (std::vector<int> const& processes :
         {std::vector<int>{8, 8}, std::vector<int>(16, 1), std::vector<int>{5, 3, 4, 4}}) {
      emulated_fabric fabric(16);
      auto const texts = blink_test::run_nccl_processes(fabric, processes, [&](nccl_process& mine) {
        auto options = blink_test::nccl_options_in_vectors();
        options.slot_bytes = 256;
        auto& all = mine.make_ranks(options);
        auto now = mine.case_of<float>(case_of(kind, 5000, 3, true), plan);
        now.enqueue(all, blink::sum{});
        all.wait();
        return now.wrong(blink::sum{});
      });
      EXPECT_EQ(texts, std::vector<std::string>(processes.size()));
    }
  }
}

}}  // namespace nccl_plan_test
