// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a description of a machine (libFuzzer). The first byte chooses the options.
// BLINK_FUZZ_ONLY=N: all inputs go to format N of `machine_formats`, whatever they begin with. A
// machine that is read is validated, written and read back.

#include <blink/core/error.hpp>
#include <blink/drawing/draw_text.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/write_dot.hpp>
#include <blink/topology/write_json.hpp>
#include <blink/topology/write_nccl_xml.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void expect(bool is_right) {
  if (!is_right) std::abort();
}

void write_and_read_back(blink::topology const& machine) {
  blink::validate(machine);
  auto const text = blink::write_json(machine);
  auto const copy = blink::read_json(text, "copy.json");
  expect(copy.nodes.size() == machine.nodes.size() && copy.links.size() == machine.links.size());
  expect(blink::write_json(copy) == text);
  constexpr std::size_t most_links = 2'000;  // of more, pictures take long
  if (machine.links.size() > most_links) return;
  (void)blink::draw_text(machine);
  (void)blink::write_dot(machine);
  try {
    (void)blink::write_nccl_xml(machine);
  } catch (blink::input_error const&) {  // another machine than NCCL describes
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  blink::reading_options options;
  options.is_strict = (data[0] & 1) != 0;
  options.as_nccl = (data[0] & 2) != 0;
  if ((data[0] & 4) != 0) options.rates[blink::link_kind::socket] = blink::rational(25, 2);
  std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
  static char const* const only = std::getenv("BLINK_FUZZ_ONLY");
  try {
    write_and_read_back(
        only != nullptr ? blink::machine_formats.at(std::strtoul(only, nullptr, 10))
                              .read(text, "input", options)
                        : blink::read_machine_text(text, "input", blink::machine_formats, options));
  } catch (blink::input_error const&) {  // the right answer to most bytes
  }
  return 0;
}
