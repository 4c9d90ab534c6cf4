/* Calls of PVM that end the program if they fail. */
#ifndef MUST_H
#define MUST_H

#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>

static int must(int result, const char *call)
{
    if (result < 0) {
        fprintf(stderr, "%s: error %d\n", call, result);
        pvm_exit();
        exit(1);
    }
    return result;
}

#define MUST(call) must(call, #call)

#endif
