// SPDX-License-Identifier: Apache-2.0
#include "perf_measure.hpp"

#include <cstdint>

template blink::tools::perf_result blink::tools::measure_type<std::int8_t>(perf_request const&);
