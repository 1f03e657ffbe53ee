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
