"""A headless Chromium, driven over a pipe (the DevTools protocol: JSON messages that end in NUL)."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

import tap
import temp_dir


def program():
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Browser:
    def __init__(self):
        self.dir = temp_dir.make()
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()

        def fds():
            os.dup2(to_read, 100)  # 3 and 4 may be ends of the pipes themselves
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
             f"--user-data-dir={self.dir}/profile", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=fds, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.dir})
        os.close(to_read)
        os.close(to_write)
        self.numbers, self.buffer, self.events = itertools.count(1), b"", []
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _message(self):
        end = time.monotonic() + tap.LIMIT
        while b"\0" not in self.buffer:
            assert select.select([self.inp], [], [], max(0, end - time.monotonic()))[0], "the browser is silent"
            data = os.read(self.inp, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, session=True, **params):
        number = next(self.numbers)
        m = {"id": number, "method": method, "params": params}
        if session:
            m["sessionId"] = self.session
        os.write(self.out, json.dumps(m).encode() + b"\0")
        while True:
            got = self._message()
            if got.get("id") == number:
                assert "error" not in got, (method, got["error"])
                return got["result"]
            self.events.append(got)

    def js(self, code):
        """The value of an expression, also of a promise."""
        r = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in r, (code, r["exceptionDetails"])
        return r["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)
        tap.wait_for(lambda: self.js("document.readyState") == "complete" and self.js("location.href").startswith(url))

    def wait(self, condition):
        return tap.wait_for(lambda: self.js(condition), condition)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, code=0, modifiers=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def media(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def requested(self):
        """The addresses that were asked for, but data: ones."""
        self.js("0")
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"
                and not e["params"]["request"]["url"].startswith(("data:", "about:"))]

    def faults(self):
        """Exceptions and errors, of the content security policy too."""
        self.js("0")
        return [e["params"] for e in self.events if e.get("method") == "Runtime.exceptionThrown" or (
            e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
            and e["params"]["entry"]["source"] != "network")]

    def close(self):
        os.close(self.out)
        os.close(self.inp)
        self.process.terminate()
        self.process.wait(tap.LIMIT)
