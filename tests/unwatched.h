#pragma once

/// For loops over a test's own numbers: the thread sanitizer does not follow them, which would take most of its time.
/// Copy what other threads may touch before the loop and after it: it follows copies.
#define LACONIC_UNWATCHED __attribute__((no_sanitize("thread")))
