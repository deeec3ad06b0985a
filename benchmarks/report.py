#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole comparison: measures regroup against its peers, and makes figures and a page of it.

`./dev bench` runs it. Raw results go, line by line, to results.jsonl in the output folder; an interrupted run goes on where it
stopped; --draw-only makes figures and page anew from that file. What is measured, and by which rules, `regroup bench` knows:
the contenders of one command take turns, round by round, on the same buffers.
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = "results.jsonl"
COLLECTIVES = ("all_reduce", "all_to_all", "reduce_scatter", "all_gather", "broadcast", "barrier")
SIZED = COLLECTIVES[:-1]
RANKS = (2, 4)
QUICK_SIZES = ("8", "64K", "4M")
PEERS = {"shm": "openmpi,mpich,gloo,torch,bare", "tcp": "gloo"}
UNIT_PATIENCE = 900  # seconds

NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "torch": "torch (Gloo)", "bare": "by hand, unchecked", "floor": "floor"}
# Okabe & Ito's colours, which the colour-blind can tell apart.
STYLES = {
    "regroup, mapped": {"color": "#D55E00", "marker": "o", "linewidth": 2.2},
    "regroup": {"color": "#E69F00", "marker": "s", "linewidth": 2.2},
    "openmpi": {"color": "#0072B2", "marker": "^"},
    "mpich": {"color": "#56B4E9", "marker": "v"},
    "gloo": {"color": "#009E73", "marker": "D"},
    "torch": {"color": "#CC79A7", "marker": "P"},
    "bare": {"color": "#000000", "marker": "x", "linestyle": "--"},
    "floor": {"color": "#888888", "linestyle": ":", "marker": None},
}  # fmt: skip

Unit = collections.namedtuple("Unit", "collective ranks transport memory in_place size")


# --- measuring ---------------------------------------------------------------------------------------------------------


def units(options):
    """What is measured, one command each. `size` is "sweep", or one size."""
    for collective in options.collectives:
        for ranks in options.ranks:
            variants = [("shm", "mapped", False), ("shm", "ordinary", False), ("tcp", "ordinary", False)]
            if collective == "all_reduce":
                variants.insert(2, ("shm", "mapped", True))
            if collective == "barrier":
                variants = [("shm", "ordinary", False), ("tcp", "ordinary", False)]
            for transport, memory, in_place in variants:
                if transport not in options.transports:
                    continue
                sizes = ("0",) if collective == "barrier" else QUICK_SIZES if options.quick else ("sweep",)
                for size in sizes:
                    yield Unit(collective, ranks, transport, memory, in_place, size)


def command(options, unit):
    words = [str(options.tool), "bench", unit.collective, "-n", str(unit.ranks), "--transport", unit.transport, "--memory",
             unit.memory, "--against", PEERS[unit.transport], "--json"]  # fmt: skip
    if unit.size == "sweep":
        words.append("--sweep")
    elif unit.collective != "barrier":
        words += ["--bytes", unit.size]
    if unit.in_place:
        words.append("--in-place")
    if options.iterations:
        words += ["--iterations", str(options.iterations)]
    return words


def discreet(text):
    """Nothing of what is published names this host or its folders."""
    for secret in {socket.gethostname(), str(ROOT), os.path.expanduser("~")}:
        if len(secret) > 3:
            text = text.replace(secret, "…")
    return text


def measure(options, results):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REGROUP_")}
    known = {tuple(line["unit"]) for line in read_lines(results) if "done" in line}
    todo = [unit for unit in units(options) if unit not in known]
    note(f"{len(todo)} commands to run, {len(known)} done before")
    with open(results, "a", encoding="utf-8") as file:
        if results.stat().st_size == 0:
            file.write(json.dumps({"machine": machine(options)}, ensure_ascii=False) + "\n")
        for number, unit in enumerate(todo, 1):
            note(f"{number}/{len(todo)}: {describe(unit)}")
            try:
                result = subprocess.run(command(options, unit), capture_output=True, text=True, env=environment,
                                        timeout=UNIT_PATIENCE)  # fmt: skip
                problem = result.stderr.strip().splitlines()[-1:] if result.returncode != 0 else []
            except subprocess.TimeoutExpired:
                problem = [f"no end after {UNIT_PATIENCE} s"]
            if problem or result.returncode != 0:
                note(f"  failed: {' '.join(problem)}")
                continue  # not done: the next run tries again
            for line in result.stdout.splitlines():
                file.write(discreet(json.dumps({"unit": unit, **json.loads(line)}, ensure_ascii=False)) + "\n")
            file.write(json.dumps({"unit": unit, "done": True}) + "\n")
            file.flush()
    return all(unit in {tuple(line["unit"]) for line in read_lines(results) if "done" in line} for unit in units(options))


