// A stand-in for the exact engine that writes a small known recording into the session, so that the
// recorder can be tested apart from it. FAKE_MODE: "silent" leaves the session alone, "fail" says
// that there was no room for the shadow memory, "limits" reaches every limit.
//
// The offsets are those of crates/wire/src/session.rs, version 1.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS (4096ull + 4096 * 512)
#define ROWS (THREADS + 65534ull * 4096)
#define ROW (65536ull * 8)
#define TABLE (65536ull * ROW)

static int fd;

static void put(uint64_t at, const void *bytes, size_t count) {
    if (pwrite(fd, bytes, count, (off_t)at) != (ssize_t)count) _exit(99);
}
static void put32(uint64_t at, uint32_t value) { put(at, &value, sizeof value); }
static void put64(uint64_t at, uint64_t value) { put(at, &value, sizeof value); }

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("THREADTALK_SESSION");
    const char *mode = getenv("FAKE_MODE") ? getenv("FAKE_MODE") : "";
    if (!path || !strcmp(mode, "silent")) return;
    if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0) _exit(98);
    unsetenv("THREADTALK_SESSION");
    unsetenv("LD_PRELOAD");
    put32(24, (uint32_t)getpid());
    if (!strcmp(mode, "fail")) {
        put32(32, 1); // failure: NO_SHADOW
        put32(28, 2); // state: FAILED
        return;
    }
    for (int i = 0; i < 7 && !strcmp(mode, "limits"); i++) put64(56 + 8 * (uint64_t)i, 2);
    put32(40, 3); // threads
    for (int id = 0; id < 3; id++) {
        uint64_t page = THREADS + (uint64_t)id * 4096;
        put64(page + 1024, 100 + (uint64_t)id);       // loads
        put64(page + 1032, 10 + (uint64_t)id);        // stores
        put32(page + 1040, (uint32_t)(getpid() + id)); // tid
        put32(page + 1044, id ? 0 : ~0u);             // parent
        put32(page + 1048, id ? 2 : 1);               // life
        put(page + 1080, "fake", 4);                  // name
    }
    put64(ROWS + 2 * ROW + 1 * 8, 1000);          // raw 1 -> 2
    put64(ROWS + 0 * ROW + 1 * 8, 7);             // raw 1 -> 0
    put64(ROWS + TABLE + 2 * ROW + 1 * 8, 5);     // waw 1 -> 2
    put64(ROWS + 2 * TABLE + 1 * ROW + 2 * 8, 3); // invalidation 1 -> 2
    put32(28, 1);                                 // state: RUNNING
    close(fd);
}
