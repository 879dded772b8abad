# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium, by the protocol of WebDriver that chromedriver speaks."""

import base64
import http.client
import json
import os
import shutil
import subprocess
import time

PATIENCE_S = int(os.environ.get("HWT_PATIENCE_S", "600"))


class Browser:
    def __init__(self, folder):
        self.log = open(f"{folder}/chromedriver.log", "w+", encoding="utf-8")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log, stderr=subprocess.STDOUT)
        self.port = None
        until = time.monotonic() + PATIENCE_S
        while not self.port and time.monotonic() < until and self.driver.poll() is None:
            time.sleep(0.1)
            with open(self.log.name, encoding="utf-8") as said:
                for line in said:
                    if "on port " in line:
                        self.port = int(line.rpartition("on port ")[2].strip(" .\n"))
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--window-size=1280,900", f"--user-data-dir={folder}/profile", "--no-first-run"]
        options = {"args": arguments, "binary": shutil.which("chromium") or shutil.which("google-chrome")}
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = self.ask("POST", "/session", {"capabilities": wanted})["sessionId"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"] + ": " + answer["message"][:500])
        return answer

    def call(self, what, body=None, method="POST"):
        return self.ask(method, f"/session/{self.session}/{what}", body if method == "POST" else None)

    def go(self, url):
        self.call("url", {"url": url})

    def js(self, script, *words):
        return self.call("execute/sync", {"script": script, "args": list(words)})

    def devtools(self, command, **parameters):
        return self.call("goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def colours(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def text(self):
        return self.js("return document.body.innerText")

    def keys(self, text):
        """To where the focus is."""
        actions = [{"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")]
        self.call("actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def until(self, script, *words):
        """Waits until the script says something true, and returns that."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            said = self.js("return " + script, *words)
            if said:
                return said
            time.sleep(0.1)
        raise TimeoutError(script + ": " + self.text())

    def console(self):
        """Errors of scripts and of the policy; not that a request failed, which a test may want."""
        return [entry["message"] for entry in self.call("se/log", {"type": "browser"})
                if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"]]

    def shot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("screenshot", method="GET")))

    def close(self):
        try:
            self.ask("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.log.close()