def describe(unit):
    size = "" if unit.collective == "barrier" else " 8 B to 64 MB" if unit.size == "sweep" else f" {unit.size}"
    place = ", in place" if unit.in_place else ""
    return f"{unit.collective}{size} among {unit.ranks}, {unit.transport}, {unit.memory} memory{place}"


def read_text(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def caches():
    found = {}
    for folder in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if read_text(folder / "type") != "Instruction":
            found[f"L{read_text(folder / 'level')}"] = read_text(folder / "size")
    return ", ".join(f"{level} {size}" for level, size in found.items())


def machine(options):
    model = re.search(r"model name\s*:\s*(.*)", read_text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", read_text("/proc/meminfo"))
    version = subprocess.run([str(options.tool), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "memory": f"{int(memory.group(1)) / (1 << 20):.0f} GiB" if memory else "",
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "regroup": version.split()[-1],
    }


# --- reading -----------------------------------------------------------------------------------------------------------


def read_lines(results):
    """All lines that are whole: an interrupted run may leave half of one."""
    lines = []
    for text in read_text(results).splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


class Results:
    def __init__(self, lines):
        self.machine = next((line["machine"] for line in lines if "machine" in line), {})
        self.versions = {}
        self.reasons = set()  # (transport, ranks, contender, why something of it did not run)
        self.lines = []
        for line in lines:
            if "contender" not in line:
                continue
            unit = line["unit"] = Unit(*line["unit"])
            if "reason" in line:
                self.reasons.add((unit.transport, unit.ranks, line["contender"], line["reason"]))
                continue
            self.versions.setdefault(line["contender"], " ".join(line["version"].split()))
            self.lines.append(line)

    def series(self, collective, ranks, transport, in_place=False):
        """{contender: {bytes: p50}}. Peers were measured once for each kind of our memory: the median of those."""
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for line in self.lines:
            unit = line["unit"]
            if (unit.collective, unit.ranks, unit.transport, unit.in_place) != (collective, ranks, transport, in_place):
                continue
            name = line["contender"]
            if name == "regroup" and unit.memory == "mapped":
                name = "regroup, mapped"
            found[name][line["bytes"]].append(line["p50_us"])
            if line.get("floor_us"):
                found["floor"][line["bytes"]].append(line["floor_us"])
        return {
            name: {size: statistics.median(times) for size, times in sorted(found[name].items())}
            for name in STYLES
            if name in found
        }

    def ratios(self, collective, ranks, transport, memory, in_place=False):
        """{bytes: {peer: ratio}}: the peer's p50 ÷ regroup's, of the same rounds."""
        found = collections.defaultdict(dict)
        for line in self.lines:
            unit = line["unit"]
            key = (unit.collective, unit.ranks, unit.transport, unit.memory, unit.in_place)
            if key == (collective, ranks, transport, memory, in_place) and "ratio" in line:
                found[line["bytes"]][line["contender"]] = line["ratio"]
        return dict(sorted(found.items()))

    def model_errors(self):
        """Of the cost model, as shares of what was measured, where a schedule ran: the eager path has no prediction."""
        return [
            abs(line["predicted_us"] - line["p50_us"]) / line["p50_us"] for line in self.lines if line.get("predicted_us")
        ]


def human(size):
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:g} {unit}"
        size /= 1024
    return ""


def human_us(us):
    return f"{us:.3g} µs" if us < 1000 else f"{us / 1000:.3g} ms"


# --- drawing -----------------------------------------------------------------------------------------------------------


def load_pyplot():
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, and the same results give the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "regroup", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False,
                                "lines.markersize": 4})  # fmt: skip
    from matplotlib import pyplot

    return pyplot


