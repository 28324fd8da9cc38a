// A library whose functions throw; see exceptions.cpp.
#include "thrower.h"

Guard::~Guard() { destroyed += 1; }
thread_local int destroyed = 0;

int thrower(int depth) {
    Guard guard;
    if (depth == 0) throw Thrown(17);
    return thrower(depth - 1) + 1;
}

int call_back(int (*callback)(int), int value) {
    Guard guard;
    return callback(value);
}
