// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/interop/make_message_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <gtest/gtest.h>
#include <support/random_plans.hpp>

// Programs of messages, for the writers of files.

namespace blink::test {

/// The program of a plan, with few chunks.
inline message_program make_messages(topology const& machine, plan const& p,
                                     message_program_options const& options) {
  step_program_options steps;
  steps.limits = limits_of_simulators();
  steps.most_chunks = 64;
  return make_message_program(make_step_program(machine, p, steps).program, options);
}

/// Calls `function` with programs of every collective that messages can be made of, and of random
/// forests.
template <class Function>
void for_each_message_program(Function const& function) {
  for (auto const kind : tree_collectives) {
    SCOPED_TRACE(to_text(kind));
    auto const machine = make_built_in_machine("dgx1v").value();
    function(make_messages(machine, make_plan(machine, {kind, {}, "exact"}), {1 << 20, 2, 0.1}));
  }
  for (auto const kind : {collective::gather, collective::scatter, collective::all_to_all}) {
    SCOPED_TRACE(to_text(kind));
    function(make_messages(make_full_machine(5), make_flows(kind, 5, 2), {12345, 1, 0}));
  }
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = make_random_forest(seed);
    function(make_messages(machine, p, {1 + seed, 1 + static_cast<int>(seed) % 3, 1}));
  }
}

}  // namespace blink::test
