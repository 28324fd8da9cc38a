// What exceptions.cpp and its library thrower.cpp share.
#ifndef THROWER_H
#define THROWER_H

struct Thrown {
    explicit Thrown(int value) : value(value) {}
    int value;
};

struct Guard {
    ~Guard();
};

extern thread_local int destroyed;

// Throws Thrown from `depth` frames down.
int thrower(int depth);

// Calls back; what the callback throws passes through.
int call_back(int (*callback)(int), int value);

#endif
