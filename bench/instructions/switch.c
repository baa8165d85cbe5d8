/* The switch of the measuring tool: only from inside a program can it be told where the measured part begins. Outside of
   valgrind every one of these does nothing. */

#include <valgrind/callgrind.h>

int is_watched(void) { return RUNNING_ON_VALGRIND; }

void begin(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

/* What was counted since is written under this name. */
void end(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
