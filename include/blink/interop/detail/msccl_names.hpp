// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// The runtimes that read MSCCL files. They differ in collectives, in names of collectives, and in
/// limits.
enum class msccl_dialect : std::uint8_t {
  azure,   ///< Azure's executor
  rccl,    ///< the same inside RCCL, with shorter blocks
  legacy,  ///< microsoft/msccl, the older NCCL with an interpreter inside
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

struct msccl_name {
  collective kind;
  std::string_view azure;
  std::string_view legacy;  ///< empty: not known there
};

inline constexpr std::array<msccl_name, 8> msccl_names{{
    {collective::all_reduce, "allreduce", "allreduce"},
    {collective::all_gather, "allgather", "allgather"},
    {collective::reduce_scatter, "reducescatter", "reduce_scatter"},
    {collective::reduce, "reduce", "reduce"},
    {collective::broadcast, "broadcast", "broadcast"},
    {collective::all_to_all, "alltoall", "alltoall"},
    {collective::gather, "gather", ""},
    {collective::scatter, "scatter", ""},
}};

/// Collectives that files may have and whose postcondition is not known.
inline constexpr std::array<std::string_view, 4> msccl_other_names{"alltoallv", "send", "recv",
                                                                   "custom"};

[[nodiscard]] constexpr std::optional<collective> collective_of_msccl(std::string_view name) {
  for (auto const& each : msccl_names) {
    if (name == each.azure || (name == each.legacy && !name.empty())) return each.kind;
  }
  return std::nullopt;
}

}}}  // namespace blink::BLINK_ABI::detail
