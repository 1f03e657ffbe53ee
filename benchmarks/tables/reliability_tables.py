"""Tables of runs that were killed, hostile inputs, planted faults, and the code's structure."""

from benchmarks.tables.markdown import markdown, read


def faults_table():
    """Makes one row for each preset whose runs tests/faults/harness.py killed."""
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


def hostile_table():
    """Makes one row for each group of cases of tests/hostile/harness.py."""
    record = read("hostile/inputs")
    counts = {**record["groups"], "**all**": record}
    rows = ((name, *(f"{r[k]:,}" for k in ("tried", "good", "bad"))) for name, r in counts.items())
    return markdown([("kind of input", "tried", "good", "bad"), *rows])


def mutations_table():
    """Makes one row for each room of tests/mutations.py, and one for each fault that survived."""
    record = read("faults/mutations")
    rows = [
        (f"`{name}`" if "." in name else f"`{name}/`", room)
        for name, room in record["rooms"].items()
    ]
    cells = [(name, str(r["mutations"]), str(r["killed"])) for name, r in rows]
    share = f"{record['killed']} ({record['killed'] / record['mutations']:.1%})"
    cells.append(("**all**", str(record["mutations"]), share))
    lines = markdown([("faults planted in", "planted", "found by the tests"), *cells])
    if record["survived"]:
        commit = record["machine"]["commit"]
        lines += ["", f"Not found at commit {commit}: {'; '.join(record['survived'])}."]
    return lines


def structure_table():
    """Makes a row for each count of benchmarks/structure.py, before and after the rooms."""
    before, now = (read(f"structure/{name}") for name in ("62569a9", "now"))
    rows = [("", "commit 62569a9", "now")]
    for heading, count in now["places_to_edit"].items():
        rows.append((f"files to edit: {heading.lower()}", before["by_hand"][heading], str(count)))
    for key, label in (
        ("branches_by_kind", "branches by kind of model or training, outside of these"),
        ("branches_by_fact", "branches by a fact that a model or a way of training states"),
    ):
        rows.append((label, *(str(len(record[key])) for record in (before, now))))
    for key, label in (
        ("widest_function", "arguments of the widest function that is not a constructor"),
        ("largest_folder", "files in the largest folder"),
    ):
        rows.append(
            (label, *(f"{record[key][0]} (`{record[key][1]}`)" for record in (before, now)))
        )
    return markdown(rows)