def label_of(name):
    return NAMES.get(name, name)


def draw_axes(axes, series, value, title, ylabel):
    for name, times in series.items():
        points = [(size, value(size, us)) for size, us in times.items() if size > 0 and us > 0]
        if points:
            axes.plot(*zip(*points), label=label_of(name), **STYLES[name])
    axes.set_xscale("log", base=2)
    if value is latency:
        axes.set_yscale("log")
    axes.set_title(title)
    axes.set_ylabel(ylabel)
    sizes = sorted({size for times in series.values() for size in times if size > 0})
    axes.set_xticks(sizes[:: max(1, math.ceil(len(sizes) / 5))])
    axes.xaxis.set_major_formatter(lambda size, _: human(round(size)).replace(" ", ""))
    axes.minorticks_off()


def latency(_, us):
    return us


def bandwidth(size, us):
    return size / us / 1e3


def save(figure, path, handles):
    columns = max(2, int(figure.get_figwidth() / 1.6))
    figure.legend(*handles, loc="outside lower center", ncols=columns, frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def draw_matrix(pyplot, results, ranks, transport, path):
    """Latency above, bandwidth below, a column for each collective. False if there is nothing to draw."""
    columns = [(collective, results.series(collective, ranks, transport)) for collective in SIZED]
    columns = [(collective, series) for collective, series in columns if series]
    if not columns:
        return False
    figure, axes = pyplot.subplots(2, len(columns), figsize=(1 + 3.2 * len(columns), 6.2), squeeze=False,
                                   layout="constrained")  # fmt: skip
    for column, (collective, series) in enumerate(columns):
        draw_axes(axes[0][column], series, latency, collective, "µs" if column == 0 else "")
        draw_axes(axes[1][column], series, bandwidth, "", "GB/s" if column == 0 else "")
    handles = max((one.get_legend_handles_labels() for row in axes for one in row), key=lambda pair: len(pair[1]))
    save(figure, path, handles)
    pyplot.close(figure)
    return True


def draw_overview(pyplot, results, path):
    """For the README: two collectives, the most ranks, over shared memory."""
    counts = [line["unit"].ranks for line in results.lines if line["unit"].transport == "shm"]
    if not counts:
        return False
    ranks = max(counts)
    panels = [(collective, results.series(collective, ranks, "shm")) for collective in ("all_reduce", "all_to_all")]
    panels = [(collective, series) for collective, series in panels if series]
    if not panels:
        return False
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False, layout="constrained")
    for one, (collective, series) in zip(axes[0], panels):
        draw_axes(one, series, latency, f"{collective}, {ranks} ranks", "µs a call")
    handles = max((one.get_legend_handles_labels() for one in axes[0]), key=lambda pair: len(pair[1]))
    save(figure, path, handles)
    pyplot.close(figure)
    return True


def draw(results, folder):
    """The names of the figures that there was something for."""
    pyplot = load_pyplot()
    made = []
    for transport in PEERS:
        for ranks in sorted({line["unit"].ranks for line in results.lines}):
            name = f"{transport}-{ranks}.svg"
            if draw_matrix(pyplot, results, ranks, transport, folder / name):
                made.append(name)
    if draw_overview(pyplot, results, folder / "overview.svg"):
        made.append("overview.svg")
    return made


# --- the page ----------------------------------------------------------------------------------------------------------


def table(rows):
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in body])


def ratio_table(results, transport, ranks, memory, in_place=False):
    peers = PEERS[transport].split(",")
    rows = []
    for collective in COLLECTIVES:
        ratios = results.ratios(collective, ranks, transport, memory, in_place)
        own = results.series(collective, ranks, transport, in_place)
        own = own.get("regroup, mapped" if memory == "mapped" else "regroup", {})
        for size, by_peer in ratios.items():
            what = collective if collective == "barrier" else f"{collective} {human(size)}"
            cells = [f"{by_peer[peer]:.2f}" if peer in by_peer else "–" for peer in peers]
            rows.append([what, human_us(own[size]) if size in own else "–", *cells])
    return table([["", "regroup", *(label_of(peer) for peer in peers)], *rows]) if rows else ""


