"""Tables of runs that were killed, and of the code's structure."""

from benchmarks.tables.markdown import markdown, read


def faults_table():
    """Makes one row for each preset whose runs tests/system/kills/harness.py killed."""
    record = read("faults/kills")
    head = ("model", "runs", "kills", "while saving", "survived", "steps lost, mean", "most")
    rows = (
        (
            f"`{name}`",
            *(f"{n}" for n in (r["runs"], r["kills"], r["kills_by_moment"]["save"], r["survived"])),
            f"{r['mean_steps_lost']:.1f}",
            f"{r['most_steps_lost']} of {r['steps_between_saves']} between saves",
        )
        for name, r in record["presets"].items()
    )
    return markdown([head, *rows])


def structure_table():
    """Makes a row for each measure of benchmarks/house.py, before and after the package."""
    records = [read(f"structure/{name}") for name in ("eb9171d", "now")]
    rows = [("", "commit eb9171d", "now")]

    def add(label, value):
        rows.append((label, *(str(value(record)) for record in records)))

    for room in sorted({room for record in records for room in record["lines"]}):
        add(f"lines: {room}", lambda r, room=room: f"{r['lines'].get(room, 0):,}")
    add("functions", lambda r: f"{r['functions']:,}")
    add("functions above 60 lines", lambda r: len(r["long_functions"]))
    add("functions of a complexity above 10", lambda r: len(r["complex_functions"]))
    add("flags of the six scripts", lambda r: r["flags"])
    add(
        "public functions with types",
        lambda r: f"{r['typed_public_functions'] / r['public_functions']:.0%}",
    )
    for kind in records[1]["places_to_edit"]:
        add(
            f"files to write or edit: {kind}",
            lambda r, kind=kind: r["places_to_edit"].get(kind, ""),
        )
    for start in records[1]["walks"]:
        add(f"stops of `{start}`", lambda r, start=start: r["walks"][start]["stops"])
        add(f"files of `{start}`", lambda r, start=start: r["walks"][start]["files"])
    return markdown(rows)
