#pragma once

/// For loops over a test's own numbers: the thread sanitizer does not follow them, which would take most of its time.
/// What other threads may touch is copied before and after: that it follows.
#define LACONIC_UNWATCHED __attribute__((no_sanitize("thread")))
