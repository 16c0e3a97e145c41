// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/mscclpp_load.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/interop/read_chakra.hpp>
#include <blink/interop/read_goal.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/interop/read_mscclpp_json.hpp>

#include "report_data.hpp"

#include <algorithm>
#include <utility>

namespace blink::tools {
namespace {

constexpr std::size_t most_steps = 5000;  // listed on the page, of all ranks

/// The rows of the table of steps, and the number of steps that did not fit.
struct step_rows {
  report_json rows = report_json::array();
  std::size_t steps = 0;

  void add(std::size_t rank, std::size_t block, std::string what, report_json peer,
           std::string const& from, std::string const& to, report_json count,
           std::string const& after) {
    if (++steps > most_steps) return;
    rows.push_back(
        {rank, block, std::move(what), std::move(peer), from, to, std::move(count), after});
  }
};

std::string place_in_words(chunk_place const& place) {
  return place.chunk < 0 ? ""
                         : std::string(to_text(place.buffer)) + " " + std::to_string(place.chunk);
}

void list_steps(step_program const& program, step_rows& list) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const& blocks = program.ranks[r].blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (auto const& step : blocks[b].steps) {
        report_json peer = nullptr;
        if (receives(step.kind)) peer = blocks[b].receive_peer;
        if (sends(step.kind)) {
          peer = peer.is_null() ? report_json(blocks[b].send_peer)
                                : report_json(std::to_string(blocks[b].receive_peer) + " to " +
                                              std::to_string(blocks[b].send_peer));
        }
        list.add(r, b, std::string(to_text(step.kind)), peer, place_in_words(step.source),
                 place_in_words(step.destination), step.count,
                 step.depends_block < 0 ? ""
                                        : "step " + std::to_string(step.depends_step) +
                                              " of block " + std::to_string(step.depends_block));
      }
    }
  }
}

std::string places_in_words(std::vector<mscclpp_place> const& places) {
  std::string result;
  for (auto const& each : places) {
    result += (result.empty() ? "" : ", ") + std::string(to_text(each.buffer)) + " " +
              std::to_string(each.chunk) +
              (each.rank < 0 ? "" : " of rank " + std::to_string(each.rank));
  }
  return result;
}

void list_steps(mscclpp_program const& program, step_rows& list) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const& here = program.ranks[r];
    for (std::size_t b = 0; b < here.blocks.size(); ++b) {
      for (auto const& segment : here.blocks[b].segments) {
        for (auto const& each : segment.operations) {
          std::string peers;
          for (auto const& channel : each.channels) {
            if (channel.type == mscclpp_channel_type::multimem) {
              peers += (peers.empty() ? "" : ", ") + std::string("switch");
            } else {
              auto const& known = here.peers(channel.type);
              auto const at = static_cast<std::size_t>(channel.id);  // unsound: may not exist
              peers += (peers.empty() ? "" : ", ") +
                       (at < known.size() ? std::to_string(known[at]) : std::string("unknown"));
            }
          }
          list.add(r, b, std::string(to_text(each.kind)), peers, places_in_words(each.sources),
                   places_in_words(each.destinations), each.count,
                   segment.loop_chunks > 0 ? "in a loop" : "");
        }
      }
    }
  }
}

std::string range_in_words(chunk_range const& range) {
  return std::string(to_text(range.buffer)) + " " + std::to_string(range.first) +
         (range.count > 1 ? " and " + std::to_string(range.count - 1) + " more" : "");
}

void list_steps(message_program const& program, step_rows& list) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (auto const& each : program.ranks[r].operations) {
      std::string from, to, after;
      if (each.data) {
        for (auto const& source : each.data->sources) {
          from += (from.empty() ? "" : ", ") + range_in_words(source);
        }
        if (each.data->destination) to = range_in_words(*each.data->destination);
      }
      for (int const other : each.after) {
        after += (after.empty() ? "" : ", ") + std::to_string(other);
      }
      list.add(r, static_cast<std::size_t>(std::max(0, each.processor)),
               std::string(to_text(each.kind)),
               each.peer < 0 ? report_json(nullptr) : report_json(each.peer), from, to, each.bytes,
               after);
    }
  }
}

