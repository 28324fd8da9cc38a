// A stand-in for the exact engine that writes a small known recording into the session, so that the
// recorder can be tested apart from it. FAKE_MODE: "silent" leaves the session alone, "fail" says
// that there was no room for the shadow memory, "limits" reaches every limit.
//
// The offsets are those of crates/wire/src/session.rs and detail.rs, version 24.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEANINGS (4096ull + 4096 * 512)
#define TALLIES (1ull << 14)
#define CALLS (MEANINGS + TALLIES * 4)
#define THREADS (CALLS + ((65534ull * 64 + 4095) & ~4095ull))
#define THREAD (TALLIES * 8 + 4096)
#define SITES (THREADS + 65534ull * THREAD)
#define TRACE (SITES + (1ull << 24) * 8)
#define POOL (TRACE + (1ull << 20) * 32)
#define CHUNK 1024ull

// Fields of the header.
enum { PID = 68, STATE = 72, FAILURE = 76, COUNTED_THREADS = 84, COUNTED_TALLIES = 92 };
enum { COUNTED_SITES = 104, LIMITS = 144 };

enum { CELLS = 1, EVENTS = 2 };
enum { RAW_TRUE = 1, RAW_FALSE = 2, WAW_TRUE = 4, INVALIDATION = 6 };

struct head { uint32_t thread, holds, used, reserved[13]; };
struct cell { uint32_t slice; uint16_t other; uint8_t kind, pad; uint64_t count; };
struct event {
    uint64_t line;
    uint32_t own_site, other_site;
    uint16_t other;
    uint8_t kind, pad[5];
    uint64_t count, weight, own_bytes, other_bytes;
};

static int fd;

static void put(uint64_t at, const void *bytes, size_t count) {
    if (pwrite(fd, bytes, count, (off_t)at) != (ssize_t)count) _exit(99);
}
static void put32(uint64_t at, uint32_t value) { put(at, &value, sizeof value); }
static void put64(uint64_t at, uint64_t value) { put(at, &value, sizeof value); }

// A chunk of one thread with `used` entries of `size` bytes.
static void chunk(int index, uint32_t thread, uint32_t holds, const void *entries, uint32_t used,
                  size_t size) {
    struct head head = {thread, holds, used, {0}};
    put(POOL + (uint64_t)index * CHUNK, &head, sizeof head);
    put(POOL + (uint64_t)index * CHUNK + sizeof head, entries, used * size);
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("THREADTALK_SESSION");
    const char *mode = getenv("FAKE_MODE") ? getenv("FAKE_MODE") : "";
    if (!path || !strcmp(mode, "silent")) return;
    if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0) _exit(98);
    unsetenv("THREADTALK_SESSION");
    unsetenv("LD_PRELOAD");
    put32(PID, (uint32_t)getpid());
    if (!strcmp(mode, "fail")) {
        put32(FAILURE, 1); // NO_SHADOW
        put32(STATE, 2);   // FAILED
        return;
    }
    for (int i = 0; i < 12 && !strcmp(mode, "limits"); i++) put64(LIMITS + 8 * (uint64_t)i, 2);
    put32(COUNTED_THREADS, 3);
    put32(COUNTED_TALLIES, 1);
    put32(MEANINGS, 90u << 16 | 20u << 8 | 5u); // instructions, loads, stores
    for (int id = 0; id < 3; id++) {
        uint64_t page = THREADS + (uint64_t)id * THREAD + TALLIES * 8;
        // Some of what thread 1 has executed is in its tally.
        uint64_t runs = id == 1 ? 2 : 0;
        put64(page - TALLIES * 8, runs);
        put64(page + 1024, 100 + (uint64_t)id - 20 * runs);   // loads
        put64(page + 1032, 10 + (uint64_t)id - 5 * runs);     // stores
        put64(page + 1040, 1000 + (uint64_t)id - 90 * runs);  // instructions
        put32(page + 1048, (uint32_t)(getpid() + id)); // tid
        put32(page + 1052, id ? 0 : ~0u);              // parent
        put32(page + 1056, id ? 2 : 1);                // life
        put(page + 1088, "fake", 4);                   // name
    }
    struct cell of_2[] = {{0, 1, RAW_TRUE, 0, 600}, {0, 1, RAW_FALSE, 0, 400}, {0, 1, WAW_TRUE, 0, 5}};
    struct cell of_0[] = {{0, 1, RAW_TRUE, 0, 7}};
    struct cell of_1[] = {{0, 2, INVALIDATION, 0, 3}};
    struct event event = {0x40c0, 1, 2, 1, RAW_FALSE, {0}, 400, 400 * 16, 0x0f, 0xf0};
    chunk(0, 2, CELLS, of_2, 3, sizeof(struct cell));
    chunk(1, 0, CELLS, of_0, 1, sizeof(struct cell));
    chunk(2, 2, EVENTS, &event, 1, sizeof event);
    chunk(4, 1, CELLS, of_1, 1, sizeof(struct cell));
    put32(COUNTED_SITES, 2);
    put64(SITES + 8, 0x1234);
    put64(SITES + 16, 0x5678);
    put32(STATE, 1); // RUNNING
    close(fd);
}
