#!/usr/bin/env python3
"""Draws what compare_peer.py has measured as an SVG: a panel for each title, a pair of bars for each
row, ours and the peer's, in tokens a second, and a dotted line where the machine's limit is.  Bars
of a row share a scale; rows do not.

    plot_step.py OUT.svg "Llama-3.2-1B=one.json,two.json" ["Qwen3-0.6B=three.json"] [--peer NAME]
"""
import argparse
import json
from html import escape

OURS, PEER, LIMIT, INK, PAPER = "#2f6f9f", "#c9c4ba", "#8a8378", "#33302b", "#ffffff"
LABELS, BARS, NUMBERS, ROW, HEAD, FOOT = 150, 190, 60, 34, 34, 30  # pixels
PANEL = LABELS + BARS + NUMBERS


def text(x, y, s, size=11, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" fill="{INK}">{escape(s)}</text>')


def bar(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def dotted(x, top, bottom):
    return (f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{LIMIT}" '
            'stroke-dasharray="2 2"/>')


def panel(left, title, rows):
    out = [text(left, 20, f"{title}, tokens/s", 13, weight="bold")]
    for i, row in enumerate(rows):
        top, x = HEAD + i * ROW, left + LABELS
        scale = BARS / max(row["limit"] or 0, row["ours"], row["peer"])
        out.append(text(x - 8, top + 16, row["row"], anchor="end"))
        for at, name, colour in ((0, "ours", OURS), (12, "peer", PEER)):
            width = row[name] * scale
            out += [bar(x, top + at, width, 11, colour),
                    text(x + max(width, (row["limit"] or 0) * scale) + 5, top + at + 9,
                         f"{row[name]:.3g}", 9)]
        if row["limit"]:
            out.append(dotted(x + row["limit"] * scale, top - 2, top + 25))
    return out


def legend(y, peer):
    return [bar(8, y - 9, 11, 11, OURS), text(24, y, "Ingot"), bar(74, y - 9, 11, 11, PEER),
            text(90, y, peer), dotted(106 + 7 * len(peer), y - 10, y + 3),
            text(112 + 7 * len(peer), y, "the machine's limit, measured in the same runs")]


def rows_of(files):
    rows = []
    for path in files.split(","):
        with open(path, encoding="utf-8") as f:
            rows += [r for r in json.load(f)["rows"] if r["ours"] and r["peer"]]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("panels", nargs="+", metavar="TITLE=FILE[,FILE...]")
    parser.add_argument("--peer", default="peer", help="what the peer is called")
    args = parser.parse_args()
    panels = [(p.split("=", 1)[0], rows_of(p.split("=", 1)[1])) for p in args.panels]
    width = PANEL * len(panels) + 16
    height = HEAD + ROW * max(len(rows) for _, rows in panels) + FOOT
    body = [bar(0, 0, width, height, PAPER)]
    for i, (title, rows) in enumerate(panels):
        body += panel(8 + i * PANEL, title, rows)
    body += legend(height - 10, args.peer)
    with open(args.out, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'font-family="sans-serif">\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
