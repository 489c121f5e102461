"""Uses the page of demo/ in headless Chromium as a visitor would; `.ci/demo` runs it.

Chromium is driven through pipes by its DevTools protocol, so that no package is needed.

    python3 .ci/demo.py CHROMIUM TRAIN DIST FOLDER
"""

import base64
import functools
import http.server
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

chromium, train, dist, folder = sys.argv[1:]
checks = 0


def check(name, is_right):
    global checks
    if not is_right:
        sys.exit(f"demo: failed: {name}")
    checks += 1
    print(f"  {name}", flush=True)


class Browser:
    """A headless Chromium with one tab."""

    def __init__(self, profile):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def connect():
            # Chromium reads commands from descriptor 3, and writes answers to descriptor 4.
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.log = open(os.path.join(profile, "log"), "wb")
        self.process = subprocess.Popen(
            [chromium, *flags, "about:blank"], preexec_fn=connect, close_fds=False, stderr=self.log, stdout=self.log
        )
        os.close(to_read)
        os.close(from_write)
        self.to, self.of = to_write, from_read
        self.buffer, self.last, self.session, self.events = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"]:
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(60)
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"demo: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.of], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit("demo: Chromium does not answer")
            data = os.read(self.of, 1 << 20)
            if not data:
                sys.exit("demo: Chromium has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def js(self, code):
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"demo: {code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, code, seconds, what):
        """Waits until an expression is true, and returns the seconds."""
        begun = time.monotonic()
        while not self.js(code):
            if time.monotonic() - begun > seconds:
                state = self.js("document.querySelector('#status').textContent + ' ' + document.querySelector('#problem').textContent")
                sys.exit(f"demo: not within {seconds} seconds: {what} ({state})")
            time.sleep(0.05)
        return time.monotonic() - begun

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.documentElement?.dataset.ready !== undefined", 60, "the page is ready")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, name, is_whole=False):
        self.js("document.activeElement.blur(); scrollTo(0, 0)")
        time.sleep(0.4)
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)["data"]
        with open(os.path.join(folder, name), "wb") as file:
            file.write(base64.b64decode(data))

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[path])

    def errors(self):
        """Returns errors of the page, and requests to other machines."""
        self.js("0")
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str([value.get("value") for value in params["args"]]))
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                address = params["request"]["url"]
                if not address.startswith(("data:", "blob:", origin)):
                    found.append(f"a request to {address}")
        return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def run_train(*arguments):
    done = subprocess.run([train, *arguments], cwd=work, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"demo: train {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def set_field(name, value):
    browser.js(
        f"(() => {{ const field = document.querySelector('#{name}'); field.value = {json.dumps(value)};"
        " field.dispatchEvent(new Event('input', { bubbles: true })); field.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )


def click(selector):
    browser.js(f"document.querySelector({json.dumps(selector)}).click()")


def text(selector):
    return browser.js(f"document.querySelector({json.dumps(selector)}).textContent")


def whole():
    """Waits until the run with the latest settings is made."""
    browser.wait("document.documentElement.dataset.ready === String(run.id)", 60, "the run is made")


def losses_match(name, settings):
    """Compares losses and exact match of 100 steps with `train fit` of the same configuration."""
    for field, value in settings.items():
        set_field(field, value)
    whole()
    config = urllib.parse.unquote(browser.js("document.querySelector('#config').href").split(",", 1)[1])
    with open(os.path.join(work, f"{name}.json"), "w") as file:
        file.write(config)
    run_train("fit", "--config", f"{name}.json", "--run-dir", name)
    with open(os.path.join(work, name, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    native = [line["loss"] for line in lines if "loss" in line][:100]
    scores = [line["exact_match"] for line in lines if "exact_match" in line][:5]
    click("#start")
    browser.wait("run.step >= 100", 180, "100 steps")
    click("#start")
    browser.wait("!run.isRunning", 10, "a pause")
    page = browser.js("loss.y.slice(0, 100)")
    largest = max(abs(a - b) for a, b in zip(native, page))
    check(f"{name}: losses of 100 steps equal those of train within 1e-4 (largest difference {largest:.1e})", len(page) == 100 and largest < 1e-4)
    difference = max(abs(a - b) for a, b in zip(scores, browser.js("exact.y.slice(0, 5)")))
    check(f"{name}: exact match equals that of train (largest difference {difference:.2f})", difference <= 0.02)


def compare_speed(engine):
    """Prints the time of a step of the default run, and that of `train fit` on one thread.

    Nothing is checked, because a busy machine would fail.
    """
    browser.open(f"{origin}?engine={engine}")
    whole()
    config = urllib.parse.unquote(browser.js("document.querySelector('#config').href").split(",", 1)[1])
    with open(os.path.join(work, "speed.json"), "w") as file:
        file.write(config)
    for turn in range(3):
        name = f"{engine}-{turn}"
        run_train("fit", "--config", "speed.json", "--run-dir", name, "--threads", "1", "--steps", "300")
        with open(os.path.join(work, name, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        ends = [line["seconds"] for line in lines if "tokens_per_second" in line]
        native = statistics.median(after - before for before, after in zip(ends, ends[1:]))
        click("#reset")
        whole()
        click("#start")
        browser.wait("run.step >= 300", 180, "300 steps")
        click("#start")
        browser.wait("!run.isRunning", 10, "a pause")
        page = statistics.median(browser.js("run.taken.map(({ steps, seconds }) => seconds / steps)"))
        print(f"  {engine}: {page * 1000:.1f} ms a step, train {native * 1000:.1f} ms on one thread: {page / native:.1f} times")


def opacities(selector):
    """Returns the rows of weights of the large attention map."""
    columns = browser.js(f"mapsOf('{selector}').columns")
    weights = browser.js(f"mapsOf('{selector}').weights")
    return [weights[i : i + columns] for i in range(0, len(weights), columns)]


MAPS_OF = """
window.mapsOf = (selector) => {
  const cells = [...document.querySelectorAll(`${selector} .heat .cell, ${selector} .heat .masked`)];
  const columns = new Set(cells.map((cell) => cell.getAttribute('x'))).size;
  return { columns, weights: cells.map((cell) => Number(cell.getAttribute('fill-opacity') ?? 0)) };
};
"""


def fits():
    # A page that is too wide would also widen the window of a phone, so its width is compared with
    # that of the screen.
    return browser.js("document.documentElement.scrollWidth <= screen.width && innerWidth <= screen.width")


def learns_to_copy():
    browser.size(1280, 900)
    browser.open(origin)
    browser.js(MAPS_OF)
    print(f"engine: {text('#engine')}")
    check("nothing is learned yet", text("#t-step") == "–")
    set_field("source", "3 1 4 1 5 9 2 6")
    browser.wait("document.querySelectorAll('#output .symbol').length > 0 || document.querySelector('#output .note')", 10, "an output")
    click("#step")
    browser.wait("run.step === 1", 10, "one step")
    check("one step is one step", browser.js("loss.y.length") == 1)
    begun = time.monotonic()
    click("#start")
    browser.wait("exact.y.some((value) => value >= 0.99)", 60, "the copy task is learned")
    check(f"copy is learned within a minute ({time.monotonic() - begun:.1f} s, step {text('#t-step')})", True)
    # A click is answered while training goes on.
    click("#start")
    waited = browser.wait("!run.isRunning && document.querySelector('#status').textContent.startsWith('Paused')", 2, "a pause")
    check(f"pause stops at once ({waited:.2f} s)", waited < 0.5)
    step = browser.js("run.step")
    time.sleep(0.5)
    check("a paused run takes no steps", browser.js("run.step") == step)
    click("#start")
    browser.wait("run.isOver", 120, "all steps")
    check("the run ends", text("#status").startswith("Finished"))
    check("the output for the typed source is correct", text("#output .verdict") == "correct" and browser.js("document.querySelectorAll('#output .symbol').length") == 8)
    diagonals, sharpest = 0, (0, 0)
    for head in range(browser.js("document.querySelectorAll('#attention .layer button').length")):
        browser.js(f"document.querySelectorAll('#attention .layer button')[{head}].click()")
        rows = opacities("#attention")
        diagonals += all(row[i] == max(row) for i, row in enumerate(rows[:8]))
        sharpest = max(sharpest, (sum(row[i] for i, row in enumerate(rows[:8])), head))
    check(f"cross-attention of {diagonals} heads is a diagonal", diagonals > 0)
    for kind in range(3):
        browser.js(f"document.querySelectorAll('#attention .choice button')[{kind}].click()")
        sums = [sum(row) for row in opacities("#attention")]
        check(f"each row of map {kind + 1} sums to 1", all(abs(total - 1) < 0.02 for total in sums))
    browser.js("document.querySelectorAll('#attention .choice button')[0].click()")
    browser.js(f"document.querySelectorAll('#attention .layer button')[{sharpest[1]}].click()")
    browser.picture("desktop.png")
    browser.picture("desktop-whole.png", True)
    browser.theme("dark")
    browser.picture("desktop-dark.png")
    browser.theme("light")
    browser.size(375, 812)
    time.sleep(0.3)
    check("the page fits a phone", fits())
    browser.picture("phone.png")
    browser.picture("phone-whole.png", True)
    browser.size(1280, 900)
    set_field("source", "3 1 x")
    browser.wait("document.querySelector('#output').textContent.includes('\"x\" is not a symbol')", 10, "a word about x")
    check("a word that is no symbol is named", True)
    set_field("source", "3 1 2")
    click("#reset")
    whole()
    check("reset begins again", text("#t-step") == "–" and browser.js("loss.y.length") == 0 and text("#start") == "Start")
    set_field("heads", 3)
    browser.wait("!document.querySelector('#problem').hidden", 10, "a wrong setting")
    check(f"a wrong setting is named: {text('#problem')}", text("#problem").startswith("Heads 3: must be a divisor of Width (32)"))
    set_field("heads", 2)
    whole()
    check("a right setting is accepted", browser.js("document.querySelector('#problem').hidden"))
    good = {"heads": 2, "width": 32, "rate": 0.005}
    for field, wrong, label in [("heads", "", "Heads"), ("width", 7, "Width"), ("rate", 1000, "Learning rate")]:
        click("#start")
        set_field(field, wrong)
        browser.wait("!document.querySelector('#problem').hidden", 10, "a wrong setting")
        check(f"a value out of range is named: {text('#problem')}", text("#problem").startswith(f"{label}: "))
        stopped = [text("#status"), browser.js("document.querySelector('#start').disabled"), browser.js("document.querySelector('#config').hasAttribute('href')")]
        check("it ends the run", stopped == ["Stopped.", True, False])
        set_field(field, good[field])
        whole()
    # Six clicks send six requests to run or to pause. Answers to all but the last one are out of
    # date, and must change nothing.
    click("#start")
    browser.wait("run.step >= 3", 30, "some steps")
    for _ in range(6):
        click("#start")
    browser.wait("run.step >= 30", 30, "more steps")
    check("the page knows that the run goes on", browser.js("run.isRunning") and text("#start") == "Pause")
    set_field("steps", 2)
    whole()
    click("#step")
    click("#step")
    browser.wait("run.isOver", 30, "the last step")
    check("the last of single steps ends the run", text("#status").startswith("Finished") and text("#t-exact") != "–")
    set_field("steps", 600)
    whole()


def asks_a_model():
    run_train("fit", "--task", "reverse", "--symbols", "12", "--max-length", "8", "--d-model", "32", "--d-ff", "128", "--heads", "4", "--layers", "2", "--steps", "700", "--run-dir", "reverse-run")
    path = os.path.join(work, "reverse.safetensors")
    run_train("export", "--web", "reverse-run", "--output", path)
    click("#tab-ask")
    with open(path, "rb") as file:
        data = file.read()
    broken = os.path.join(work, "broken.safetensors")
    for content, words in [
        (data[:-100], "is not a whole safetensors file"),
        (b"<!doctype html><title>Not found</title>", "is not a whole safetensors file"),
        (b"", "is empty"),
        (data.replace(b'\\"n_heads\\":4', b'\\"n_heads\\":5'), "model.n_heads 5: must be a divisor of model.d_model (32)"),
    ]:
        with open(broken, "wb") as file:
            file.write(content)
        browser.js("document.querySelector('#file').value = ''; problem()")
        browser.choose_file("#file", broken)
        browser.wait("!document.querySelector('#problem').hidden", 10, "a broken file is rejected")
        said = text("#problem")
        check(f"a broken file is rejected: {said}", said.startswith("broken.safetensors ") and words in said)
    browser.choose_file("#file", path)
    browser.wait("document.querySelectorAll('#found button').length > 0", 20, "beams")
    check("the file of `train export --web` is read", "task reverse, 12 symbols, width 32" in text("#file-status"))
    browser.js("load({ name: 'folder', size: 1, arrayBuffer: async () => { throw new Error('it is a folder') } })")
    browser.wait("!document.querySelector('#problem').hidden", 10, "an unreadable file is rejected")
    check("a file that cannot be read is named", text("#problem") == "folder cannot be read: it is a folder.")
    browser.choose_file("#file", path)
    browser.wait("document.querySelectorAll('#found button').length > 0 && !document.querySelector('#search').hidden", 20, "beams")
    check("a right file takes the message away", browser.js("document.querySelector('#problem').hidden"))
    source = "3 1 4 1 5 9 2 6"
    set_field("question", source)
    with open(os.path.join(work, "source"), "w") as file:
        file.write(source + "\n")
    browser.wait("asked.beams.source.length === 8", 10, "the beams of the source")
    found = browser.js("asked.beams.found.map(({ written, score, probabilities }) => ({ written, score, probabilities }))")
    native = run_train("generate", "reverse-run", "--input", "source", "--beam", "3", "--n-best", "3", "--json")
    native = json.loads(native.splitlines()[0])["hypotheses"]
    print(f"  beams: {[' '.join(one['written']) for one in found]}")
    check("the page finds the outputs of train generate", [" ".join(one["written"][:-1]) for one in found] == [one["target"] for one in native])
    difference = max(abs(ours["score"] - theirs["score"]) for ours, theirs in zip(found, native))
    check(f"their scores are the same (largest difference {difference:.1e})", difference < 1e-3)
    check("the best output is correct", found[0]["written"] == [*reversed(source.split()), "<eos>"])
    check("probabilities are shares", all(0 < p <= 1 for one in found for p in one["probabilities"]))
    for beams in ["-1", "2.5", "1000", ""]:
        set_field("beams", beams)
        browser.wait("document.querySelector('#search').classList.contains('old')", 10, "a word about beams")
        check(f"{beams or 'no'} beams: {text('#question-hint')}", text("#question-hint").startswith("Beams: "))
    set_field("beams", 3)
    browser.wait("!document.querySelector('#search').classList.contains('old')", 10, "three beams")
    for step in range(1, 10):
        set_field("search-step", step)
        check(f"step {step} shows {step} symbols", browser.js("document.querySelectorAll('#beams-now tbody tr:first-child .symbol').length") == step)
    set_field("search-step", 4)
    check("the row of the step is pointed out", browser.js("document.querySelectorAll('#beam-attention .heat .cell:not(.dim)').length") == 8)
    browser.picture("model.png")
    browser.picture("model-whole.png", True)
    browser.size(375, 812)
    check("a trained model fits a phone", fits())
    browser.picture("model-phone.png", True)
    browser.size(1280, 900)


def keyboard():
    click("#tab-learn")
    unnamed = browser.js(
        "[...document.querySelectorAll('input, select, button, svg[tabindex]')].filter((e) => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim())).map((e) => e.outerHTML)"
    )
    check(f"every control has a name {unnamed or ''}", not unnamed)
    browser.js("document.querySelector('#tab-learn').focus()")
    for kind in ["keyDown", "keyUp"]:
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    check("arrow keys change the tab", browser.js("!document.querySelector('#ask').hidden && document.activeElement.id === 'tab-ask'"))
    click("#tab-learn")
    check("the status is told to screen readers", browser.js("document.querySelector('#status').getAttribute('aria-live')") == "polite")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
    handler = functools.partial(Quiet, directory=dist)
    server = http.server.ThreadingHTTPServer(("localhost", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://localhost:{server.server_port}/"
    profile = os.path.join(work, "profile")
    os.mkdir(profile)
    browser = Browser(profile)
    try:
        learns_to_copy()
        # WebAssembly and the processor sum in different orders, so their losses are rounded
        # differently. At the page's own learning rate, 100 steps amplify the difference to 8e-3.
        # Two levels of `FUSED_SIMD` differ as much there.
        losses_match("copy", {"rate": 0.001})
        losses_match("reverse", {"task": "reverse", "layers": 2, "heads": 4, "norm": "post", "rate": 0.002, "seed": 7})
        losses_match("sort", {"task": "sort", "layers": 1, "norm": "pre", "length": 6, "symbols": 20, "width": 48, "rate": 0.005})
        asks_a_model()
        keyboard()
        check(f"no errors and no requests elsewhere {browser.errors() or ''}", not browser.errors())
        compare_speed("simd128")
        browser.open(f"{origin}?engine=plain")
        check("plain WebAssembly is used on request", "without" in text("#engine"))
        losses_match("plain", {"rate": 0.001})
        compare_speed("plain")
        check(f"no errors without vector instructions {browser.errors() or ''}", not browser.errors())
    finally:
        browser.process.terminate()
        browser.process.wait()
print(f"{checks} checks passed")