def environment_table(results):
    rows = [["", ""]]
    names = {"cpu": "CPU", "cores": "cores", "caches": "caches of a core", "memory": "memory", "kernel": "kernel", "date": "date"}
    rows += [[name, str(results.machine[key])] for key, name in names.items() if results.machine.get(key)]
    for contender, version in sorted(results.versions.items(), key=lambda pair: list(STYLES).index(pair[0])):
        rows.append([label_of(contender), version])
    return table(rows)


def page(results, figures):
    parts = ["# Measured against others", HEADING, environment_table(results)]
    if "overview.svg" in figures:
        parts.append("![all_reduce and all_to_all: time of a call over size](overview.svg)")
    words = {"shm": "Shared memory", "tcp": "TCP over loopback"}
    for transport, title in words.items():
        for ranks in sorted({line["unit"].ranks for line in results.lines}):
            tables = []
            for memory, in_place in (("mapped", False), ("ordinary", False), ("mapped", True)):
                made = ratio_table(results, transport, ranks, memory, in_place)
                if made:
                    place = ", in place" if in_place else ""
                    tables.append(f"Peer's time ÷ regroup's, {memory} memory{place}:\n\n{made}")
            if not tables:
                continue
            parts.append(f"## {title}, {ranks} ranks")
            name = f"{transport}-{ranks}.svg"
            if name in figures:
                parts.append(f"![Latency and bandwidth over size, {title}, {ranks} ranks]({name})")
            parts += tables
            absent = [
                f"{label_of(contender)}: {reason}"
                for where, count, contender, reason in sorted(results.reasons)
                if (where, count) == (transport, ranks)
            ]
            if absent:
                parts.append("Did not run here (or not everything): " + "; ".join(absent) + ".")
    errors = results.model_errors()
    if errors:
        parts.append(f"## The cost model\n\nMedian error of {len(errors)} predictions (`regroup plan`) against what was "
                     f"measured here: {100 * statistics.median(errors):.0f} %.")  # fmt: skip
    return "\n\n".join(parts) + "\n"


HEADING = """\
Made by `./dev bench` ([raw results](results.jsonl)); do not edit. How it is measured: every contender's ranks are processes
pinned to one core each in turn; inputs are written anew before each call; the contenders take turns, round by round; a call
takes what its slowest rank takes; the median (p50) over all calls counts, and ratios are medians over the rounds. float32,
sum, out of place unless said otherwise. *Mapped* memory comes from `regroup::allocate`, *ordinary* from malloc; peers always
have ordinary memory. The *floor* is what no implementation can beat: the least bytes, by nothing but copies or bare sockets.
What other libraries publish of themselves is [on a page of its own](others.md)."""


# --- the command -------------------------------------------------------------------------------------------------------


def note(text):
    print(f"report: {text}", file=sys.stderr, flush=True)


def words_of(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"takes some of {','.join(known)}, not {word!r}")
        return words

    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev report", description=__doc__.splitlines()[0])
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/release/bin/regroup", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks", help="the folder (docs/benchmarks)")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK_SIZES)}")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    parser.add_argument("--collectives", type=words_of(COLLECTIVES), default=list(COLLECTIVES), help="with commas between")
    parser.add_argument("--transports", type=words_of(tuple(PEERS)), default=list(PEERS), help="with commas between")
    parser.add_argument("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=list(RANKS),
                        help="with commas between (2,4)")  # fmt: skip
    parser.add_argument("--iterations", type=int, default=0, help="calls (as many as fit)")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    results = options.output / RESULTS
    complete = True
    if options.fresh and not options.draw_only:
        results.unlink(missing_ok=True)
    if not options.draw_only:
        complete = measure(options, results)
    found = Results(read_lines(results))
    if not found.lines:
        sys.exit(f"report: {RESULTS} holds no results to draw")
    figures = draw(found, options.output)
    (options.output / "README.md").write_text(page(found, figures), encoding="utf-8")
    note(f"made README.md and {', '.join(figures)}" + ("" if complete else "; run again for what failed"))
    errors = found.model_errors()
    if errors:
        note(f"the cost model's median error: {100 * statistics.median(errors):.0f} % of {len(errors)} predictions")
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
