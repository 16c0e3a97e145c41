// SPDX-License-Identifier: Apache-2.0
#include "perf_measure.hpp"

template blink::tools::perf_result blink::tools::measure_type<float>(perf_request const&);
