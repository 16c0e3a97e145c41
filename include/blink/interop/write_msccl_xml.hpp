// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/msccl_names.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// The limits of the runtime that reads a dialect.
///
/// The number of blocks is one for each multiprocessor of an A100, because blocks that do not run
/// side by side deadlock. The runtimes' tables are larger.
[[nodiscard]] constexpr step_program_limits limits_of(msccl_dialect dialect) {
  step_program_limits limits;
  if (dialect == msccl_dialect::rccl) limits.steps = 64;
  return limits;
}

namespace detail {

/// The printable ASCII characters of `text` that XML and the runtimes' readers accept, 63 at most.
[[nodiscard]] inline std::string msccl_text(std::string_view text) {
  constexpr std::size_t longest = 63;
  std::string result(text.substr(0, longest));
  for (char& c : result) {
    bool const is_plain =
        c > ' ' && c <= '~' && std::string_view("<>&\"'=/").find(c) == std::string_view::npos;
    if (!is_plain) c = '_';
  }
  return result;
}

/// The dialect's name of the program's collective. Throws: planning_error if there is none.
[[nodiscard]] inline std::string msccl_name_of(step_program const& program, msccl_dialect dialect) {
  if (!program.collective) return msccl_text(program.collective_name);
  for (auto const& each : msccl_names) {
    if (each.kind != *program.collective) continue;
    auto const name = dialect == msccl_dialect::legacy ? each.legacy : each.azure;
    if (!name.empty()) return std::string(name);
  }
  throw planning_error("MSCCL" +
                       std::string(dialect == msccl_dialect::legacy ? "'s older runtime" : "") +
                       " has no name for " + std::string(to_text(*program.collective)));
}

}  // namespace detail

/// Writes a step program as an algorithm file of MSCCL.
///
/// Attributes are one space apart in double quotes, without an XML declaration, and all sizes are
/// written out. The runtimes' own readers need this form. The format has no place for the root of a
/// broadcast or reduce. The root is the rank that receives or sends nothing, and the call must name
/// the same rank.
///
/// Throws: planning_error if the dialect has no name for the collective.
[[nodiscard]] inline std::string write_msccl_xml(step_program const& program,
                                                 msccl_dialect dialect = msccl_dialect::azure) {
  auto const number = [](char const* name, auto value) {
    return " " + std::string(name) + "=\"" + std::to_string(value) + "\"";
  };
  auto const text = [](char const* name, std::string_view value) {
    return " " + std::string(name) + "=\"" + std::string(value) + "\"";
  };
  auto const place = [&](char const* buffer, char const* offset, chunk_place const& at) {
    return text(buffer, letter_of(at.buffer)) + number(offset, at.chunk);
  };
  // The older runtime has no value for "no limit".
  auto const most_bytes = program.most_bytes == 0 && dialect == msccl_dialect::legacy
                              ? std::int64_t{1} << 40
                              : program.most_bytes;
  std::string result =
      "<algo" + text("name", detail::msccl_text(program.name)) + text("proto", program.protocol) +
      number("nchannels", program.channel_count) + number("nchunksperloop", program.chunk_count) +
      number("ngpus", program.ranks.size()) +
      text("coll", detail::msccl_name_of(program, dialect)) +
      number("inplace", program.runs_in_place ? 1 : 0) +
      number("outofplace", program.runs_out_of_place ? 1 : 0) +
      number("minBytes", program.least_bytes) + number("maxBytes", most_bytes) + ">\n";
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const& rank = program.ranks[r];
    result += "  <gpu" + number("id", r) + number("i_chunks", rank.input_chunks) +
              number("o_chunks", rank.output_chunks) + number("s_chunks", rank.scratch_chunks) +
              ">\n";
    for (auto const& [from, to] : rank.copies) {
      result += "    <copy" + number("i_off", from) + number("o_off", to) + "/>\n";
    }
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      auto const& block = rank.blocks[b];
      result += "    <tb" + number("id", b) + number("send", block.send_peer) +
                number("recv", block.receive_peer) + number("chan", block.channel) + ">\n";
      for (std::size_t s = 0; s < block.steps.size(); ++s) {
        auto const& step = block.steps[s];
        result += "      <step" + number("s", s) + text("type", to_text(step.kind)) +
                  place("srcbuf", "srcoff", step.source) +
                  place("dstbuf", "dstoff", step.destination) + number("cnt", step.count) +
                  number("depid", step.depends_block) + number("deps", step.depends_step) +
                  number("hasdep", step.is_awaited ? 1 : 0) + "/>\n";
      }
      result += "    </tb>\n";
    }
    result += "  </gpu>\n";
  }
  return result + "</algo>\n";
}

/// Writes the file.
/// Throws: input_error if the file cannot be written; planning_error as `write_msccl_xml`.
inline void write_msccl_xml_file(step_program const& program, std::string const& file,
                                 msccl_dialect dialect = msccl_dialect::azure) {
  detail::write_text(file, write_msccl_xml(program, dialect));
}

}}  // namespace blink::BLINK_ABI
