/* SPDX-License-Identifier: Apache-2.0
 *
 * Named crash points: places where a test may kill or stop the process, or hold it until told.
 * Compiled out unless BERTH_CRASH_POINTS is defined (release builds never define it).
 *
 * The names stand in crash_points.def, one list; tests walk it. A point is armed by the environment,
 *   BERTH_CRASH_AT=ledger_announced          SIGKILL there
 *   BERTH_CRASH_AT=ledger_announced:stop     SIGSTOP there
 *   BERTH_CRASH_AT=ledger_announced:kill:3   at the third time that it is reached
 * or by berth_crash_arm in a forked child.
 */
#ifndef BERTH_BASE_CRASH_POINT_H
#define BERTH_BASE_CRASH_POINT_H

enum berth_crash_point {
#define CRASH_POINT(name, where) BERTH_CRASH_##name,
#include "base/crash_points.def"
#undef CRASH_POINT
	BERTH_CRASH_COUNT
};

enum berth_crash_action {
	BERTH_CRASH_NONE = 0,
	BERTH_CRASH_KILL,
	BERTH_CRASH_STOP,
};

extern const char *const berth_crash_point_names[BERTH_CRASH_COUNT];

#ifdef BERTH_CRASH_POINTS
void berth_crash_reached(enum berth_crash_point point);
void berth_crash_arm(enum berth_crash_point point, enum berth_crash_action action, unsigned nth);
#define BERTH_CRASH(name) berth_crash_reached(BERTH_CRASH_##name)
#else
#define BERTH_CRASH(name) ((void)0)
#endif

#endif
