"""Three nodes in networks of their own, a server that they share, and a supervisor that starts what ends, as an init does."""
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

HUB = "10.78.0.1"
DRIVERS = pathlib.Path(__file__).parent / "drivers"
RESTART_AFTER = 1


def sh(script):
    subprocess.run(["sh", "-euc", script], check=True, stdin=subprocess.DEVNULL)


class Postgres:
    def __init__(self, work):
        self.data, self.log = work / "postgres", work / "postgres.log"
        programs = next(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), None)
        self.bin = programs or pathlib.Path(shutil.which("initdb")).parent
        self.url = f"postgresql://league@{HUB}/league"

    def as_postgres(self, *words):
        # Its output goes to files alone: a server that inherits a pipe would keep it open.
        with self.log.open("a") as log:
            subprocess.run(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *map(str, words)],
                           check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def make(self):
        self.data.mkdir()
        shutil.chown(self.data, "postgres", "postgres")
        self.log.touch()
        self.as_postgres(self.bin / "initdb", "-D", self.data, "-U", "league", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
        with (self.data / "pg_hba.conf").open("a") as hba:
            hba.write("host all all 10.78.0.0/16 trust\n")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"listen_addresses = '{HUB}'\nunix_socket_directories = ''\nmax_connections = 300\nfsync = off\n")
        self.up()
        self.as_postgres(self.bin / "createdb", "-h", HUB, "-U", "league", "league")

    def up(self):
        self.as_postgres(self.bin / "pg_ctl", "start", "-w", "-D", self.data, "-l", self.data / "server.log")

    def down(self):
        self.as_postgres(self.bin / "pg_ctl", "stop", "-m", "immediate", "-D", self.data)


class Redis:
    """With an append-only file, so that a restart loses nothing that it had acknowledged a second ago."""

    def __init__(self, work, to):
        self.dir, self.root, self.url, self.child = work, to / "debian/usr", f"redis://{HUB}:6379/0", None

    def make(self):
        self.up()

    def up(self):
        self.child = subprocess.Popen(
            [self.root / "bin/redis-server", "--bind", HUB, "--protected-mode", "no", "--dir", self.dir, "--appendonly", "yes",
             "--save", ""],
            env={**os.environ, "LD_LIBRARY_PATH": f"{self.root}/lib/x86_64-linux-gnu"}, stdout=subprocess.DEVNULL)

    def down(self):
        self.child.kill()
        self.child.wait()


class Process:
    """One program of a node, started again when it ends by itself."""

    def __init__(self, farm, node, words):
        self.farm, self.node, self.words = farm, node, words
        self.child, self.wanted, self.ended_at = None, False, None

    def spawn(self):
        with (self.farm.work / f"{self.node}.log").open("a") as log:
            self.child = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.node}", "--", *self.words], start_new_session=True,
                                          env=self.farm.environment(self.node), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ended_at = None

    def look(self, now):
        if not self.wanted:
            return
        if self.child.poll() is not None and self.ended_at is None:
            self.ended_at = now
            self.farm.ended += 1
        if self.ended_at is not None and now > self.ended_at + RESTART_AFTER:
            self.spawn()


