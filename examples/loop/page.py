"""The frame of the report's page: its words, and its looks in light and dark. Braces that stay are doubled."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{
  color-scheme: light dark;
  --page: #f9f9f7; --card: #fcfcfb; --ink: #0b0b0b; --soft: #52514e; --faint: #e1e0d9; --edge: #c3c2b7;
  --good: #006300; --bad: #c0282a; --so-so: #8a5a00;
  --c0: #4a3aa7; --c1: #2a78d6; --c2: #eb6834; --c3: #1baf7a; --busy: #cfcdf0; --join: #d8d7d0;
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --page: #0d0d0d; --card: #1a1a19; --ink: #ffffff; --soft: #c3c2b7; --faint: #2c2c2a; --edge: #4a4945;
    --good: #4cc04c; --bad: #f06a6a; --so-so: #e0a83a;
    --c0: #9085e9; --c1: #3987e5; --c2: #d95926; --c3: #199e70; --busy: #3d3870; --join: #45443f;
  }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }}
main {{ max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }}
h1 {{ font-size: 24px; margin: 0 0 4px; }}
h2 {{ font-size: 18px; margin: 34px 0 10px; }}
h3 {{ font-size: 15px; margin: 0; }}
p {{ margin: 2px 0 0; color: var(--soft); }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }} .so-so {{ color: var(--so-so); }}
.verdict {{ font-weight: 600; }}
.tiles {{ display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 0; }}
.tile {{ flex: 1 1 150px; padding: 10px 16px; }}
.tile, .wide, figure {{ background: var(--card); border: 1px solid var(--faint); border-radius: 8px; }}
.tile b {{ display: block; font-size: 24px; font-weight: 600; }}
.tile span {{ color: var(--soft); font-size: 13px; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 13.5px; }}
th, td {{ text-align: left; vertical-align: top; padding: 6px 10px; border-top: 1px solid var(--faint); }}
tr:first-child > * {{ border-top: 0; }}
th {{ font-weight: 600; white-space: nowrap; }}
.numbers td {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.numbers th {{ text-align: right; }}
.numbers td:first-child, .numbers th:first-child {{ text-align: left; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px; }}
.plots figure:first-child {{ grid-column: 1 / -1; }}
@media (max-width: 520px) {{ .plots {{ grid-template-columns: 1fr; }} }}
figure {{ margin: 0; padding: 14px 16px 8px; }}
figcaption p {{ font-size: 13px; }}
.keys {{ margin: 6px 0 2px; font-size: 13px; color: var(--soft); }}
.key {{ margin-right: 14px; white-space: nowrap; }}
.key i {{ display: inline-block; width: 10px; height: 10px; margin-right: 5px; background: currentColor; }}
.key i.limit {{ height: 2px; vertical-align: middle; color: var(--ink); }}
.key i.tick {{ width: 2px; vertical-align: -1px; color: var(--ink); }}
.y {{ font-size: 12px; color: var(--soft); }}
svg {{ display: block; width: 100%; height: auto; }}
svg text {{ fill: var(--soft); font: 12px system-ui, sans-serif; }}
.grid {{ stroke: var(--faint); }}
.moment {{ stroke: var(--soft); stroke-dasharray: 3 3; }}
line.limit {{ stroke: var(--ink); stroke-width: 1.5; }}
.mark {{ stroke: var(--card); stroke-width: 2; }}
.line {{ fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }}
.dot {{ fill: currentColor; stroke: var(--card); stroke-width: 1.5; }}
rect {{ fill: currentColor; }}
.c0 {{ color: var(--c0); }} .c1 {{ color: var(--c1); }} .c2 {{ color: var(--c2); }} .c3 {{ color: var(--c3); }}
.sampling {{ color: var(--busy); }} .learning {{ color: var(--c0); }} .joining {{ color: var(--join); }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="verdict {verdict_look}">{verdict}</p>
<p>{network}</p>
<div class="tiles">{tiles}</div>
<h2>What was claimed, and what was found</h2>
<div class="wide"><table>{claims}</table></div>
<h2>How it went</h2>
<div class="plots">{plots}</div>
<h2>Islands</h2>
<div class="wide"><table class="numbers">
<tr><th>island</th><th></th><th>updates</th><th>answers</th><th>received to join</th><th>received after that</th>
<th>for each update</th><th>looks at the head</th><th>equal: files / digests</th></tr>{islands}</table></div>
<h2>Versions</h2>
<div class="wide"><table class="numbers">
<tr><th>version</th><th>density, %</th><th>changed</th><th>patch, bytes</th><th>bytes a change</th>
<th>smaller, times</th><th>published after, s</th><th>live after, s</th></tr>{versions}</table></div>
<p>docs/demo.md says how each figure is taken. report.json beside this page has them all.</p>
</main>
</body>
</html>
"""
