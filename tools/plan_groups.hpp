// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/work_budget.hpp>
#include <blink/planning/plan/groups_plan.hpp>

#include "arguments.hpp"
#include "table_files.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace blink::tools {

/// Reads --groups, in one of the forms that `docs/groups.md` lists.
/// other:  the collective of the groups that do not name one
/// Throws: input_error.
[[nodiscard]] std::vector<group_request> read_groups_option(std::string const& text,
                                                            topology const& machine,
                                                            collective other);

/// Plans groups, checks and prints the plans.
///
/// compare: true: also what each group gets alone
/// all:     each link, not a summary
/// files:   of the table of groups; they have each group
/// Throws:  as `plan_groups`.
[[nodiscard]] groups_plan show_groups(allocation const& place,
                                      std::vector<group_request> const& groups,
                                      work_budget const& budget, bool compare, bool all,
                                      table_files const& files);

/// True if the text is a file of plans of groups.
[[nodiscard]] bool is_groups_text(std::string_view text);

/// Checks plans of groups against a machine and prints the result.
/// Throws: input_error that names the first fault.
void check_groups_file(topology const& machine, std::string const& file);

}  // namespace blink::tools
