#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of `blink report` in headless Chromium, as a reader would.

usage: page_test.py BLINK [--picture FILE]

Every page compares its numbers with its data (#selftest) in light, in dark, in print and with reduced motion.
It must not log, fail or ask a network for anything, and keyboards must reach its controls. With --picture the
report of a DGX-1V with six GPUs is drawn into FILE instead. Ends with 77 where there is no Chromium.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent.parent / "data"


class Browser:
    """Chromium driven over a pair of pipes, so that no port is open."""

    def __init__(self, program, folder):
        to_read, self.output = os.pipe()
        self.input, to_write = os.pipe()

        def connect():  # the browser reads file 3 and writes file 4
            os.dup2(to_read, 100, inheritable=False)
            os.dup2(to_write, 101, inheritable=False)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.events = 0, b"", []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.page = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(part + ".enable")

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.input, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        question = {"id": self.number, "method": method, "params": parameters}
        if hasattr(self, "page"):
            question["sessionId"] = self.page
        os.write(self.output, json.dumps(question).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, path, media=None, features=(), width=1200, height=900):
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", media=media or "",
                 features=[{"name": name, "value": value} for name, value in features])
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=f"file://{path}#selftest")
        while self.value("document.readyState") != "complete":
            pass

    def faults(self):
        """What the page logged, threw or asked a network for."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or method == "Log.entryAdded":
                found.append(json.dumps(about)[:300])
            if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(about)[:300])
            if method == "Network.requestWillBeSent" and about["request"]["url"].split(":")[0] not in ("file", "data", "about", "blob"):
                found.append("asked for " + about["request"]["url"][:100])
        return found

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def end(self):
        try:
            self.ask("Browser.close")
        except RuntimeError:
            pass
        self.process.wait(timeout=20)


failures = []


def expect(is_right, what):
    if not is_right:
        failures.append(what)
        print("FAILED", what)


def check_views(browser, name, path):
    """The self-test in light, dark, print and without motion."""
    views = {"light": (None, [("prefers-color-scheme", "light")]), "dark": (None, [("prefers-color-scheme", "dark")]),
             "print": ("print", []), "calm": (None, [("prefers-reduced-motion", "reduce")])}
    colours = {}
    for view, (media, features) in views.items():
        browser.open(path, media, features)
        verdict = browser.value("document.documentElement.dataset.selftest")
        expect(str(verdict).startswith("ok: "), f"{name}, {view}: {verdict}")
        expect(not browser.faults(), f"{name}, {view}: {browser.faults()}")
        colours[view] = browser.value("getComputedStyle(document.body).backgroundColor")
        expect(browser.value("document.documentElement.scrollWidth <= innerWidth"), f"{name}, {view}: wider than the window")
    expect(colours["light"] != colours["dark"], f"{name}: light and dark look alike")
    expect(colours["print"] == "rgb(255, 255, 255)", f"{name}: printed on {colours['print']}")
    browser.open(path, "print")
    hidden = browser.value("[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1).length")
    expect(hidden == 0, f"{name}: {hidden} tables are cut in print")
    printed = base64.b64decode(browser.ask("Page.printToPDF")["data"])
    expect(printed.startswith(b"%PDF"), f"{name}: not printed")
    browser.open(path, width=400, height=800)
    expect(browser.value("document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than a telephone")
    return verdict


def check_controls(browser, path):
    """Keys alone reach the page's controls, and the switch of colours wins over the system's."""
    browser.open(path, features=[("prefers-color-scheme", "light")])
    browser.press("Tab", 9)
    expect(browser.value("document.activeElement.className") == "skip", "the first stop is not the skip link")
    seen = set()
    for _ in range(60):
        browser.press("Tab", 9)
        seen.add(browser.value("document.activeElement.id"))
    for control in ("theme", "tree", "phase", "show_proof", "time_line_play", "time_line_step", "time_line_slider"):
        expect(control in seen, f"keys do not reach {control}")
    browser.value("document.getElementById('theme').value = 'dark'; document.getElementById('theme').dispatchEvent(new Event('change'))")
    expect(browser.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)", "the switch to dark")
    before = browser.value("document.getElementById('time_line_slider').value")
    browser.value("document.getElementById('time_line_step').focus()")
    browser.press("Enter", 13)
    browser.value("document.getElementById('time_line_step').click()")
    expect(browser.value("document.getElementById('time_line_slider').value") != before, "a step")
    browser.value("document.getElementById('show_proof').click()")
    expect(browser.value("document.querySelectorAll('#picture .link.cut').length") > 0, "the proof is not marked")
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in tree if not node.get("ignored")]
    for role in ("banner", "main", "navigation", "contentinfo", "heading", "table", "columnheader", "rowheader", "slider", "status"):
        expect(role in roles, f"a screen reader finds no {role}")
    nameless = [node["role"]["value"] for node in tree if not node.get("ignored") and
                node["role"]["value"] in ("button", "slider", "combobox", "checkbox", "link") and not node.get("name", {}).get("value")]
    expect(not nameless, f"without a name: {nameless}")


def records(path):
    """Three ranks on two hosts, one of them late, with a name that is markup."""
    with open(path, "w", encoding="utf-8") as file:
        for call in range(5):
            for rank in range(3):
                waited = 0.0 if rank == 2 else 60.5
                file.write(json.dumps({
                    "collective": "all_reduce", "rank": rank, "ranks": 3, "plan": "0", "count": 1, "element_bytes": 4, "types": "", "ok": call != 3,
                    "way": "trees", "sent_bytes": 4, "received_bytes": 4, "waited_for_peers_us": waited, "waited_to_receive_us": 1.0,
                    "waited_to_send_us": 2.0, "host": "<b>a" if rank < 2 else "b", "core": rank, "to_peers": [],
                    "on_links": [[0, "link <i>0-1", 1e9, 10000]], "begin_us": 1000.0 * call + rank, "us": 100.0}) + "\n")


def main():
    blink = sys.argv[1]
    program = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
    if program is None:
        print("no Chromium: the pages are not opened")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)

        def page(name, *arguments):
            path = work / (name + ".html")
            subprocess.run([blink, "report", *map(str, arguments), "-o", path], check=True, stdout=subprocess.DEVNULL)
            expect(path.stat().st_size < 2_000_000, f"{name}: {path.stat().st_size} bytes")
            return path

        six = page("six", DATA / "dgx1v.xml", "--ranks", "0-5")
        browser = Browser(program, work / "profile")
        if "--picture" in sys.argv:
            browser.open(six, features=[("prefers-color-scheme", "light")], width=1000, height=1250)
            shot = browser.ask("Page.captureScreenshot", format="png")
            Path(sys.argv[sys.argv.index("--picture") + 1]).write_bytes(base64.b64decode(shot["data"]))
            browser.end()
            return 0
        plan = work / "plan.json"
        subprocess.run([blink, "plan", DATA / "dgx1v.xml", "--ranks", "0-5", "-p", "ring", "-o", plan], check=True, stdout=subprocess.DEVNULL)
        program_file, schedule = work / "program.xml", work / "program.goal"
        subprocess.run([blink, "plan", "dgx1v", "--msccl", program_file, "--goal", schedule, "--bytes", "1M"], check=True, stdout=subprocess.DEVNULL)
        evil = work / "evil.json"
        evil.write_text(json.dumps({
            "name": "</script><img src=x onerror=alert(1)>@DATA@", "unit": "GB/s", "gpus": 2, "switches": 0,
            "nodes": [{"id": i, "kind": "gpu", "label": "<svg onload=alert(2)>\"'&", "server": 0} for i in range(2)],
            "links": [{"src": i, "dst": 1 - i, "capacity": 25, "kind": "nvlink"} for i in range(2)]}))
        records(work / "calls.jsonl")
        pages = {
            "six": six,
            "difference": page("difference", DATA / "dgx1v.xml", "--ranks", "0-5", "--diff", plan),
            "ring": page("ring", DATA / "dgx1v.xml", plan),
            "gather": page("gather", "dgx2", "-c", "all_gather"),
            "flows": page("flows", "dgx1v", "-c", "all_to_all"),
            "servers": page("servers", "dgx_a100:2"),
            "large": page("large", "dgx_a100:16"),
            "records": page("records", work / "calls.jsonl"),
            "program": page("program", program_file, "dgx1v"),
            "schedule": page("schedule", schedule),
            "one": page("one", "dgx1v", "--ranks", "3"),
            "evil": page("evil", evil),
        }
        for name, path in pages.items():
            print(f"{name}: {check_views(browser, name, path)}, {path.stat().st_size} bytes", flush=True)
        expect(browser.value("document.images.length") == 0, "markup of a name became an element")
        check_controls(browser, six)
        browser.end()
    print("all as expected" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
