"""The page of the gateway in headless Chromium: a conversation, a stop in its middle, reasoning and tool calls, a lost
connection, the key, and the cluster's live view while a rank is killed; nothing but the gateway is asked."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from browser import Browser, program  # noqa: E402
from cluster import DEMO, ROOT, Cluster  # noqa: E402
from fake import Fake  # noqa: E402

POLICY = "".join(re.findall(r'^ +"([^"]*?;? ?)"(?:\);)?$', (ROOT / "client/gateway/page_routes.c").read_text(), re.M))
LAST = "document.querySelector('#messages').lastElementChild"
BROWSER = None


@contextlib.contextmanager
def page(url):
    """The page without what an earlier one has kept; nothing but url may be asked, nothing may fail."""
    global BROWSER
    if not program():
        raise tap.Skip("there is no Chromium")
    if BROWSER is None:
        BROWSER = Browser()
    BROWSER.open(url)
    BROWSER.js("localStorage.clear(), sessionStorage.clear()")
    BROWSER.events.clear()
    BROWSER.open(url)
    yield BROWSER
    asked, faults = BROWSER.requested(), BROWSER.faults()
    assert asked and all(u.startswith(url) for u in asked), asked
    assert not faults, faults


def ask(b, text):
    b.js("document.querySelector('#text').focus()")
    b.type(text)
    b.key("Enter", 13, text="\r")


@tap.case
def a_conversation_with_a_stop():
    fake = Fake(POLICY)
    with page(fake.url) as b:
        b.wait("document.querySelector('#model').textContent == 'a <b>model</b>'")
        ask(b, "Tell me <i>a</i> story.")
        fake.say(role="assistant", content="Once <img src=x onerror=alert(1)>")
        b.wait(f"{LAST}.textContent.includes('onerror')")
        assert b.js("document.querySelectorAll('#messages img, #messages i, #messages b').length") == 0
        assert b.js("document.querySelector('#send').hidden && !document.querySelector('#stop').hidden")
        b.key("Escape", 27)  # stops
        b.wait(f"{LAST}.textContent.includes('Stopped.')")
        fake.say(content="more")
        tap.wait_for(lambda: fake.say(content="x") or fake.gone.wait(0.05), "the page ends its request")
        while not fake.events.empty():
            fake.events.get()
        assert fake.asked[0]["messages"] == [{"role": "user", "content": "Tell me <i>a</i> story."}], fake.asked
        b.js("document.querySelector('#again').click()")
        fake.say(content="Twice.")
        fake.done()
        b.wait(f"{LAST}.querySelector('.body').textContent == 'Twice.'")
        b.wait("!document.querySelector('#send').hidden")
        assert len(fake.asked) == 2 and fake.asked[1]["messages"] == fake.asked[0]["messages"]
        ask(b, "And then?")
        fake.say(content="The end.", reason="length")
        fake.done()
        b.wait(f"{LAST}.textContent.includes('limit of tokens')")
        assert [m["content"] for m in fake.asked[2]["messages"]] == ["Tell me <i>a</i> story.", "Twice.", "And then?"]
        b.open(fake.url)  # kept in the browser
        b.wait(f"{LAST}.textContent.includes('The end.')")
        b.js("document.querySelector('#new').click()")
        assert b.js("document.querySelector('#messages').children.length") == 0
        b.js("document.querySelectorAll('#conversations li button')[2].click()")
        assert b.js("document.querySelector('#messages').children.length") == 4
        b.js("document.querySelectorAll('#conversations li button[aria-label^=Delete]')[1].click()")
        assert b.js("document.querySelectorAll('#conversations li').length") == 1


@tap.case
def reasoning_tools_and_settings():
    fake = Fake(POLICY)
    with page(fake.url) as b:
        b.wait("document.querySelector('#model').textContent")
        for name, value in (("system", "Be brief."), ("temperature", "0.5"), ("max_tokens", "7"), ("seed", "3"),
                            ("tools", '[{"type": "function", "function": {"name": "f"}}]')):
            b.js(f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})"
                 f"(document.querySelector('#{name}'))")
        ask(b, "Weather?")
        fake.say(reasoning_content="I need ")
        fake.say(reasoning_content="the tool.")
        b.wait(f"{LAST}.querySelector('details.reasoning[open]')?.textContent.includes('I need the tool.')")
        fake.say(tool_calls=[{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}])
        fake.say(tool_calls=[{"index": 0, "function": {"arguments": '{"a": 1}'}}])
        fake.say(reason="tool_calls")
        fake.done()
        b.wait(f"{LAST}.querySelector('.call')?.textContent == 'f({{\"a\": 1}})'")
        got = fake.asked[0]
        assert got["messages"][0] == {"role": "system", "content": "Be brief."} and got["stream"] is True, got
        assert (got["temperature"], got["max_tokens"], got["seed"], got["tools"][0]["type"]) == (0.5, 7, 3, "function"), got
        assert "top_p" not in got


@tap.case
def a_lost_connection_and_an_error():
    fake = Fake(POLICY)
    with page(fake.url) as b:
        b.wait("document.querySelector('#model').textContent")
        ask(b, "Hello")
        fake.say(content="Half an ")
        fake.cut()
        b.wait(f"{LAST}.querySelector('.fault')?.textContent.includes('lost before the answer was complete')")
        assert "Half an" in b.js(f"{LAST}.textContent")
        b.js("document.querySelector('#again').click()")
        fake.events.put(json.dumps({"error": {"message": "the workers <b>were</b> lost"}}))
        fake.cut()
        b.wait(f"{LAST}.querySelector('.fault')?.textContent.includes('the workers <b>were</b> lost')")


@tap.case
def the_key_is_asked_for():
    fake = Fake(POLICY, key="sesame")
    with page(fake.url) as b:
        b.wait("document.querySelector('#key').open")
        b.type("wrong")
        b.key("Enter", 13, text="\r")
        b.wait("document.querySelector('#key').open && document.querySelector('#key-text').value == ''")
        b.type("sesame")
        b.key("Enter", 13, text="\r")
        b.wait("document.querySelector('#model').textContent")
        assert "sesame" not in b.js("JSON.stringify(localStorage)")
        ask(b, "Hi")
        fake.say(content="Hello.")
        fake.done()
        b.wait(f"{LAST}.textContent.includes('Hello.')")


@tap.case
def usable_by_keyboard_and_screen_reader():
    fake = Fake(POLICY)
    with page(fake.url) as b:
        b.wait("document.querySelector('#model').textContent")
        unnamed = b.js("[...document.querySelectorAll('button, input, textarea')].filter(e => !(e.textContent.trim() || "
                       "e.ariaLabel || e.labels?.length)).map(e => e.id)")
        assert unnamed == [], unnamed
        seen = set()
        for _ in range(30):
            b.key("Tab", 9)
            seen.add(b.js("document.activeElement.id || document.activeElement.ariaLabel"))
        assert {"show-chat", "show-live", "new", "text", "send", "messages"} <= seen, seen
        colours = []
        for scheme in ("light", "dark"):
            b.media(scheme)
            colours.append(b.js("getComputedStyle(document.body).backgroundColor"))
        assert len(set(colours)) == 2, colours


def live_pictures(b, url, folder):
    """The live view while requests run."""
    bench = subprocess.Popen([ROOT / "build/release/bin/ingot", "bench", "--http", url, "--concurrency", "12", "--requests",
                              "100000", "--max-tokens", "200"], stdout=subprocess.DEVNULL)
    try:
        b.size(780, 600)
        b.wait("parseInt([...document.querySelectorAll('#figures div')].find(d => "
               "d.firstChild.textContent == 'Tokens a second').lastChild.textContent) > 0")
        for scheme in ("light", "dark"):
            b.media(scheme)
            b.picture(f"{folder}/live-{scheme}.png")
    finally:
        bench.terminate()
        bench.wait()


@tap.case
def the_gateway_and_the_live_view():
    with Cluster(DEMO, tp=2, http="127.0.0.1:0") as c:
        url = tap.wait_for(lambda: re.search(r"HTTP at (http://\S+)/v1", c.log()), "the gateway's address")[1] + "/"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "text/html"})) as r:
            assert r.headers["Content-Security-Policy"] == POLICY and "default-src 'none'" in POLICY, POLICY
            assert r.headers["X-Content-Type-Options"] == "nosniff"
        with page(url) as b:
            b.wait("document.querySelector('#model').textContent == 'demo-model'")
            b.js("(e => { e.value = '0'; e.dispatchEvent(new Event('change')); })(document.querySelector('#temperature'))")
            ask(b, "What is Ingot?")
            b.wait(f"{LAST}.querySelector('.body')?.textContent.includes('language models') && "
                   "!document.querySelector('#send').hidden")
            pictures = os.environ.get("INGOT_PICTURES")
            for scheme in ("light", "dark") if pictures else ():
                b.media(scheme)
                b.picture(f"{pictures}/page-{scheme}.png")
            b.js("document.querySelector('#show-live').click()")
            figure = "[...document.querySelectorAll('#figures div')].find(d => d.firstChild.textContent == '%s').lastChild.textContent"
            b.wait("document.querySelector('#state').textContent == 'Ready'")
            if pictures:
                live_pictures(b, url, pictures)
            assert b.js(figure % "Ranks") == "2" and int(b.js(figure % "Tokens generated")) > 0
            assert b.js("document.querySelector('#groups').rows.length") == 1
            os.kill(c.serve.pid, signal.SIGSTOP)  # no other worker until it has been seen that there is none
            try:
                os.kill(c.worker_pids()[0], signal.SIGKILL)
                b.wait("document.querySelector('#state').textContent == 'Waiting for workers'")
            finally:
                os.kill(c.serve.pid, signal.SIGCONT)
            b.wait("document.querySelector('#state').textContent == 'Ready'")
            b.wait(figure % "Ranks" + " == '2'")


try:
    tap.main()
finally:
    if BROWSER:
        BROWSER.close()
