/*
 * Simple facts: functions that answer what a line of the state file says, with no behaviour of their own.
 */
#ifndef GPU_POOLS_ANSWERS_H
#define GPU_POOLS_ANSWERS_H

#include <stdbool.h>

enum { NOT_ANSWERED = -1, ANSWERED_IN_TEXT = 0 };

/* How many numbers a line "answer" of a function holds, of a GPU or of the machine; or one of the above. */
int answer_values(const char *function, bool of_gpu);

#endif
