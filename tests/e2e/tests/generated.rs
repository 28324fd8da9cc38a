//! Code that programs make while they run stays in the engine, and runs as it does natively.

use e2e::assert_unchanged;
use std::path::Path;
use std::time::Duration;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk, probe};

/// Runs the command natively and, several at once, recorded; output must be the same and no thread
/// may have left the engine.
#[track_caller]
fn stays(command: &[&str], folder: Option<&Path>, runs: usize) {
    let threadtalk = Threadtalk::built();
    let folder = folder.map_or_else(|| test_support::paths::root().to_owned(), Path::to_owned);
    let alone = Run::new(command[0]).args(&command[1..]).directory(&folder).run_natively();
    assert_eq!(alone.exit_code, Some(0), "fails natively\n{alone}");
    let once = || {
        let scratch = Scratch::new();
        let profile = scratch.join("generated.tt");
        let record = threadtalk.record(&profile, &[], command).directory(&folder);
        let recorded = record.timeout(Duration::from_secs(240)).run();
        assert_unchanged(&alone, &recorded);
        let said = recorded.stderr_text();
        assert!(!said.contains("left the engine"), "{said}");
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..runs).map(|_| scope.spawn(once)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[test]
fn code_that_programs_write_and_rewrite() {
    let flags = ["-O1", "-pthread", "-z", "execstack"];
    let target = Target::new(Compiler::Gcc, "tests/programs/generated/rewrites.c").flags(&flags);
    let program = target.build().unwrap_or_else(|error| panic!("{error}"));
    let program = program.to_str().expect("UTF-8");
    stays(&[program, "2000", "3"], None, 4);
    stays(&[program, "64", "8"], None, 8);
}

/// Property accesses of changing shapes, typed arrays shared by workers, regular expressions, and
/// exceptions: what V8 compiles, recompiles and throws away.
const NODE: &str = "
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
    const shared = new SharedArrayBuffer(64), results = [];
    for (let k = 0; k < 3; k++)
        new Worker(__filename, { workerData: { k, shared } }).on('message', (m) => {
            results[k] = m;
            if (results.filter(Boolean).length === 3)
                console.log(JSON.stringify(results), new Int32Array(shared)[0]);
        });
} else {
    const total = new Int32Array(workerData.shared);
    const mix = (o, i) => (o.x * i + (i % 3 ? o.y : 1)) | 0;
    let sum = 0, thrown = 0, words = 0;
    for (let i = 0; i < 300000; i++) {
        sum = (sum + mix(i % 1000 ? { x: i & 7, y: workerData.k } : { y: 1, z: 2, x: 3.5 }, i)) | 0;
        if (i % 100 === 0) Atomics.add(total, 0, 1);
        if (i % 1000 === 0) try { null.f } catch (e) { thrown += e.message.length; }
    }
    const text = 'ab 12 cd 34 '.repeat(300), find = /(\\w+)\\s+(\\d+)/g;
    for (let m; (m = find.exec(text)); ) words += +m[2];
    parentPort.postMessage([sum, thrown, words, new Function('x', 'return x * 2')(21)]);
}
";

#[test]
fn node_with_workers() {
    let Some(node) = probe::command("node") else {
        probe::skip("node", "not installed");
        return;
    };
    let scratch = Scratch::new();
    let script = scratch.join("workers.js");
    std::fs::write(&script, NODE).unwrap();
    let (node, script) = (node.to_str().expect("UTF-8"), script.to_str().expect("UTF-8"));
    stays(&[node, script], None, 2);
    stays(&[node, "--jitless", "-e", "console.log(1, 'a', [1.5, 2])"], None, 2);
    stays(&[node, "-e", "console.log(eval('1 + 2'), 0.1 + 0.2)"], None, 4);
}

/// Threads, collections, garbage collection that moves objects which compiled code names, null
/// checks and stack ends that the virtual machine learns from faults.
const JAVA: &str = "
import java.util.*;
import java.util.concurrent.*;
public class Mix {
    static int depth(int n) { return depth(n + 1) + 1; }
    public static void main(String[] a) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> all = new ArrayList<>();
        for (int k = 0; k < 6; k++) {
            final int q = k;
            all.add(pool.submit(() -> {
                long s = 0;
                Map<String, Integer> m = new HashMap<>();
                for (int i = 0; i < 4000; i++) m.merge(\"k\" + i % 517, i & 15, Integer::sum);
                for (int v : m.values()) s += v;
                return s + q;
            }));
        }
        for (Future<Long> f : all) System.out.println(f.get());
        pool.shutdown();
        int faults = 0;
        for (int i = 0; i < 3000; i++)
            try { faults += (i % 100 == 0 ? null : \"x\").hashCode() & 1; }
            catch (NullPointerException e) { faults += 1000; }
        System.out.println(faults);
        try { depth(0); } catch (StackOverflowError e) { System.out.println(\"deep\"); }
    }
}
";

#[test]
fn java_with_all_compilers() {
    let (Some(java), Some(javac)) = (probe::command("java"), probe::command("javac")) else {
        probe::skip("java", "not installed");
        return;
    };
    let scratch = Scratch::new();
    let folder = scratch.path();
    std::fs::write(folder.join("Mix.java"), JAVA).unwrap();
    Run::new(javac).args(["Mix.java"]).directory(folder).run().expect_code(0);
    let java = java.to_str().expect("UTF-8");
    for options in
        [&["-Xmn1m"][..], &["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmn1m"], &["-Xint"]]
    {
        // Several at once may find each other's performance data locked, and say so.
        let command = [&[java, "-XX:-UsePerfData"], options, &["-cp", ".", "Mix"]].concat();
        stays(&command, Some(folder), 2);
    }
}

/// Callbacks from C into Python go through closures that libffi makes.
const CTYPES: &str = "
import ctypes, threading
libc = ctypes.CDLL(None)
order = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def sort(n, results):
    values = (ctypes.c_int * n)(*[i * 7919 % 101 for i in range(n)])
    libc.qsort(values, n, 4, order(lambda a, b: a[0] - b[0]))
    results.append(list(values) == sorted(values))
results = []
threads = [threading.Thread(target=sort, args=(50 + k, results)) for k in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(results)
";

#[test]
fn python_callbacks() {
    let program = Path::new("/usr/bin/python3");
    if !program.exists() {
        probe::skip("python3", "not installed");
        return;
    }
    stays(&["/usr/bin/python3", "-c", CTYPES], None, 4);
}

#[test]
fn luajit_traces() {
    let Some(luajit) = probe::command("luajit") else {
        probe::skip("luajit", "not installed");
        return;
    };
    let program = "local t = {} for i = 1, 200000 do t[i % 97] = (t[i % 97] or 0) + i % 7 end \
                   local s = 0 for _, v in pairs(t) do s = s + v end print(s, ('x'):rep(3))";
    stays(&[luajit.to_str().expect("UTF-8"), "-e", program], None, 4);
}