class Field:
    def __init__(self, name, system, to):
        self.name, self.system, self.to = name, system, to.resolve()
        # A path of its own: an agent of Farmhand names its cgroup by the path of its state, and all share the kernel's cgroups.
        self.work = self.to / "work" / f"{name}-{self.now():x}"
        self.ended, self.latest_wakeup = 0, 0.0
        self.started, self.read_to = [], 0
        self.nodes = [f"n{n}" for n in range(1, system["nodes"] + 1)]
        self.offset = time.time_ns() - self.now()
        self.lock = threading.Lock()
        # Of this mount namespace alone: they go with it.
        sh(f"mount -t tmpfs -o mode=755 tmpfs {self.work.parent}; mkdir {self.work}; mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p /run/netns")
        kind = system.get("server", "postgres")
        self.server = {"postgres": lambda: Postgres(self.work), "redis": lambda: Redis(self.work, self.to), None: lambda: None}[kind]()
        program, *words = system["driver"]
        self.driver = [str(DRIVERS / program), *words]
        if program.endswith(".py"):
            self.driver.insert(0, str(self.to / "venv/bin/python3"))
        elif program.endswith(".mjs"):
            # Beside its packages, where Node.js looks for them.
            self.driver = ["node", str(self.to / "peers" / program), *words]
        self.processes = [Process(self, node, [*self.driver, "node"]) for node in self.nodes]
        if system.get("beat"):
            self.processes.append(Process(self, "n1", [*self.driver, "beat"]))

    def now(self):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall(self):
        return (self.now() + self.offset) / 1e9

    def environment(self, node):
        place = self.work / node
        place.mkdir(exist_ok=True)
        library = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        witness = f"/usr/bin/env -u LD_PRELOAD {shutil.which('python3')} -S -E {DRIVERS.parent}/witness.py {self.work}/witness"
        return {**{k: v for k, v in os.environ.items() if k in ("PATH", "FARMHAND_BIN")}, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "HOME": str(place),
                "LEAGUE_NODE": node, "LEAGUE_DIR": str(place), "LEAGUE_COMMAND": witness, "LEAGUE_SERVER": self.server.url if self.server else "",
                "LEAGUE_TOOLS": str(self.to), "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self.work / f"{node}.clock"),
                "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}

    def start(self):
        sh(f"ip link set lo up; ip link add br0 type bridge; ip addr add {HUB}/16 dev br0; ip link set br0 up")
        for number, node in enumerate(self.nodes, 1):
            self.set_clock(node, 0)
            sh(f"""ip netns add {node}; ip link add v{number} type veth peer name eth0 netns {node}; ip link set v{number} master br0 up
                ip -n {node} link set lo up; ip -n {node} addr add 10.78.0.{number + 1}/16 dev eth0; ip -n {node} link set eth0 up
                ip netns exec {node} nft 'add table inet f; add chain inet f i {{ type filter hook input priority 0; }};
                    add chain inet f o {{ type filter hook output priority 0; }}'""")
        if self.server:
            self.server.make()
        environment = {k: v for k, v in self.environment("n1").items() if k != "LD_PRELOAD"}
        with (self.work / "setup.log").open("w") as log:
            done = subprocess.run([*self.driver, "setup"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise SystemExit(f"{self.name} cannot be set up:\n{self.logs()}")
        self.start_anew()
        threading.Thread(target=self.supervise, daemon=True).start()

    def supervise(self):
        due = time.monotonic()
        while True:
            due = max(due + 0.2, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            self.latest_wakeup = max(self.latest_wakeup, round(time.monotonic() - due, 2))
            with self.lock:
                for process in self.processes:
                    process.look(time.monotonic())

    def start_anew(self):
        for node in self.nodes:
            self.kill(node)
            self.boot(node)

    def kill(self, node):
        """Every process of the node at once, its commands too, as when it loses its power."""
        with self.lock:
            for process in self.processes:
                process.wanted &= process.node != node
        while self.signal(node, signal.SIGKILL):
            time.sleep(0.02)

    def boot(self, node):
        with self.lock:
            for process in self.processes:
                if process.node == node:
                    process.spawn()
                    process.wanted = True

    def signal(self, node, number):
        network, found = os.stat(f"/run/netns/{node}").st_ino, 0
        for entry in pathlib.Path("/proc").iterdir():
            try:
                # A zombie has no namespace any more.
                if entry.name.isdigit() and (entry / "ns/net").stat().st_ino == network:
                    os.kill(int(entry.name), number)
                    found += 1
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass
        return found

    def set_clock(self, node, seconds):
        new = self.work / f"{node}.clock.new"
        new.write_text(f"{seconds:+}\n")
        new.rename(self.work / f"{node}.clock")

    def begin(self, kind, node):
        if kind == "kill":
            self.kill(node)
        elif kind == "stop":
            # Twice, for what was forked meanwhile.
            self.signal(node, signal.SIGSTOP)
            self.signal(node, signal.SIGSTOP)
        elif kind == "cut":
            sh(f"ip netns exec {node} nft 'add rule inet f i iifname eth0 drop; add rule inet f o oifname eth0 drop'")
        elif kind == "clock":
            self.set_clock(node, 90)
        else:
            self.server.down()

    def heal(self, kind, node):
        if kind == "kill":
            self.boot(node)
        elif kind == "stop":
            self.signal(node, signal.SIGCONT)
        elif kind == "cut":
            sh(f"ip netns exec {node} nft 'flush chain inet f i; flush chain inet f o'")
        elif kind == "clock":
            self.set_clock(node, 0)
        else:
            self.server.up()

    def logs(self, last=1500):
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-last:]}" for p in sorted(self.work.glob("*.log")))

    def lines(self):
        return (self.work / "witness").read_text(errors="replace").splitlines()

    def starts(self):
        """All so far; what was read before is not read again."""
        path = self.work / "witness"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self.read_to)
                text = file.read()
            whole = text[: text.rfind(b".\n") + 2] if b".\n" in text else b""
            self.read_to += len(whole)
            words = (line.split() for line in whole.decode(errors="replace").splitlines() if " start " in line)
            self.started += [{"at": int(w[0]), "node": w[3]} for w in words if len(w) == 7]
        return self.started

    def await_starts(self, count, seconds):
        if self.await_starts_since(0, count, seconds) is None:
            raise SystemExit(f"{self.name} runs nothing:\n{self.logs()}")

    def await_starts_since(self, since, count, seconds):
        """The time of this start, counted from then, or None after so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # Those that begin together are one.
            distinct = sorted({s["at"] // 2_500_000_000 for s in self.starts() if s["at"] > since})
            if len(distinct) >= count or (self.system["every"] == 60 and distinct):
                return distinct[0]
            time.sleep(0.1)
        return None
