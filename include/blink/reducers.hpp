// SPDX-License-Identifier: Apache-2.0
#pragma once

// All reducers. `blink/collectives.hpp` has the arithmetic and bitwise ones.

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/array_reducers.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/reducers/compensated_sum.hpp>
#include <blink/reducers/located.hpp>
#include <blink/reducers/log_sum_exp.hpp>
#include <blink/reducers/logical.hpp>
#include <blink/reducers/moments.hpp>
#include <blink/reducers/nan.hpp>
#include <blink/reducers/operation_of.hpp>
#include <blink/reducers/quantised_blocks.hpp>
#include <blink/reducers/reproducible_sum.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/reducers/stochastic_rounding.hpp>
#include <blink/reducers/top_k.hpp>

#include <blink/core/detail/restore_macros.hpp>  // last
