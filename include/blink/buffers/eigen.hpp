// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/element_buffer.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Opens Eigen's matrices, arrays, maps, references and blocks to collectives. Their elements are
/// taken in the order of storage.
///
/// Throws: precondition_error if the elements are not contiguous, as in a block of some rows.
template <class E>
  requires std::is_base_of_v<Eigen::DenseBase<std::remove_const_t<E>>, std::remove_const_t<E>> &&
           requires(E& dense) { dense.data(); }
struct buffer_access<E> {
  [[nodiscard]] static auto data(E& dense) {
    bool const is_one_piece =
        dense.size() == 0 || (dense.innerStride() == 1 &&
                              (dense.outerSize() == 1 || dense.outerStride() == dense.innerSize()));
    expects(is_one_piece, "Eigen: the rows or columns lie apart, expected contiguous elements");
    return dense.data();
  }
  [[nodiscard]] static std::size_t size(E const& dense) {
    return static_cast<std::size_t>(dense.size());
  }
};
static_assert(element_buffer<Eigen::MatrixXd&> && element_buffer<Eigen::VectorXf const&>);

}}  // namespace blink::BLINK_ABI
