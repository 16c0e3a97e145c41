// SPDX-License-Identifier: Apache-2.0
#include "report_inputs.hpp"

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include "../plan_groups.hpp"
#include "report_data.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace blink::tools {
namespace {

/// True for a line that a program of BLINK_RECORD_FILE writes.
bool begins_with_record(std::string_view text) {
  auto const first = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
  return first.is_object() && first.contains("collective") && first.contains("begin_us");
}

bool is_machine_text(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return std::any_of(machine_formats.begin(), machine_formats.end(),
                     [&](machine_format const& format) { return format.accepts(text); });
}

/// Throws: input_error for a second input of a kind.
void take_once(std::optional<std::string>& place, std::string const& name, char const* kind) {
  if (place)
    throw input_error(name + ": is " + kind + " as " + *place + " is, expected one of them");
  place = name;
}

}  // namespace

report_inputs sort_inputs(std::vector<std::string> const& names) {
  report_inputs result;
  for (auto const& name : names) {
    std::error_code fault;
    bool const is_file = std::filesystem::exists(name, fault);
    bool const is_named_file = name.find('/') != std::string::npos || name.ends_with(".jsonl");
    if (name == "-" || (!is_file && !is_named_file)) {
      take_once(result.machine, name, "a machine");
      continue;
    }
    if (!is_file) {
      bool const is_copies =
          name.find(':') != std::string::npos || name.find('+') != std::string::npos;
      if (!is_copies) {
        throw input_error(name +
                          ": cannot be read, expected a machine, a plan file, records of "
                          "calls or a program of another runtime");
      }
      take_once(result.machine, name, "a machine");  // "dump.xml:4"
      continue;
    }
    auto text = detail::file_text(name, "a machine, a plan file, records of calls or a program");
    if (begins_with_record(text)) {
      result.records.push_back(name);
    } else if (is_groups_text(text)) {
      throw input_error(name + ": plans of groups, expected the plan of one collective");
    } else if (text.find("\"blink_plan\"") != std::string::npos && is_machine_text(text)) {
      take_once(result.plan, name, "a plan");
      result.plan_text = std::move(text);
    } else if (is_reported_program(text)) {
      take_once(result.program, name, "a program");
      result.program_text = std::move(text);
    } else if (is_machine_text(text)) {
      take_once(result.machine, name, "a machine");
    } else {
      result.records.push_back(name);  // whose reader names the line
    }
  }
  if (!result.records.empty() && (result.machine || result.plan || result.program)) {
    throw input_error(result.records.front() +
                      ": records beside another input, expected a report "
                      "of either");
  }
  if (result.plan && !result.machine) {
    throw input_error(*result.plan +
                      ": a plan without its machine, expected the machine before it");
  }
  if (result.plan && result.program) {
    throw input_error(*result.program + ": a program beside a plan, expected a report of either");
  }
  return result;
}

}  // namespace blink::tools
