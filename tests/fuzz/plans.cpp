// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a plan or another file of the planning side (libFuzzer). The first byte, or
// BLINK_FUZZ_ONLY=N, chooses: a plan, a plan of groups, hints, tuning tables, a program for MSCCL,
// MSCCL++, GOAL or Chakra, graphs of NCCL.

#include <blink/core/error.hpp>
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/read_chakra.hpp>
#include <blink/interop/read_goal.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/interop/read_mscclpp_json.hpp>
#include <blink/interop/write_goal.hpp>
#include <blink/interop/write_mscclpp_json.hpp>
#include <blink/planning/constraints/read_hints.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/topology/readers/read_nccl_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
  static char const* const only = std::getenv("BLINK_FUZZ_ONLY");
  try {
    switch (only != nullptr ? std::strtol(only, nullptr, 10) : data[0] % 9) {
      case 0: {
        auto const plan = blink::read_plan(text, "input");
        auto const written = blink::write_plan(plan);
        if (blink::write_plan(blink::read_plan(written, "copy")) != written) std::abort();
        break;
      }
      case 1:
        (void)blink::read_groups(text, "input");
        break;
      case 2:
        (void)blink::read_hints(text, "input");
        break;
      case 3:
        (void)blink::read_tuning(text, "input");
        break;
      case 4:
        (void)blink::check_program(blink::read_msccl_xml(text, "input"));
        break;
      case 5: {
        auto const program = blink::read_mscclpp_json(text, "input");
        (void)blink::check_mscclpp_program(program);
        (void)blink::write_mscclpp_json(program);
        break;
      }
      case 6: {
        auto const program = blink::read_goal(text, "input");
        (void)blink::check_message_program(program);
        auto const written = blink::write_goal(program);
        if (blink::write_goal(blink::read_goal(written, "copy")) != written) std::abort();
        break;
      }
      case 7: {  // two ranks with the same file
        std::string const bytes(text);
        (void)blink::check_message_program(
            blink::read_chakra({{"input.0.et", bytes}, {"input.1.et", bytes}}));
        break;
      }
      default:
        (void)blink::read_nccl_graphs(text, "input");
    }
  } catch (blink::error const&) {  // the right answer to most bytes
  }
  return 0;
}
