// SPDX-License-Identifier: Apache-2.0
#pragma once

// The planning side in one include: machines in, plans out.

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/planning/check/check_groups.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan/groups_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/planning/plan_groups.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>

#include <blink/core/detail/restore_macros.hpp>  // last
