// PARSEC canneal: elements of a circuit change places if that makes their wires shorter, or
// sometimes if not. Places are pointers that change atomically; no thread waits for another. Usage:
// canneal THREADS SCALE
#include "team.h"
#include <atomic>
#include <vector>

enum { ELEMENTS = 1 << 16, WIRES = 5, WIDTH = 256, ROUNDS = 20, SWAPS = 150000 };

struct Place {
    int x, y;
};

struct Element {
    std::atomic<Place *> place;
    std::vector<Element *> wires;
};

static std::vector<Element> elements(ELEMENTS);
static std::vector<Place> places(ELEMENTS);
static Place *const BUSY = nullptr; // while its element's place is changed

static Place *place_of(const Element &e) {
    for (;;)
        if (Place *place = e.place.load(std::memory_order_acquire)) return place;
}

static double length(const Element &e, const Place *here) {
    double sum = 0;
    for (const Element *other : e.wires) {
        const Place *there = place_of(*other);
        sum += abs(here->x - there->x) + abs(here->y - there->y);
    }
    return sum;
}

// The one with the lower address is taken first, so that two threads do not wait for each other.
static void swap_places(Element &a, Element &b) {
    Element &first = &a < &b ? a : b, &second = &a < &b ? b : a;
    Place *one = place_of(first);
    while (!first.place.compare_exchange_weak(one, BUSY)) one = place_of(first);
    Place *other = place_of(second);
    while (!second.place.compare_exchange_weak(other, one)) other = place_of(second);
    first.place.store(other, std::memory_order_release);
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(p + 1);
    double heat = 2000;
    for (int round = 0; round < ROUNDS * scale; round++) {
        heat /= 1.5;
        Element *a = &elements[next_random(&state) % ELEMENTS];
        for (int k = share(SWAPS, p); k < share(SWAPS, p + 1); k++) {
            Element *b = &elements[next_random(&state) % ELEMENTS];
            if (a == b) continue;
            Place *here = place_of(*a), *there = place_of(*b);
            double more = length(*a, there) + length(*b, here) - length(*a, here) - length(*b, there);
            if (more < 0 || next_unit(&state) < exp(-more / heat)) swap_places(*a, *b);
            a = b;
        }
        meet();
    }
    return nullptr;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    uint64_t state = 161803;
    for (int n = 0; n < ELEMENTS; n++) {
        places[n] = {n % WIDTH, n / WIDTH};
        elements[n].place = &places[n];
        for (int k = 0; k < WIRES; k++)
            elements[n].wires.push_back(&elements[next_random(&state) % ELEMENTS]);
    }
    run_team(work);
    // How good the result is depends on who came first; each place must have one element.
    std::vector<int> count(ELEMENTS);
    int wrong = 0;
    for (Element &e : elements) count[place_of(e) - &places[0]]++;
    for (int n : count) wrong += n != 1;
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
