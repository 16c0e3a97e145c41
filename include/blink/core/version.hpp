// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The version of the headers as one number, for the preprocessor: 10000 * major + 100 * minor +
/// patch.
#define BLINK_VERSION_MAJOR 0
#define BLINK_VERSION_MINOR 1
#define BLINK_VERSION_PATCH 0
#define BLINK_VERSION \
  (BLINK_VERSION_MAJOR * 10000 + BLINK_VERSION_MINOR * 100 + BLINK_VERSION_PATCH)
#define BLINK_VERSION_TEXT "0.1.0"

/// Name of the inline namespace around everything. Two versions of blink can be in one program
/// because their symbols differ.
#define BLINK_ABI v0_1
