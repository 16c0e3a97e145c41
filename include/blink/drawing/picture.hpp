// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/drawing/detail/picture_traffic.hpp>
#include <blink/drawing/detail/picture_writer.hpp>
#include <blink/planning/plan/forest.hpp>
#include <blink/topology/topology.hpp>

#include <string>

namespace blink { inline namespace BLINK_ABI {

struct picture_options {
  bool with_unused_relays = false;  ///< draw relays that no tree visits, with their links
};

/// Draws a plan on its machine as an SVG document that needs no other file.
///
/// Ranks stand on a circle from the top clockwise, those of one server together; relays stand
/// inside. Links are grey and wider with their capacity; the trees that use a link run over it side
/// by side, each in its colour, dashed where it only reduces there, with heads where data goes.
/// Numbers on links are load/capacity, red where a link is overloaded. The legend names each tree's
/// root, weight and height; the title the collective, the planner, the rate and the bound. A plan
/// without trees gives a picture of the machine alone. Readable up to about 16 ranks and 12 trees.
///
/// Time:   O(V^2 + E T + L^2) for T trees and L numbers.
/// Pre:    the machine passes `validate`; the plan's nodes are ids of the machine.
/// Post:   well-formed XML for any labels; equal input gives equal text.
/// Throws: input_error from `validate`, precondition_error for a node that the machine lacks.
[[nodiscard]] inline std::string draw_svg(topology const& machine, plan const& what,
                                          picture_options const& options = {}) {
  validate(machine);
  auto const traffic = detail::traffic_of(machine, what, options.with_unused_relays);
  return detail::picture_writer(machine, what, traffic).write();
}

}}  // namespace blink::BLINK_ABI
