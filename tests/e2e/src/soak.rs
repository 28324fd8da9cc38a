//! Commands of the distribution for the soak: threads, signals, forks, pipes, compilers,
//! interpreters. Each prints the same on every native run.

use test_support::{Outcome, Run, Scratch, probe};

/// A command with its standard input.
#[derive(Clone, Debug)]
pub struct Soaked {
    pub words: Vec<String>,
    pub stdin: Vec<u8>,
}

/// Programs that every command below needs besides the first of its words.
const SCRIPTS: &[(&str, &str)] = &[
    ("seq", "seq 1 30000 | sort -R --random-source=/dev/zero | sort -n --parallel=2 | md5sum"),
    ("xargs", "seq 1 24 | xargs -P 4 -n 3 sh -c 'echo \"$@\" | rev' _ | sort"),
    (
        "tar",
        "tar -c --sort=name --mtime=@0 -C /usr/share/doc/bash . 2>/dev/null | xz -T2 -0 | xz -d | tar -t | sort | head -50",
    ),
    (
        "awk",
        "seq 1 20000 | awk '{ s[$1 % 97] += $1 } END { for (k = 0; k < 97; k++) print k, s[k] }'",
    ),
    // A signal for the shell itself, and one for a child that it waits for.
    (
        "bash",
        "trap 'echo got it' USR1; for i in 1 2 3; do kill -USR1 $$; done; sleep 30 & kill $!; wait $!; echo $?",
    ),
    (
        "bash",
        "f() { for i in $(seq 1 $1); do (exit $((i % 5))); echo -n \"$? \"; done; }; f 25; echo; coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} y; echo $y; kill $COPROC_PID; wait $COPROC_PID; exit 3",
    ),
    (
        "timeout",
        "timeout -s INT 0.2 sleep 20; echo $?; timeout 0.2 sh -c 'trap \"\" TERM; sleep 0.5'; echo $?",
    ),
    (
        "find",
        "find /usr/include -name 's*.h' -print0 | sort -z | xargs -0 -P 2 -n 40 wc -c | sort | tail -20",
    ),
    (
        "grep",
        "cat /usr/include/*.h | grep -c define; grep -rl --include='s*.h' struct /usr/include | LC_ALL=C sort | md5sum",
    ),
    (
        "perl",
        "perl -e '$SIG{CHLD} = sub { $n++ }; for (1..8) { if (!fork) { exit $_ } } 1 while wait != -1; print join(q( ), map { $_ ** 2 } 1..20), qq(\\n)'",
    ),
    ("gcc", "printf 'int main(void){return 42;}' | gcc -x c -O2 -S -o - - | md5sum"),
    (
        "g++",
        "printf '#include <map>\\n#include <string>\\nstd::map<std::string,int> m; int f(){return m[\"a\"];}' | g++ -x c++ -O2 -S -o - - | md5sum",
    ),
    (
        "make",
        "cd $(mktemp -d) && printf 'all: a b c d e f\\n%%:\\n\\t@seq 1 2000 | md5sum > $@\\n' > Makefile && make -s -j4 -B all && cat ? | md5sum && rm -r \"$PWD\"",
    ),
    ("bc", "echo 'scale=400; a(1)*4' | bc -l | md5sum"),
    (
        "luajit",
        "luajit -e 'local ffi = require(\"ffi\") ffi.cdef[[int abs(int);]] local t, s = {}, 0 for i = 1, 4e5 do t[i % 99 + 1] = i * 1.5 s = s + ffi.C.abs(-i % 7) end print(s, #t) local c = coroutine.wrap(function() for i = 1, 9 do coroutine.yield(i) end end) print(c() + c(), pcall(error, 5))'",
    ),
    // A breakpoint in a child that is recorded, too.
    (
        "gdb",
        "cd $(mktemp -d) && printf 'int f(int x) { return x + 1; }\\nint main(void) { return f(4); }\\n' > a.c && gcc -g a.c -o a && gdb -q -nx -batch -ex 'break f' -ex run -ex bt -ex c ./a 2>&1 | grep -o -e '^#.*' -e 'exited.*'",
    ),
    ("dd", "dd if=/dev/zero bs=64k count=200 2>/dev/null | tee >(cat >/dev/null) | sha256sum"),
];

/// Python programs: threads, processes, signals.
const PYTHON: &[&str] = &[
    "import threading\nl=[]\nts=[threading.Thread(target=lambda k=k: l.append(sum(i*k for i in range(20000)))) for k in range(16)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(l))",
    "import multiprocessing as m\ndef f(x): return sum(i*i for i in range(x))\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(3) as p: print(p.map(f, range(2000, 2040)))",
    "import signal, threading\nn=[0]\ndef h(*a): n[0]+=1\nsignal.signal(signal.SIGALRM, h)\nsignal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)\ns=0\nwhile n[0]<1200: s+=1\nsignal.setitimer(signal.ITIMER_REAL, 0)\nprint(n[0] >= 1200)",
    "import subprocess, concurrent.futures as c\nwith c.ThreadPoolExecutor(4) as e: print(list(e.map(lambda k: subprocess.run(['expr', str(k), '*', '7'], capture_output=True).stdout, range(1, 13))))",
    "import ctypes, os, sys\npid=os.fork()\nif pid==0: os.kill(os.getpid(), 11)\nprint(os.waitpid(pid,0)[1] & 127)\nsys.exit(9)",
];

/// Filters that work on a sample, with threads of their own.
const FILTERS: &[&[&str]] = &[
    &["pigz", "-n", "-c", "-p", "4"],
    &["pbzip2", "-c", "-p3", "-b1"],
    &["xz", "-0", "-T3", "--block-size=131072", "-c"],
    &["zstd", "-q", "-T3", "-B1MiB", "-c"],
    &["sort", "--parallel=4", "-S64M"],
    &["openssl", "dgst", "-sha3-256"],
];

/// All commands whose programs are installed; those that are not are named.
pub fn commands() -> Vec<Soaked> {
    let mut all = Vec::new();
    let mut take = |program: &str, words: &[&str], stdin: Vec<u8>| {
        if probe::command(program).is_none() {
            return probe::skip(program, "not installed");
        }
        let words = words.iter().map(ToString::to_string).collect();
        all.push(Soaked { words, stdin });
    };
    for filter in FILTERS {
        take(filter[0], filter, sample(1 << 20));
    }
    for (program, script) in SCRIPTS {
        take(program, &["bash", "-c", script], Vec::new());
    }
    for script in PYTHON {
        // Where a version manager has put a script of its own in front, the real thing is behind
        // it.
        take("/usr/bin/python3", &["/usr/bin/python3", "-c", script], Vec::new());
    }
    all
}

/// Lines that compress neither well nor badly.
fn sample(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        text.extend_from_slice(format!("{} line {}\n", state >> 52, state >> 40 & 0xff).as_bytes());
    }
    text
}

impl Soaked {
    /// Runs it natively.
    pub fn native(&self, scratch: &Scratch) -> Outcome {
        self.settle(Run::new(&self.words[0]).args(&self.words[1..]), scratch).run_natively()
    }

    /// What native and recorded runs have in common.
    pub fn settle(&self, run: Run, scratch: &Scratch) -> Run {
        let run = run.stdin(self.stdin.clone()).directory(scratch.path()).env("LC_ALL", "C");
        run.env("TMPDIR", scratch.path()).env("HOME", scratch.path())
    }
}
