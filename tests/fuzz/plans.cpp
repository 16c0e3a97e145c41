// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a plan, a plan of groups, hints, tuning tables, an MSCCL algorithm or an
// execution plan of MSCCL++ (libFuzzer). The first byte chooses which.

#include <blink/core/error.hpp>
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/interop/read_mscclpp_json.hpp>
#include <blink/interop/write_mscclpp_json.hpp>
#include <blink/planning/constraints/read_hints.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/schedule/tuning_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
  try {
    switch (data[0] % 6) {
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
      default: {
        auto const program = blink::read_mscclpp_json(text, "input");
        (void)blink::check_mscclpp_program(program);
        (void)blink::write_mscclpp_json(program);
      }
    }
  } catch (blink::error const&) {  // the right answer to most bytes
  }
  return 0;
}
