// What `unload` takes away: a loop that only a fault ends, and a function that waits in another.
void turn(volatile long *turns, void (*wait)(void)) {
    (void)wait;
    for (;;) ++*turns;
}

void call(volatile long *turns, void (*wait)(void)) {
    wait();
    for (;;) ++*turns;
}
