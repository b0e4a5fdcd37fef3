"""Markdown tables, and numbers as they stand in them."""


def table(heads, rows, align=None, tight=False):
    """A table; the first column to the left, the others to the right.

    `align` has a letter per column, l or r, where that is not so; `tight` leaves the blanks out of
    the line below the heads.
    """
    align = align or "l" + "r" * (len(heads) - 1)
    marks = ["---:" if letter == "r" else "---" for letter in align]
    rule = "|" + "|".join(marks) + "|" if tight else line(marks)
    return "\n".join([line(heads), rule, *map(line, rows)])


def line(cells):
    """One line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def bold_best(values, form="{:.2f}"):
    """Numbers as texts, the largest in bold (the largest itself, not what rounds to it)."""
    best = max(values)
    return [f"**{form.format(v)}**" if v == best else form.format(v) for v in values]


def best_of(scores):
    """What has the highest score, and that score."""
    key = max(scores, key=scores.get)
    return key, scores[key]


def mib(n):
    """Bytes in MiB."""
    return f"{n / 2**20:.1f}"