/// The load of a sound program on a machine, beside the best plan.
template <class Program>
void add_program_load(report_json& report, report_json& rows, topology const& machine,
                      Program const& program, program_report const& checked) {
  auto const load = load_of(machine, program);
  auto const& unit = machine.unit;
  rows.push_back({"rate at most", load.rate.to_double(), unit, load.rate.to_text()});
  if (program.collective) {
    plan_request request;
    request.collective = *program.collective;
    if (checked.root) {
      auto const at = machine.rank_positions()[static_cast<std::size_t>(*checked.root)];
      request.root = machine.nodes[static_cast<std::size_t>(at)].id;
    }
    try {
      auto const best = checked_plan({machine, {}, machine}, request).plan;
      rows.push_back({"bound of the machine", best.bound.to_double(), unit, best.bound.to_text()});
      if (best.bound > rational(0)) {
        rows.push_back({"rate of bound", 100 * ratio(load.rate, best.bound), "%", ""});
      }
    } catch (planning_error const& reason) {
      report["remarks"].push_back(std::string("no bound: ") + reason.what());
    }
  }
  auto links = report_json::array();
  for (auto const& [link, capacity] : load.capacity) {
    auto const found = load.part.find(link);
    auto const part = found == load.part.end() ? rational(0) : found->second;
    links.push_back({link.first, link.second, (part * load.rate).to_double(), capacity.to_double(),
                     100 * ratio(part * load.rate, capacity)});
  }
  add_table(report, "loads", "Load of each link beside its capacity",
            "Messages take routes of fewest links, at the largest rate that the links allow.",
            {{"from"}, {"to"}, {"load", unit, true, "capacity"}, {"capacity", unit}, {"use", "%"}},
            std::move(links));
}

/// kind: the format
template <class Program>
void describe(report_json& report, Program const& program, program_report const& checked,
              char const* kind, std::string const& file, bool has_places,
              std::optional<topology> const& machine) {
  auto const name = program.collective ? std::string(to_text(*program.collective)) : "not named";
  report["title"] = std::string(kind) + " program: " + name;
  auto const verdict =
      checked ? std::string("sound: every contribution arrives exactly once") : *checked.fault;
  bool const only_run = checked && !program.collective;
  report["sentence"] =
      file + ": " + (checked ? (only_run ? "runs to its end" : verdict) : "not sound: " + verdict);
  report["program"] = {{"format", kind},
                       {"is_sound", static_cast<bool>(checked)},
                       {"fault", checked ? report_json(nullptr) : report_json(*checked.fault)},
                       {"notes", checked.notes}};
  for (auto const& note : checked.notes) report["remarks"].push_back(note);
  step_rows list;
  list_steps(program, list);
  auto rows = report_json::array();
  rows.push_back({"format", kind, "", ""});
  rows.push_back({"verdict", checked ? "sound" : "not sound", "", ""});
  rows.push_back({"collective", name, "", ""});
  rows.push_back({"ranks", program.ranks.size(), "", ""});
  if (checked.root) rows.push_back({"root", *checked.root, "", ""});
  rows.push_back({"steps", list.steps, "", ""});
  if (machine && checked && has_places) {
    add_program_load(report, rows, *machine, program, checked);
  }
  add_table(report, "summary", "Summary", "The program in numbers.",
            {{"quantity"}, {"value"}, {"unit"}, {"exact"}}, std::move(rows));
  add_table(report, "steps", "Steps of each rank",
            list.steps > most_steps ? "The first " + std::to_string(most_steps) + " of " +
                                          std::to_string(list.steps) + "."
                                    : "In the order of each block.",
            {{"rank"},
             {"block"},
             {"step"},
             {"peer"},
             {"source"},
             {"destination"},
             {"chunks or bytes"},
             {"after"}},
            std::move(list.rows));
}

bool is_msccl(std::string_view text) {
  auto const algorithm = text.find("<algo");
  return algorithm != std::string_view::npos && text.find("<system") == std::string_view::npos;
}

}  // namespace

bool is_reported_program(std::string_view text) {
  return is_msccl(text) || is_mscclpp_plan(text) || is_goal(text) || is_chakra(text);
}

void describe_program(report_json& report, std::string const& text, std::string const& file,
                      std::optional<topology> const& machine) {
  if (is_mscclpp_plan(text)) {
    auto const program = read_mscclpp_json(text, file);
    return describe(report, program, check_mscclpp_program(program), "MSCCL++", file, true,
                    machine);
  }
  if (is_msccl(text)) {
    auto const program = read_msccl_xml(text, file);
    return describe(report, program, check_program(program), "MSCCL", file, true, machine);
  }
  bool const is_schedule = is_goal(text);
  auto const program = is_schedule ? read_goal(text, file) : read_chakra_files(file);
  describe(report, program, check_message_program(program), is_schedule ? "GOAL" : "Chakra", file,
           program.has_data, machine);
}

}  // namespace blink::tools
